// SPDX-License-Identifier: Apache-2.0
//! Network interfaces into the fabric.

use crate::{Check, Machine};

impl Machine<'_> {
    /// The interface is there and up, and takes packets of `mtu` octets if one is wanted.
    pub fn interface(&self, interface: &str, mtu: Option<u32>) -> Check {
        let name = "interface";
        let file = |file: &str| self.read(&format!("sys/class/net/{interface}/{file}"));
        let (Ok(state), Ok(own)) = (file("operstate"), file("mtu")) else {
            return Check::missing(name, format!("{interface} is not there"), "ip link show has the names");
        };
        let found = format!("{interface} is {state}, MTU {own}");
        // Those without a carrier of their own, such as a dummy interface, are "unknown" and take packets.
        if !["up", "unknown"].contains(&state.as_str()) {
            return Check::missing(
                name,
                found,
                format!("ip link set {interface} up, and see to its cable and its peer"),
            );
        }
        match mtu {
            Some(wanted) if own.parse().is_ok_and(|own: u32| own < wanted) => {
                Check::missing(name, found, format!("ip link set {interface} mtu {wanted}"))
            }
            _ => Check::met(name, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;

    #[test]
    fn an_interface_has_to_be_up_and_to_have_the_mtu_of_its_link() {
        let root = root(&[
            ("sys/class/net/eth1/operstate", "up\n"),
            ("sys/class/net/eth1/mtu", "1500\n"),
            ("sys/class/net/eth2/operstate", "lowerlayerdown\n"),
            ("sys/class/net/eth2/mtu", "9000\n"),
        ]);
        let of = |interface: &str, mtu| Machine::at(root.path()).interface(interface, mtu);
        assert!(of("eth1", None).is_met() && of("eth1", Some(1500)).is_met());
        let small = of("eth1", Some(9000));
        assert_eq!((small.found.as_str(), small.fix()), ("eth1 is up, MTU 1500", Some("ip link set eth1 mtu 9000")));
        assert!(of("eth2", None).fix().is_some_and(|fix| fix.starts_with("ip link set eth2 up")));
        assert_eq!(of("eth3", None).found, "eth3 is not there");
    }
}
