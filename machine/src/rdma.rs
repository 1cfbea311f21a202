// SPDX-License-Identifier: Apache-2.0
//! RDMA devices of a host.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Check, Machine};

const DEVICES: &str = "/sys/class/infiniband";

impl Machine<'_> {
    /// A port of an RDMA device is active, over Ethernet.
    pub(crate) fn rdma_device(&self) -> Check {
        let name = "RDMA device";
        let ports = self.rdma_ports();
        if ports.is_empty() {
            return Check::missing(
                name,
                "none",
                "load the driver of the NIC, or: rdma link add rxe0 type rxe netdev INTERFACE",
            );
        }
        let described = ports.iter().map(|port| format!("{} {} over {}", port.device, port.state, port.link_layer));
        let found = described.collect::<Vec<_>>().join(", ");
        let good = ports.iter().any(RdmaPort::is_usable);
        Check::new(name, found, good, || {
            "RoCEv2 needs a port of link layer Ethernet that is ACTIVE: ip link set INTERFACE up, and see to its cable"
                .to_owned()
        })
    }

    /// An active port has a GID of RoCEv2 with an IPv6 address, which queue pairs of a group are made with.
    pub(crate) fn roce_gid(&self) -> Check {
        let usable: Vec<RdmaPort> = self.rdma_ports().into_iter().filter(RdmaPort::is_usable).collect();
        let gids: Vec<String> = usable.iter().filter_map(RdmaPort::gid).collect();
        let found = if gids.is_empty() { "none with an IPv6 address".to_owned() } else { gids.join(", ") };
        Check::new("GID of RoCEv2", found, !gids.is_empty(), || {
            "ip -6 address add ADDRESS/64 dev INTERFACE: the host's address of the topology".to_owned()
        })
    }

    fn rdma_ports(&self) -> Vec<RdmaPort> {
        let names = |directory: &Path| {
            let mut names: Vec<PathBuf> =
                fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
            names.sort();
            names
        };
        let read = |file: PathBuf| fs::read_to_string(file).unwrap_or_default().trim().to_owned();
        let devices = names(&self.within(Path::new(DEVICES)));
        let ports = devices.iter().flat_map(|device| {
            let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
            names(&device.join("ports")).into_iter().map(move |directory| RdmaPort {
                device: name.clone(),
                state: read(directory.join("state")).split(' ').next_back().unwrap_or_default().to_owned(),
                link_layer: read(directory.join("link_layer")),
                directory,
            })
        });
        ports.collect()
    }
}

struct RdmaPort {
    device: String,
    /// Without its number, `ACTIVE`.
    state: String,
    link_layer: String,
    directory: PathBuf,
}

impl RdmaPort {
    fn is_usable(&self) -> bool {
        self.state == "ACTIVE" && self.link_layer == "Ethernet"
    }

    /// The first GID of RoCEv2 with an IPv6 address that is no link-local one.
    fn gid(&self) -> Option<String> {
        let of = |index: u32| {
            let kind = fs::read_to_string(self.directory.join(format!("gid_attrs/types/{index}"))).ok()?;
            let gid = fs::read_to_string(self.directory.join(format!("gids/{index}"))).ok()?.trim().to_owned();
            let is_address = !["fe80:", "0000:0000:0000:0000:0000:"].iter().any(|other| gid.starts_with(other));
            (kind.trim() == "RoCE v2" && is_address).then_some(gid)
        };
        (0..MAX_GIDS).find_map(of)
    }
}

/// Entries of a port's table that are read.
const MAX_GIDS: u32 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;

    const PORT: &str = "sys/class/infiniband/rxe0/ports/1";

    /// A host with one port: its state, link layer, and GIDs by type.
    fn host(state: &str, layer: &str, gids: &[(&str, &str)]) -> tempfile::TempDir {
        let root = root(&[(&format!("{PORT}/state"), state), (&format!("{PORT}/link_layer"), layer)]);
        for (i, (kind, gid)) in gids.iter().enumerate() {
            crate::testing::put(root.path(), &format!("{PORT}/gid_attrs/types/{i}"), kind);
            crate::testing::put(root.path(), &format!("{PORT}/gids/{i}"), gid);
        }
        root
    }

    const ADDRESS: &str = "fd00:0000:0000:0001:0000:0000:0000:0002\n";

    #[test]
    fn a_device_has_to_be_active_over_ethernet() {
        let of = |state, layer| Machine::at(host(state, layer, &[]).path()).rdma_device();
        let good = of("4: ACTIVE\n", "Ethernet\n");
        assert!(good.is_met() && good.found == "rxe0 ACTIVE over Ethernet", "{good:?}");
        assert!(!of("1: DOWN\n", "Ethernet\n").is_met());
        assert!(!of("4: ACTIVE\n", "InfiniBand\n").is_met());
        let none = Machine::at(root(&[]).path()).rdma_device();
        assert!(none.fix().is_some_and(|fix| fix.contains("rdma link add")), "{none:?}");
    }

    /// Catches an IPv4 or link-local GID, one of RoCEv1, and one of a port that is down, that count.
    #[test]
    fn a_gid_has_to_be_of_roce_v2_with_an_ipv6_address() {
        let link_local = "fe80:0000:0000:0000:0000:0000:0000:0002\n";
        let of_four = "0000:0000:0000:0000:0000:ffff:0a00:0001\n";
        let of = |state, gids: &[(&str, &str)]| Machine::at(host(state, "Ethernet\n", gids).path()).roce_gid();
        let good = of("4: ACTIVE\n", &[("RoCE v2\n", link_local), ("RoCE v2\n", of_four), ("RoCE v2\n", ADDRESS)]);
        assert!(good.is_met() && good.found == ADDRESS.trim(), "{good:?}");
        for gids in [&[("RoCE v2\n", link_local)][..], &[("RoCE v2\n", of_four)], &[("IB/RoCE v1\n", ADDRESS)], &[]] {
            assert!(!of("4: ACTIVE\n", gids).is_met(), "{gids:?}");
        }
        assert!(!of("1: DOWN\n", &[("RoCE v2\n", ADDRESS)]).is_met());
    }
}
