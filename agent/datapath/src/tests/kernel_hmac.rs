// SPDX-License-Identifier: Apache-2.0
//! The HMAC TLV and Linux: its seg6 checks what our headend sends, and a node accepts what its seg6 sends.

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};

use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret};
use canopy_packet::srh::Srh;

use super::hmac::keys;
use super::*;
use crate::srh_hmac;

const KEY_ID: u32 = 7;
/// A passphrase: Linux takes its octets as the key.
const PASSPHRASE: &str = "an HMAC passphrase of 32 octets!";

fn key(flag_bit: FlagBit) -> HmacKey {
    let id = HmacKeyId::new("id", KEY_ID).unwrap();
    HmacKey { id, secret: HmacSecret::new(PASSPHRASE.as_bytes().try_into().unwrap()), flag_bit }
}

fn ip(args: &str) {
    let out = Command::new("ip").args(args.split_whitespace()).output().unwrap();
    assert!(out.status.success(), "ip {args}: {}", String::from_utf8_lossy(&out.stderr));
}

fn sysctl(name: &str, value: &str) {
    std::fs::write(format!("/proc/sys/net/ipv6/{name}"), value).unwrap_or_else(|e| panic!("{name}: {e}"));
}

fn index(name: &str) -> u32 {
    // SAFETY: the name is a NUL-terminated string that lives through the call.
    unsafe { libc::if_nametoindex(std::ffi::CString::new(name).unwrap().as_ptr()) }
}

/// A new namespace of this thread with seg6, the key, and two pairs of interfaces: `in`, whose far end `inp` sends to it, and `out`, whose
/// far end `outp` receives.
fn linux() {
    // SAFETY: moves only this thread into a new network namespace; no memory is involved.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare(CLONE_NEWNET) needs root");
    sysctl("conf/default/addr_gen_mode", "1");
    ip("link set dev lo up");
    for name in ["in", "out"] {
        ip(&format!("link add dev {name} mtu 9000 type veth peer name {name}p mtu 9000"));
        ip(&format!("link set dev {name}p up"));
        ip(&format!("link set dev {name} up"));
        sysctl(&format!("conf/{name}/seg6_enabled"), "1");
    }
    // Without a terminal, `ip` reads the passphrase from its standard input.
    let mut set = Command::new("setsid");
    set.args(["--wait", "ip", "sr", "hmac", "set", &KEY_ID.to_string(), "sha256"]);
    let mut set = set.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    set.stdin.take().unwrap().write_all(format!("{PASSPHRASE}\n").as_bytes()).unwrap();
    assert!(set.wait().unwrap().success());
    let shown = Command::new("ip").args(["sr", "hmac", "show"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(PASSPHRASE), "the kernel has the key: {shown:?}");
}

/// The encapsulated packet with this destination.
fn to(mut packet: Vec<u8>, dst: std::net::Ipv6Addr) -> Vec<u8> {
    packet[24..40].copy_from_slice(&dst.octets());
    packet
}

/// What our headend sends for `psn`.
fn from_headend(flag_bit: FlagBit, psn: u32) -> Vec<u8> {
    let hmac = keys(&[key(flag_bit)], 0, true);
    let bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, hmac, ..Shape::default() });
    bed.run("u0", &data(Opcode::SEND_ONLY, psn, b"abc")).1
}

#[test]
fn linux_accepts_what_our_headend_signs_in_its_mode_and_nothing_else() {
    let (rfc, linux_mode) = (from_headend(FlagBit::Rfc8754, 100), from_headend(FlagBit::Linux, 101));
    let mut damaged = from_headend(FlagBit::Linux, 102);
    // An octet of the HMAC.
    let end = 40 + SrhView::parse(&damaged[40..]).unwrap().wire_len();
    damaged[end - 1] ^= 1;
    let unsigned = {
        let bed = Testbed::new(&Shape { receivers: 0, children: 1, headend: true, ..Shape::default() });
        bed.run("u0", &data(Opcode::SEND_ONLY, 103, b"abc")).1
    };
    linux();
    // The kernel's End: the destination is its own, and the packet goes to the next segment, the Proxy Address.
    let sid: std::net::Ipv6Addr = "2001:db8:5::1".parse().unwrap();
    ip(&format!("-6 addr add {sid}/128 dev lo nodad"));
    ip(&format!("-6 route add {}/128 dev out", proxy()));
    ip(&format!("-6 neigh add {} dev out lladdr 02:00:00:00:00:02 nud permanent", proxy()));
    ip("-6 route add fcff::/16 dev in");
    sysctl("conf/all/forwarding", "1");
    for name in ["all", "in"] {
        sysctl(&format!("conf/{name}/seg6_enabled"), "1");
        sysctl(&format!("conf/{name}/seg6_require_hmac"), "1");
    }
    let shown = Command::new("ip").args(["-o", "link", "show", "dev", "in"]).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mac = shown.split_whitespace().skip_while(|w| *w != "link/ether").nth(1).unwrap();
    let mac: Vec<u8> = mac.split(':').map(|octet| u8::from_str_radix(octet, 16).unwrap()).collect();
    let (sender, tap) = (PacketSocket::open(index("inp")), Tap::open(index("outp")));
    // The last one is accepted, so what did not arrive before it was refused.
    for packet in [rfc, damaged, unsigned, linux_mode.clone()] {
        sender.send(&[&mac[..], &[2, 0, 0, 0, 0, 1, 0x86, 0xDD], &to(packet, sid)].concat());
    }
    let passed = tap.next(|p| p.len() > 40 && p[6] == 43);
    let (srh, sent) = (Srh::parse(&passed[40..]).unwrap(), Srh::parse(&linux_mode[40..]).unwrap());
    assert_eq!(srh, Srh { segments_left: 0, ..sent }, "only the packet in Linux's mode, with the next segment");
    assert_eq!(Ipv6::parse(&passed).unwrap().dst, proxy());
}

#[test]
fn we_accept_what_linux_signs_and_compute_the_same() {
    linux();
    // As the test bed's parent node 9 would encapsulate.
    let (source, first) =
        (plan().node_address(node(9)), plan().replication(node(9), canopy_model::ids::TreeId::new("t", 7).unwrap()));
    ip(&format!("sr tunsrc set {source}"));
    ip("-6 addr add 2001:db8:7::1/64 dev out nodad");
    ip(&format!("-6 route add 2001:db8:8::/64 encap seg6 mode encap segs {first},{} hmac {KEY_ID} dev out", proxy()));
    ip(&format!("-6 route add {first}/128 dev out"));
    ip(&format!("-6 neigh add {first} dev out lladdr 02:00:00:00:00:02 nud permanent"));
    let tap = Tap::open(index("outp"));
    UdpSocket::bind("[::]:0").unwrap().send_to(b"x", "[2001:db8:8::1]:9").unwrap();
    let made = tap.next(|p| p.len() > 40 && p[6] == 43);
    let srh = Srh::parse(&made[40..]).unwrap();
    let segments = vec![proxy(), first];
    assert_eq!((Ipv6::parse(&made).unwrap().src, &srh.segments, srh.flags), (source, &segments, 8));
    let tlv = srh.hmac.clone().unwrap();
    let computed = srh_hmac::hmac(&key(FlagBit::Linux), source, &segments).to_vec();
    assert_eq!((tlv.key_id, tlv.hmac), (KEY_ID, computed));

    // The kernel's outer header and SRH in front of the group's data.
    let sent = data(Opcode::SEND_ONLY, 100, b"abc");
    let mut packet = to([&made[..40 + srh.wire_len()], &sent].concat(), end_mt());
    let len = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&len.to_be_bytes());
    let bed = |flag_bit| {
        let hmac = keys(&[key(flag_bit)], 0, true);
        Testbed::new(&Shape { receivers: 1, provisioned: true, hmac, ..Shape::default() })
    };
    let edge = bed(FlagBit::Linux);
    assert_eq!(edge.run("u0", &packet).1, copy_for(0, &sent));
    drop(edge);
    let mut edge = bed(FlagBit::Rfc8754);
    assert_eq!(edge.run("u0", &packet).0, SHOT);
    assert_eq!(edge.drops(), [("hmac_mismatch".to_owned(), 1)].into());
}
