// SPDX-License-Identifier: Apache-2.0
//! Ports at which a program of Canopy listens.

use crate::{Check, Machine};

/// State of a TCP socket that listens, in `/proc/net/tcp`.
const LISTENS: &str = "0A";

impl Machine<'_> {
    /// No program listens at this TCP port.
    pub(crate) fn tcp_port_free(&self, port: u16) -> Check {
        self.port_free("TCP port", "tcp", port, "set other ports in the controller's configuration")
    }

    /// No program has this UDP port.
    pub(crate) fn udp_port_free(&self, port: u16) -> Check {
        self.port_free("UDP port", "udp", port, "set stamp.port of all agents")
    }

    fn port_free(&self, name: &'static str, protocol: &str, port: u16, otherwise: &str) -> Check {
        let tables = ["", "6"].map(|version| self.read(&format!("proc/net/{protocol}{version}")).ok());
        // A machine without IPv6 has one of them alone.
        if tables.iter().all(Option::is_none) {
            return Check::unknown(name, format!("/proc/net/{protocol} cannot be read"), "mount /proc");
        }
        let is_taken = tables.iter().flatten().flat_map(|table| table.lines().skip(1)).any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let (local, state) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
            let own = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
            own == Some(port) && (protocol == "udp" || state == LISTENS)
        });
        if is_taken {
            let fix = format!("ss --listening --processes --{protocol} has the program: end it, or {otherwise}");
            return Check::missing(name, format!("{port} is taken"), fix);
        }
        Check::met(name, format!("{port} is free"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::root;

    const HEAD: &str =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

    #[test]
    fn a_port_is_taken_by_a_socket_that_listens_at_any_address() {
        let four =
            format!("{HEAD}   0: 0100007F:21C1 00000000:0000 0A 0 0\n   1: 0100007F:21C2 0100007F:9000 01 0 0\n");
        let six =
            format!("{HEAD}   0: 00000000000000000000000000000000:21C3 00000000000000000000000000000000:0000 0A 0 0\n");
        let root = root(&[("proc/net/tcp", &four), ("proc/net/tcp6", &six)]);
        let free = |port| Machine::at(root.path()).tcp_port_free(port);
        assert_eq!(free(8641).found, "8641 is taken");
        assert!(free(8642).is_met(), "a connection from that port is no listener");
        assert!(!free(8643).is_met());
        assert!(free(8644).is_met());
        assert!(matches!(Machine::at(root.path()).udp_port_free(862).verdict, Verdict::Unknown(_)));
    }

    #[test]
    fn a_udp_port_is_taken_by_any_socket() {
        let table = format!("{HEAD}   0: 00000000:035E 00000000:0000 07 0 0\n");
        let root = root(&[("proc/net/udp", &table)]);
        assert!(!Machine::at(root.path()).udp_port_free(862).is_met());
        assert!(Machine::at(root.path()).udp_port_free(863).is_met());
    }
}
