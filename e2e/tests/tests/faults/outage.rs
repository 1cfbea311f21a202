// SPDX-License-Identifier: Apache-2.0
//! Outages: data does not reach a receiver, or nothing can be changed.

use std::path::PathBuf;
use std::process::Command;

use canopy_e2e::Paused;
use serde_json::json;

use super::bench::{Fault, Made, Watched, edge_of, end, endless, in_device, link_to, python};

/// Receivers and their hosts.
pub(super) const RECEIVERS: [Fault; 4] = [
    Fault { name: "dead receiver", make: dead_receiver },
    Fault { name: "host that takes nothing", make: silent_host },
    Fault { name: "host MTU", make: host_mtu },
    Fault { name: "wrong QPN", make: wrong_qpn },
];
/// Links, nodes and what they carry.
pub(super) const FABRIC: [Fault; 8] = [
    Fault { name: "black hole", make: black_hole },
    Fault { name: "5 % loss", make: loss },
    Fault { name: "node MTU", make: node_mtu },
    Fault { name: "unprovisioned TLV", make: unprovisioned_tlv },
    Fault { name: "wrong VLAN", make: wrong_vlan },
    Fault { name: "frame that is not IPv6", make: not_ipv6 },
    Fault { name: "source that sends READ Requests", make: refused_source },
    Fault { name: "interface of a host down", make: host_interface },
];
/// The last one of its lab: the link that was made for it cannot be made again.
pub(super) const INTERFACE_GONE: Fault = Fault { name: "interface that is gone", make: interface_gone };
/// Programs and the store.
pub(super) const PROGRAMS: [Fault; 3] = [
    Fault { name: "agent hangs", make: agent_hangs },
    Fault { name: "agent killed", make: agent_killed },
    Fault { name: "store read-only", make: store_read_only },
];

fn stalled(group: &str, host: &str) -> String {
    format!("ReceiverStalled member/{group}/{host}")
}

fn dead_receiver(w: &mut Watched) -> Made {
    let dead = Paused::process(w.load.pid("r3").unwrap()).unwrap();
    Made::new(stalled("g", "r3"), "group g", "r3 answers Echo Requests of 4180 bytes, so data reaches it").mended_by(
        |w| {
            w.bed.wait_phase("g", "Stalled").unwrap();
            let markdown = w.canopyctl(&["why", "host", "r3", "-o", "markdown"]);
            assert!(markdown.contains("- **CRITICAL** receiver r3 of group g acknowledges nothing"), "{markdown}");
            drop(dead);
        },
    )
}

/// Its carrier stays up: only the probe shows that the host takes no packet.
fn silent_host(w: &mut Watched) -> Made {
    w.bed.lab.set_loss("r4/eth0", "100%".parse().unwrap()).unwrap();
    Made::new(stalled("g", "r4"), "group g", "r4 answers none of 3 Echo Requests: the host is down")
        .mended_by(|w| w.bed.lab.set_loss("r4/eth0", "0%".parse().unwrap()).unwrap())
}

fn host_mtu(w: &mut Watched) -> Made {
    in_device(&w.bed, "r5", "ip link set eth0 mtu 1280");
    let shown = "r5 answers Echo Requests of 64 bytes but not of 4180: its MTU is too small";
    Made::new(stalled("g", "r5"), "host r5", shown).mended_by(|w| in_device(&w.bed, "r5", "ip link set eth0 mtu 9000"))
}

/// In another group, whose source and other receiver are hosts of the first.
fn wrong_qpn(w: &mut Watched) -> Made {
    w.bed.lab.create_group("q", json!({"pathMtu": 1024, "stallAfterMs": 500})).unwrap();
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": "r2"},
        "spec": {"host": "r2", "role": "receiver", "qpn": 0x77}});
    let (status, body) = w.bed.lab.rest("POST", "/api/v1/groups/q/members", Some(&member)).unwrap();
    assert_eq!(status, 201, "{body}");
    let load = endless(&w.bed, "q", "r5", &["r4"]);
    let shown = "r2 answers Echo Requests of 1108 bytes, so data reaches it: there is no queue pair 119, or";
    Made::new(stalled("q", "r2"), "group q", shown).mended_by(|w| {
        let leaves = |host: &str| {
            let path = format!("/api/v1/groups/q/members/{host}");
            let (status, body) = w.bed.lab.rest("DELETE", &path, None).unwrap();
            assert!(status < 300, "{host}: {status}: {body}");
        };
        leaves("r2");
        let flows = |_: &_| Ok(w.bed.group("q")?["delivery"]["state"] == "Flowing");
        w.bed.lab.wait("data to be acknowledged", flows).unwrap();
        // Killed first, they would leave data that no receiver acknowledges, which is an outage of its own.
        ["r5", "r4"].into_iter().for_each(leaves);
        drop(load);
    })
}

fn lossy(w: &mut Watched, code: &str, loss: &str) -> Made {
    let (link, port) = link_to(&w.bed, "n2");
    w.bed.lab.set_loss(&port, loss.parse().unwrap()).unwrap();
    Made::new(format!("{code} link/{link}"), &format!("link {link}"), code)
        .mended_by(move |w| w.bed.lab.set_loss(&port, "0%".parse().unwrap()).unwrap())
}

fn black_hole(w: &mut Watched) -> Made {
    lossy(w, "LinkBlackHole", "100%")
}

fn loss(w: &mut Watched) -> Made {
    lossy(w, "LinkLossy", "5%")
}

fn node_mtu(w: &mut Watched) -> Made {
    let (_, port) = link_to(&w.bed, "n2");
    let (node, interface) = port.split_once('/').map(|(n, i)| (n.to_owned(), i.to_owned())).unwrap();
    in_device(&w.bed, &node, &format!("ip link set {interface} mtu 1500"));
    let shown = format!("interface {interface} has MTU 1500");
    Made::new(format!("PortMisconfigured port/{port}"), &format!("node {node}"), shown)
        .mended_by(move |w| in_device(&w.bed, &node, &format!("ip link set {interface} mtu 9000")))
}

/// A packet of the group is sent again to n1 with other queue pairs in its TLVs.
fn unprovisioned_tlv(w: &mut Watched) -> Made {
    const FORGE: &str = "import socket, time\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))\n\
        s.bind(('PORT', 3))\n\
        f = b''\n\
        while not (f[12:14] == bytes.fromhex('86dd') and f[20] == 43 and f[56] == 4):\n    f = bytearray(s.recv(65535))\n\
        tlv, end = 54 + 8 + 32, 54 + (f[55] + 1) * 8\n\
        while tlv < end:\n    \
            if f[tlv] == 0:\n        tlv += 1\n        continue\n    \
            if f[tlv] == 124:\n        \
                for qpn in range(tlv + 24 + 18, tlv + 2 + f[tlv + 1], 20):\n            f[qpn] ^= 1\n    \
            tlv += 2 + f[tlv + 1]\n\
        while True:\n    s.send(f)\n    time.sleep(0.05)\n";
    let (_, port) = link_to(&w.bed, "n1");
    let (parent, interface) = port.split_once('/').unwrap();
    let forger = python(&w.bed, parent, &FORGE.replace("PORT", interface));
    Made::new("PacketsForged node/n1", "node n1", "tlv_unprovisioned").mended_by(|_| end(forger))
}

/// r1 sends such frames all the time.
fn frames(w: &Watched, head: &str) -> Made {
    const FRAMES: &str = "import socket, time\n\
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\n\
        s.bind(('eth0', 0))\n\
        while True:\n    s.send(bytes.fromhex('ffffffffffff020000000009HEAD') + bytes(60))\n    time.sleep(0.05)\n";
    let (node, port) = edge_of(&w.bed, "r1");
    let sender = python(&w.bed, "r1", &FRAMES.replace("HEAD", head));
    Made::new(format!("HostRefused port/{node}/{port}"), &format!("node {node}"), "edge_frame").mended_by(|w| {
        assert_eq!(w.phase(), "Ready", "groups are not affected");
        end(sender);
    })
}

fn wrong_vlan(w: &mut Watched) -> Made {
    frames(w, "8100000786dd60")
}

fn not_ipv6(w: &mut Watched) -> Made {
    frames(w, "080045")
}

/// Another program of the source's host, to the group's Designated QPN. What the source itself sends is not affected.
fn refused_source(w: &mut Watched) -> Made {
    const READS: &str = "import socket, struct, time\n\
        s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)\n\
        bth = struct.pack('>BBHII', 0x0c, 0x40, 0xffff, QPN, 0)\n\
        while True:\n    s.sendto(bth + bytes(16 + 4), ('PROXY', 4791))\n    time.sleep(0.05)\n";
    let connection = w.bed.group("g").unwrap()["connection"].clone();
    let (proxy, qpn) = (connection["proxyAddress"].as_str().unwrap(), connection["designatedQpn"].as_u64().unwrap());
    let sender = python(&w.bed, "s1", &READS.replace("PROXY", proxy).replace("QPN", &qpn.to_string()));
    Made::new("SourceRefused group/g", "group g", "opcode_refused").mended_by(|w| {
        assert_eq!(w.phase(), "Ready", "the source's own data is forwarded");
        end(sender);
    })
}

/// Its addresses go with it, so the lab's host comes back, and only the problem of the port closes.
fn host_interface(w: &mut Watched) -> Made {
    let (node, port) = edge_of(&w.bed, "r1");
    let keep = "sysctl -q -w net.ipv6.conf.eth0.keep_addr_on_down=1";
    in_device(&w.bed, "r1", keep);
    in_device(&w.bed, "r1", "ip link set eth0 down");
    Made::new(format!("PortDown port/{node}/{port}"), "group g", format!("because of port {node}/{port}")).mended_by(
        |w| {
            w.bed.wait_phase("g", "Degraded").unwrap();
            in_device(&w.bed, "r1", "ip link set eth0 up");
            in_device(&w.bed, "r1", "ip -6 route replace default via fe80::1 dev eth0");
        },
    )
}

fn interface_gone(w: &mut Watched) -> Made {
    let (link, port) = link_to(&w.bed, "n2");
    let (node, interface) = port.split_once('/').unwrap();
    in_device(&w.bed, node, &format!("ip link del {interface}"));
    Made::new(format!("LinkDown link/{link}"), &format!("link {link}"), "does not exist")
}

fn agent_hangs(w: &mut Watched) -> Made {
    let headend = w.bed.group("g").unwrap()["tree"][0]["node"].as_str().unwrap().to_owned();
    let hung = Paused::new(&w.bed, &[&headend]).unwrap();
    let why = format!("node {headend}");
    Made::new(format!("AgentSilent node/{headend}"), &why, "no telemetry of it arrives").mended_by(|w| {
        assert_eq!(w.phase(), "Unknown");
        drop(hung);
    })
}

fn agent_killed(w: &mut Watched) -> Made {
    w.bed.lab.kill_agent("n2").unwrap();
    let killed = Made::new("AgentDisconnected node/n2", "node n2", "no agent of this node is connected");
    killed.named_at_once("Agents that restart: n2 (killed or cut off, ").mended_by(|w| {
        assert_eq!(w.phase(), "Ready", "the node forwards");
        w.bed.lab.start_agent("n2").unwrap();
    })
}

/// The store is on a small disk of its own as long as this exists.
struct FullDisk(PathBuf);

impl Drop for FullDisk {
    fn drop(&mut self) {
        _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn store_read_only(w: &mut Watched) -> Made {
    let store = w.bed.lab.dir().join("store");
    let kept = w.bed.lab.dir().join("store-kept");
    w.bed.lab.kill_controller().unwrap();
    run(Command::new("cp").arg("-aT").args([&store, &kept]));
    run(Command::new("mount").args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&store));
    let disk = FullDisk(store.clone());
    run(Command::new("cp").arg("-aT").args([&kept, &store]));
    w.bed.lab.start_controller().unwrap();
    w.bed.lab.wait_synced().unwrap();
    // The disk fills up, and the next change does not fit.
    let fill = store.join("fill");
    _ = Command::new("dd").args(["if=/dev/zero", &format!("of={}", fill.display()), "bs=64k"]).output().unwrap();
    let mut n = 0;
    w.bed
        .lab
        .wait("a change that does not fit", |lab| {
            n += 1;
            let name = format!("full-{n}");
            let body = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": {}});
            Ok(lab.rest("POST", "/api/v1/groups", Some(&body))?.0 == 507)
        })
        .unwrap();
    Made::new("StoreReadOnly controller/controller", "group g", "group g is").mended_by(move |w| {
        std::fs::remove_file(fill).unwrap();
        w.bed.lab.wait("changes to be taken", |_| Ok(super::bench::causes(&w.bed).is_empty())).unwrap();
        // A store that went back would be that of an earlier term.
        w.bed.lab.kill_controller().unwrap();
        run(Command::new("cp").arg("-aT").args([&store, &kept]));
        drop(disk);
        run(Command::new("cp").arg("-aT").args([&kept, &store]));
        w.bed.lab.start_controller().unwrap();
        w.bed.lab.wait_synced().unwrap();
    })
}
