// SPDX-License-Identifier: Apache-2.0
//! The real program, on frames (BPF_PROG_TEST_RUN). Needs root.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use canopy_packet::icmpv6::verify;
use canopy_paths::program::Header;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};

use super::*;

const PASS: i32 = -1;
const DROP: i32 = 2;
const REDIRECT: i32 = 7;
const ETH: usize = 14;
const UDP: u8 = 17;
const TCP: u8 = 6;

fn a(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn net(text: &str) -> Ipv6Net {
    text.parse().unwrap()
}

fn id(value: u32) -> PathId {
    PathId::new(value).unwrap()
}

fn host() -> Ipv6Addr {
    a("2001:db8:1::9")
}

/// With maps of its own, which no directory has.
fn unpinned(mode: Mode, gap: Duration) -> Kernel {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = Path::new("/sys/fs/bpf").join(format!("canopy-steer-test-{}-{number}", std::process::id()));
    let kernel = Kernel::load(&dir, 1, mode, gap);
    canopy_bpf::steer::unpin(&dir).unwrap();
    kernel.unwrap()
}

fn steered() -> Steered {
    let (own, hosts) = (net("2001:db8:1::/64"), net("2001:db8::/45"));
    Steered { own, hosts, block: UsidBlock::at_front(a("5f00::")) }
}

/// Programs 1 ..= `paths` to 2001:db8:3::/64, which differ in their second uSID, in the slots by turns.
fn kernel(mode: Mode, gap: Duration, paths: u32) -> Kernel {
    let mut kernel = unpinned(mode, gap);
    kernel.set_control(Some(steered())).unwrap();
    kernel.set_source(host());
    for path in 1..=paths {
        let destination = a(&format!("5f00:0:1:{:x}:3::", 0x100 + path));
        let header = Header { destination, segments: Vec::new(), segments_left: 0 };
        kernel.carry_out(&Command::Program { id: id(path), header, most: 1400 }).unwrap();
    }
    let mut at = 0;
    let slots = Box::new([(); SLOTS].map(|()| {
        at += 1;
        id((at - 1) % paths + 1)
    }));
    kernel.carry_out(&Command::Destination { prefix: net("2001:db8:3::/64"), slots, is_pinned: false }).unwrap();
    kernel
}

/// An Ethernet frame with this IPv6 packet; traffic class b9, flow label 12345.
fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd, 0x6b, 0x91, 0x23, 0x45];
    frame.extend((payload.len() as u16).to_be_bytes());
    frame.extend([next_header, 17]);
    frame.extend(src.octets());
    frame.extend(dst.octets());
    frame.extend(payload);
    frame
}

fn udp(sport: u16, dport: u16, content: &[u8]) -> Vec<u8> {
    let length = 8 + content.len() as u16;
    [sport, dport, length, 0].iter().flat_map(|word| word.to_be_bytes()).chain(content.iter().copied()).collect()
}

/// A RoCEv2 packet.
fn roce(opcode: u8, qpn: u32, psn: u32) -> Vec<u8> {
    let mut bth = vec![opcode, 0, 0xff, 0xff];
    bth.extend(qpn.to_be_bytes());
    bth.extend(psn.to_be_bytes());
    bth.extend([0x5a; 64]);
    ipv6(host(), a("2001:db8:3::7"), UDP, &udp(50_000, 4791, &bth))
}

/// The path id of what leaves for this frame.
fn taken(kernel: &Kernel, frame: &[u8]) -> u32 {
    let run = kernel.steer.send(frame).unwrap();
    assert_eq!(run.verdict, PASS);
    assert_eq!(run.frame.len(), frame.len() + 40, "no header");
    u32::from_be_bytes([0, run.frame[ETH + 1] & 0xf, run.frame[ETH + 2], run.frame[ETH + 3]])
}

fn counter(kernel: &Kernel, name: &str) -> u64 {
    kernel.counters().unwrap()[COUNTERS.iter().position(|counter| *counter == name).unwrap()]
}

/// Octets worked out by hand from RFC 8986 section 5.2 and RFC 6040. Catches a traffic class or a payload length that is not the packet's.
#[test]
fn a_packet_leaves_behind_the_header_of_its_program() {
    let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    let frame = roce(4, 0x11, 1);
    let out = kernel.steer.send(&frame).unwrap().frame;
    let mut expected = frame[..ETH].to_vec();
    // Version 6, traffic class b9, flow label 00001; 124 octets behind; IPv6; hop limit 64.
    expected.extend([0x6b, 0x90, 0x00, 0x01, 0x00, 0x7c, 41, 64]);
    expected.extend(host().octets());
    expected.extend([0x5f, 0, 0, 0, 0, 1, 1, 1, 0, 3, 0, 0, 0, 0, 0, 0]);
    expected.extend(&frame[ETH..]);
    assert_eq!(frame.len() - ETH, 0x7c, "the payload length above");
    assert_eq!(out, expected);
    assert_eq!((kernel.traffic(id(1)), counter(&kernel, "encapsulated")), ((1, 0x7c), 1));
}

#[test]
fn a_long_program_has_an_srh() {
    let mut kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    for segments in 1..=3u8 {
        let list: Vec<Ipv6Addr> = (1..=segments).map(|n| a(&format!("5f00:0:{n}::"))).collect();
        let header = Header { destination: a("5f00:0:1:2:3:4:5:6"), segments: list.clone(), segments_left: segments };
        kernel.carry_out(&Command::Program { id: id(9), header, most: 1400 }).unwrap();
        let slots = Box::new([id(9); SLOTS]);
        kernel.carry_out(&Command::Destination { prefix: net("2001:db8:3::/64"), slots, is_pinned: false }).unwrap();
        let frame = roce(4, 0x11, 1);
        let out = kernel.steer.send(&frame).unwrap().frame;
        let added = 48 + 16 * usize::from(segments);
        assert_eq!(out.len(), frame.len() + added);
        assert_eq!(out[ETH + 4..ETH + 6], ((frame.len() - ETH + added - 40) as u16).to_be_bytes());
        assert_eq!(out[ETH + 6], 43);
        let srh = [
            vec![41, 2 * segments, 4, segments, segments - 1, 0, 0, 0],
            list.iter().flat_map(Ipv6Addr::octets).collect(),
        ];
        assert_eq!(out[ETH + 40..ETH + added], srh.concat());
        assert_eq!(out[ETH + added..], frame[ETH..]);
    }
}

/// Catches a flow that is not that of the queue pair: a NIC may give all of them one UDP port.
#[test]
fn a_queue_pair_keeps_its_path_and_queue_pairs_spread() {
    let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 4);
    let mut shares = BTreeMap::new();
    for qpn in 0x11..0x11 + 400 {
        let first = taken(&kernel, &roce(0, qpn, 0));
        for psn in 1..4 {
            assert_eq!(taken(&kernel, &roce(1, qpn, psn)), first);
        }
        *shares.entry(first).or_insert(0) += 1;
    }
    assert_eq!(shares.keys().copied().collect::<Vec<u32>>(), [1, 2, 3, 4]);
    assert!(shares.values().all(|count| (50..=150).contains(count)), "{shares:?}");
    let tcp = |port: u16| ipv6(host(), a("2001:db8:3::7"), TCP, &[&port.to_be_bytes()[..], &[0; 18]].concat());
    let paths: Vec<u32> = (1..100).map(|port| taken(&kernel, &tcp(port))).collect();
    assert!((1..=4).all(|path| paths.contains(&path)), "{paths:?}");
    let other = ipv6(host(), a("2001:db8:3::7"), 58, &[128; 16]);
    assert_eq!(taken(&kernel, &other), taken(&kernel, &other));
}

/// Catches a spray of queue pairs that count every PSN, and one that is not even.
#[test]
fn what_takes_reordering_is_sprayed_evenly() {
    let kernel = kernel(Mode::Spray, Duration::from_secs(1000), 4);
    let spread = |frame: &[u8]| {
        let mut shares = BTreeMap::new();
        (0..64).for_each(|_| *shares.entry(taken(&kernel, frame)).or_insert(0) += 1);
        shares.into_values().collect::<Vec<u32>>()
    };
    // The spray counts on each processor, and a run may move to another one.
    for frame in [roce(0x64, 0x11, 1), ipv6(host(), a("2001:db8:3::7"), UDP, &udp(1, 2, &[0; 32]))] {
        let shares = spread(&frame);
        assert!(shares.len() == 4 && shares.iter().all(|share| (12..=20).contains(share)), "{shares:?}");
    }
    for opcode in [0x00, 0x04, 0x0a, 0x11, 0x20, 0x81] {
        assert_eq!(spread(&roce(opcode, 0x11, 1)), [64], "OpCode {opcode:#x}");
    }
    // Shorter than a BTH.
    assert_eq!(spread(&ipv6(host(), a("2001:db8:3::7"), UDP, &udp(1, 4791, &[0; 4]))), [64]);
    assert_eq!(spread(&ipv6(host(), a("2001:db8:3::7"), TCP, &[0; 20])), [64]);
}

/// Catches a mode that is not that of the destination.
#[test]
fn a_pinned_flow_keeps_its_path_whatever_it_takes() {
    let kernel = kernel(Mode::Pinned, Duration::from_nanos(1), 4);
    let frame = ipv6(host(), a("2001:db8:3::7"), UDP, &udp(1, 2, &[0; 32]));
    let first = taken(&kernel, &frame);
    assert!((0..64).all(|_| taken(&kernel, &frame) == first));
}

/// Catches a gap that is measured from the first packet of a flow.
#[test]
fn a_flow_without_a_gap_keeps_its_path_longer_than_a_gap() {
    const GAP: Duration = Duration::from_millis(200);
    let kernel = kernel(Mode::Flowlet, GAP, 4);
    // The longest time between two packets, and whether each took the same path, over two gaps.
    let trial = || {
        let (began, mut last, mut longest) = (Instant::now(), Instant::now(), Duration::ZERO);
        let first = taken(&kernel, &roce(0, 0x11, 0));
        let mut is_same = true;
        while began.elapsed() < 2 * GAP {
            is_same &= taken(&kernel, &roce(1, 0x11, 1)) == first;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        (longest, is_same)
    };
    // A process of a busy machine may stand still for longer than a gap: such a trial proves nothing.
    let deadline = Instant::now() + Duration::from_secs(60);
    let (longest, is_same) =
        std::iter::repeat_with(trial).find(|(longest, _)| *longest < GAP / 2 || Instant::now() > deadline).unwrap();
    assert!(is_same, "{longest:?} between two packets");
}

#[test]
fn a_flow_takes_another_path_after_a_gap_only() {
    let long = kernel(Mode::Flowlet, Duration::from_secs(1000), 4);
    let first = taken(&long, &roce(0, 0x11, 0));
    assert!((1..100).all(|psn| taken(&long, &roce(1, 0x11, psn)) == first));
    let paths: BTreeSet<u32> = (0x20..0x60).map(|qpn| taken(&long, &roce(0, qpn, 0))).collect();
    assert_eq!(paths.len(), 4, "flows begin on paths of their own");
    let short = kernel(Mode::Flowlet, Duration::from_nanos(1), 4);
    let paths: Vec<u32> = (1..200).map(|psn| taken(&short, &roce(1, 0x11, psn))).collect();
    assert!((1..=4).all(|path| paths.contains(&path)), "{paths:?}");
}

/// Catches other shares of the paths that reorder a flow, and a flow that keeps sending into a black hole.
#[test]
fn a_flowlet_keeps_its_path_until_no_packet_should_take_it() {
    let mut kernel = kernel(Mode::Flowlet, Duration::from_secs(1000), 2);
    let first = taken(&kernel, &roce(0, 0x11, 0));
    let other = 3 - first;
    let (prefix, slots) = (net("2001:db8:3::/64"), Box::new([id(other); SLOTS]));
    kernel.carry_out(&Command::Destination { prefix, slots, is_pinned: false }).unwrap();
    assert_eq!(taken(&kernel, &roce(1, 0x11, 1)), first, "its flowlet has not ended");
    assert_eq!(taken(&kernel, &roce(0, 0x12, 0)), other);
    kernel.carry_out(&Command::Leave(id(first))).unwrap();
    assert_eq!(taken(&kernel, &roce(1, 0x11, 2)), other);
    // The id names another program.
    let header = Header { destination: a("5f00:0:1:9:3::"), segments: Vec::new(), segments_left: 0 };
    kernel.carry_out(&Command::Program { id: id(first), header: header.clone(), most: 1400 }).unwrap();
    let slots = Box::new([id(first); SLOTS]);
    kernel.carry_out(&Command::Destination { prefix, slots, is_pinned: false }).unwrap();
    kernel.carry_out(&Command::Leave(id(other))).unwrap();
    assert_eq!([3, 4].map(|psn| taken(&kernel, &roce(1, 0x11, psn))), [first; 2]);
    // Another place: the entry may be that of another flow. And a program that is gone.
    kernel.carry_out(&Command::Program { id: id(other), header: header.clone(), most: 1400 }).unwrap();
    kernel.carry_out(&Command::Forget(prefix)).unwrap();
    let slots = Box::new([id(other); SLOTS]);
    kernel.carry_out(&Command::Destination { prefix, slots, is_pinned: false }).unwrap();
    assert_eq!(taken(&kernel, &roce(1, 0x11, 5)), other);
    let slots = Box::new([id(first); SLOTS]);
    kernel.carry_out(&Command::Destination { prefix, slots, is_pinned: false }).unwrap();
    kernel.carry_out(&Command::Clear(id(other))).unwrap();
    assert_eq!(taken(&kernel, &roce(1, 0x11, 6)), first);
}

fn unchanged(kernel: &Kernel, frame: &[u8]) -> bool {
    let run = kernel.steer.send(frame).unwrap();
    (run.verdict, run.frame == frame) == (PASS, true)
}

#[test]
fn what_is_not_to_be_steered_leaves_as_it_is() {
    let mut kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    let to = a("2001:db8:3::7");
    assert!(unchanged(&kernel, &ipv6(host(), a("2001:db8:4::7"), UDP, &[0; 20])), "no destination");
    // A program for every address there is.
    let everywhere = Command::Destination { prefix: net("::/0"), slots: Box::new([id(1); SLOTS]), is_pinned: false };
    kernel.carry_out(&everywhere).unwrap();
    assert_eq!(taken(&kernel, &ipv6(host(), a("2001:db8:4::7"), UDP, &[0; 20])), 1);
    assert!(unchanged(&kernel, &ipv6(a("2001:db8:2::9"), to, UDP, &[0; 20])), "another source");
    assert!(unchanged(&kernel, &ipv6(host(), a("5f00:0:1:2:3::"), 41, &[0x60; 48])), "a program");
    assert!(unchanged(&kernel, &ipv6(host(), a("fe80::1"), UDP, &[0; 20])));
    assert!(unchanged(&kernel, &ipv6(host(), a("ff02::1"), UDP, &[0; 20])));
    assert!(unchanged(&kernel, &ipv6(host(), a("2001:db8:1::7"), UDP, &[0; 20])), "its own prefix");
    let mut arp = roce(4, 1, 1);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert!(unchanged(&kernel, &arp));
    assert_eq!(counter(&kernel, "refused"), 0, "it was not even tried");
    kernel.set_control(None).unwrap();
    assert!(unchanged(&kernel, &roce(4, 1, 1)), "no permission");
    kernel.set_control(Some(steered())).unwrap();
    kernel.carry_out(&Command::Forget(net("::/0"))).unwrap();
    kernel.carry_out(&Command::Clear(id(1))).unwrap();
    assert!(unchanged(&kernel, &roce(4, 1, 1)));
    assert_eq!(counter(&kernel, "no_program"), 1);
    kernel.carry_out(&Command::Forget(net("2001:db8:3::/64"))).unwrap();
    assert!(kernel.steer.destinations().keys().is_empty());
    assert!(unchanged(&kernel, &roce(4, 1, 1)));
    assert_eq!(counter(&kernel, "encapsulated"), 1);
}

/// Catches an event for each packet, and events of what can be no host of a fabric.
#[tokio::test]
async fn the_daemon_is_asked_once_for_a_destination() {
    let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    let mut unknown = kernel.unknown().unwrap();
    for to in [
        "fe80::2",
        "ff02::2",
        "5f00:0:1::",
        "2001:db8:1::1",
        "2001:db8:8::1",
        "2001:db8:4::7",
        "2001:db8:4::7",
        "2001:db8:4::8",
    ] {
        kernel.steer.send(&ipv6(host(), a(to), UDP, &[0; 20])).unwrap();
    }
    assert_eq!([unknown.next().await, unknown.next().await], [Some(a("2001:db8:4::7")), Some(a("2001:db8:4::8"))]);
}

/// Catches a message that the host's own stack refuses: its checksum, its addresses, what it quotes.
#[test]
fn a_packet_that_its_path_cannot_carry_is_answered() {
    let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    let to = a("2001:db8:3::7");
    let fits = ipv6(host(), to, UDP, &udp(1, 2, &vec![7; 1400 - 48]));
    assert_eq!(taken(&kernel, &fits), 1);
    // No error about an error; before any other, because there is one each millisecond at most.
    let error = ipv6(host(), to, 58, &vec![1; 1401]);
    assert_eq!(kernel.steer.send(&error).unwrap().verdict, DROP);
    let frame = ipv6(host(), to, UDP, &udp(1, 2, &vec![7; 1401 - 48]));
    let run = kernel.steer.send(&frame).unwrap();
    assert_eq!((run.verdict, counter(&kernel, "too_big")), (REDIRECT, 2));
    let out = run.frame;
    assert_eq!(out[..ETH], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x86, 0xdd]);
    assert_eq!(out[ETH..ETH + 8], [0x60, 0, 0, 0, 2, 0, 58, 255]);
    assert_eq!(out[ETH + 8..ETH + 24], a("fe80::1").octets());
    assert_eq!(out[ETH + 24..ETH + 40], host().octets());
    let message = &out[ETH + 40..];
    assert_eq!((message.len(), &message[..2], &message[4..8]), (512, &[2, 0][..], &1400u32.to_be_bytes()[..]));
    assert_eq!(message[8..], frame[ETH..ETH + 504]);
    assert!(verify(a("fe80::1"), host(), message), "{message:x?}");
    let echo = ipv6(host(), to, 58, &vec![128; 1401]);
    let answered = (0..1000).filter(|_| kernel.steer.send(&echo).unwrap().verdict == REDIRECT).count();
    assert!((1..900).contains(&answered), "{answered}");
}

/// Catches a GSO buffer that is compared with the path's MTU as one packet, and one whose packets have other headers than they get.
#[test]
fn each_packet_of_a_gso_buffer_has_to_fit() {
    let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
    let to = a("2001:db8:3::7");
    let tcp = |offset: u8| [&[0; 12][..], &[offset << 4], &[0; 3000]].concat();
    let frames = [
        (ipv6(host(), to, UDP, &udp(1, 2, &[0; 3000])), 1352),
        (ipv6(host(), to, TCP, &tcp(5)), 1340),
        (ipv6(host(), to, TCP, &tcp(8)), 1328),
    ];
    for (n, (frame, most)) in frames.iter().enumerate() {
        // The kernel makes room in TCP buffers of real sockets alone.
        let run = kernel.steer.send_through(0, *most, frame).unwrap();
        assert_eq!((run.verdict, counter(&kernel, "refused")), (PASS, n as u64 + 1), "{most}");
        assert_ne!(kernel.steer.send_through(0, most + 1, frame).unwrap().verdict, PASS, "{most} + 1");
    }
    assert_eq!(counter(&kernel, "too_big"), 3);
}

/// Catches a packet that the interface cannot send behind its program.
#[test]
fn the_mtu_of_the_interface_counts_too() {
    let result = std::thread::spawn(|| {
        // This thread alone moves into a new network namespace, which ends with it.
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let add = ["link", "add", "steer0", "mtu", "1300", "type", "veth", "peer", "name", "steer1"];
        assert!(std::process::Command::new("ip").args(add).status().unwrap().success());
        let ifindex = if_nametoindex("steer0").unwrap();
        let kernel = kernel(Mode::Pinned, Duration::from_millis(1), 1);
        let frame = |length: usize| ipv6(host(), a("2001:db8:3::7"), UDP, &udp(1, 2, &vec![7; length - 48]));
        let sent = |length| kernel.steer.send_through(ifindex, 0, &frame(length)).unwrap();
        assert_eq!((sent(1260).verdict, sent(1261).verdict), (PASS, REDIRECT));
        assert_eq!(kernel.steer.send_through(0, 0, &frame(1261)).unwrap().verdict, PASS);
    });
    result.join().unwrap();
}

/// Catches a restart that takes the programs from packets, and a program that the next daemon does not know.
#[test]
fn the_maps_outlive_the_daemon() {
    let dir = Path::new("/sys/fs/bpf").join(format!("canopy-steer-test-{}", std::process::id()));
    let result = std::panic::catch_unwind(|| {
        let mut first = Kernel::load(&dir, 1, Mode::Pinned, Duration::from_millis(1)).unwrap();
        first.set_source(host());
        let header =
            |n: u16| Header { destination: a(&format!("5f00:0:1:{n}::")), segments: Vec::new(), segments_left: 0 };
        for n in 1..=3 {
            let program = Command::Program { id: id(n.into()), header: header(n), most: 1400 };
            first.carry_out(&program).unwrap();
        }
        let slots = Box::new(std::array::from_fn(|slot| id(1 + slot as u32 % 2)));
        let prefix = net("2001:db8:3::/64");
        first.carry_out(&Command::Destination { prefix, slots: slots.clone(), is_pinned: true }).unwrap();
        drop(first);
        let mut next = Kernel::load(&dir, 1, Mode::Spray, Duration::from_millis(2)).unwrap();
        let Written { destinations, unused, source } = next.written().unwrap();
        let programs = [1, 2].map(|n: u16| (id(n.into()), (header(n), 1400))).into();
        assert_eq!(destinations, [Restored { prefix, slots, programs, is_pinned: true }]);
        assert_eq!((unused, source), (BTreeSet::from([id(3)]), Some(host())));
        let of = next.choices.get(next.places.get(prefix).unwrap()).unwrap();
        assert_eq!((of.mode, of.gap_ns), (2, 2_000_000), "the settings of the first one");
        // A destination whose place is another one's, or none, is not one.
        let [place, beyond] = [next.places.get(prefix).unwrap(), next.choices.capacity()];
        for (other, place) in [("2001:db8:4::/64", place), ("2001:db8:5::/64", beyond)] {
            next.steer.destinations().put(&key(net(other)), &place).unwrap();
        }
        drop(next);
        let mut next = Kernel::load(&dir, 1, Mode::Spray, Duration::from_millis(2)).unwrap();
        assert_eq!((next.places.all(), next.steer.destinations().keys().len()), (vec![(prefix, place)], 1));
        // A destination that names a program which is not there is none.
        next.carry_out(&Command::Clear(id(2))).unwrap();
        let Written { destinations, unused, .. } = next.written().unwrap();
        assert_eq!((destinations, unused), (vec![], BTreeSet::from([id(1), id(3)])));
        // Maps of another version.
        let own = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
        std::fs::rename(&own, dir.join("0123456789abcdef")).unwrap();
        let mut anew = Kernel::load(&dir, 1, Mode::Pinned, Duration::from_millis(1)).unwrap();
        assert_eq!(anew.written().unwrap().unused, BTreeSet::new());
        assert!(own.exists() && std::fs::read_dir(&dir).unwrap().count() == 1);
    });
    canopy_bpf::steer::unpin(&dir).unwrap();
    result.unwrap();
}

/// A probe of way 7, as the daemon's socket sends it and as it comes back.
fn probe(sequence: u32, class: u8, segments: Vec<Ipv6Addr>) -> (Vec<u8>, Vec<u8>) {
    let from = crate::probe::Sender { address: host(), traffic_class: class, secret: *b"a secret" };
    let segments_left = segments.len() as u8;
    let header = Header { destination: a("5f00:0:1:65:2:65:1::"), segments, segments_left };
    let content = crate::probe::Content { header: &header, way: 7, sequence, timestamp: 1, length: 300 };
    let packet = crate::probe::packet(&from, &content).unwrap();
    let eth = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
    let frame = |octets: &[u8]| eth.iter().chain(octets).copied().collect();
    (frame(&packet), frame(&packet[packet.len() - 300..]))
}

/// Catches a probe that ends without being this daemon's, one that is counted twice, and one whose time is taken for that of another.
#[test]
fn times_of_a_probe_are_taken_where_it_leaves_and_where_it_comes_back() {
    let kernel = unpinned(Mode::Pinned, Duration::from_millis(1));
    let cells = kernel.probes().unwrap();
    kernel.set_probing(Some((host(), *b"a secret"))).unwrap();
    for (sequence, segments) in [(5, Vec::new()), (6, vec![a("5f00:0:1::")]), (7, vec![a("5f00:0:1::"); 3])] {
        let (out, back) = probe(sequence, 0x6a, segments);
        cells.prepare(7, sequence);
        assert_eq!(cells.times(7, sequence).map(|times| (times.left_ns, times.back_ns)), Some((None, None)));
        let left = kernel.steer.send_probe(&out).unwrap();
        assert_eq!(
            (left.verdict, left.mark, left.frame == out),
            (PASS, 0, true),
            "it leaves as it is, without its mark"
        );
        let times = cells.times(7, sequence).unwrap();
        assert!(times.left_ns.is_some() && times.back_ns.is_none());
        assert_eq!(kernel.steer.receive(&back).unwrap().verdict, DROP);
        let first = cells.times(7, sequence).unwrap();
        assert!(first.back_ns.unwrap() + 1 >= first.left_ns.unwrap() && !first.is_marked);
        // Twice: it ends, and its time is that of the first.
        assert_eq!(kernel.steer.receive(&back).unwrap().verdict, DROP);
        assert_eq!(cells.times(7, sequence), Some(first));
    }
    let (_, marked) = probe(8, 0x6b, Vec::new());
    cells.prepare(7, 8);
    assert_eq!(kernel.steer.receive(&marked).unwrap().verdict, DROP);
    assert!(cells.times(7, 8).unwrap().is_marked);
    // The cell is that of another probe now.
    cells.prepare(7, 8 + 64);
    assert_eq!((cells.times(7, 8), cells.times(7, 72).unwrap().back_ns), (None, None));
    assert_eq!(kernel.steer.receive(&marked).unwrap().verdict, DROP);
    assert_eq!(cells.times(7, 72).unwrap().back_ns, None);
    assert_eq!((cells.times(4095, 0).is_some(), cells.times(4096, 0)), (true, None));
}

/// Catches a packet of another sender that ends here, or that answers for a path.
#[test]
fn what_is_no_probe_of_this_daemon_goes_to_the_host() {
    let kernel = unpinned(Mode::Pinned, Duration::from_millis(1));
    let cells = kernel.probes().unwrap();
    let (out, back) = probe(5, 0x6a, Vec::new());
    cells.prepare(7, 5);
    assert_eq!(kernel.steer.receive(&back).unwrap().verdict, PASS, "without a prober");
    let mut of_zeros = back.clone();
    of_zeros[ETH + 8..ETH + 40].fill(0);
    of_zeros[ETH + 96..ETH + 104].fill(0);
    assert_eq!(kernel.steer.receive(&of_zeros).unwrap().verdict, PASS, "there is no prober at :: either");
    kernel.set_probing(Some((host(), *b"a secret"))).unwrap();
    let changed = |at: usize, octet: u8| {
        let mut frame = back.clone();
        frame[ETH + at] = octet;
        frame
    };
    // Next header, both addresses, destination port, type of the TLV, and each octet of the secret.
    let wrong = [(6, 6), (23, 8), (39, 8), (43, 0x5d), (93, 2)].into_iter().chain((96..104).map(|at| (at, 0)));
    for (at, octet) in wrong {
        assert_eq!(kernel.steer.receive(&changed(at, octet)).unwrap().verdict, PASS, "octet {at}");
    }
    // It ends, but answers for nothing: another way, another sequence number.
    for (at, octet) in [(51, 4), (48, 1), (63, 8), (62, 0x20)] {
        assert_eq!(kernel.steer.receive(&changed(at, octet)).unwrap().verdict, DROP, "octet {at}");
    }
    for length in ETH + 40..ETH + 104 {
        assert_eq!(kernel.steer.receive(&back[..length]).unwrap().verdict, PASS, "cut to {length}");
    }
    assert_eq!(cells.times(7, 5).unwrap().back_ns, None);
    // One with the mark and another secret is none of this daemon, and leaves as it is.
    let mut forged = out.clone();
    forged[ETH + 40 + 96] ^= 1;
    let left = kernel.steer.send_probe(&forged).unwrap();
    assert_eq!((left.verdict, left.frame == forged), (PASS, true));
    // A packet without the mark is no probe, and one that is cut off leaves no time.
    kernel.steer.send(&out).unwrap();
    for length in ETH + 40..ETH + 40 + 104 {
        kernel.steer.send_probe(&out[..length]).unwrap();
    }
    assert_eq!(cells.times(7, 5).unwrap().left_ns, None);
}
