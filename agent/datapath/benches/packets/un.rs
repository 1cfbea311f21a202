// SPDX-License-Identifier: Apache-2.0
//! Forwarding by a uN in BPF beside `End` with the flavour NEXT-CSID of the kernel's seg6local: the shift, and the next hop over the link to
//! the next node. Both get live frames from an interface, of which the far end of the link drops each that it gets. They take turns in every
//! round, and what is compared is the time beyond that of frames which the stack gets and drops at an interface without programs.
//!
//! All frames leave over one link, so that the next hop that a processor keeps is always valid: where packets are few, each asks the
//! kernel's FIB in addition.

use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use canopy_bpf::live::LiveFrames;
use canopy_datapath::testbed::*;

use crate::quartiles;

const ROUNDS: usize = 12;
const FRAMES: u32 = 300_000;
/// A link-layer address that no interface has.
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 99];

/// From one interface to another one.
struct Path {
    from: u32,
    by: &'static str,
    /// An interface without programs.
    aside: u32,
    destination: &'static str,
    station: [u8; 6],
}

impl Path {
    fn new([from, by, aside]: [&'static str; 3], destination: &'static str) -> Self {
        Self { from: index(from), by, aside: index(aside), destination, station: station(from) }
    }

    /// Nanoseconds per frame that is forwarded, beyond those of one that the stack gets and drops.
    fn forwards(&self, kind: Kind) -> f64 {
        self.take(kind, self.from, self.station) - self.take(kind, self.aside, OTHER)
    }

    fn take(&self, kind: Kind, from: u32, to: [u8; 6]) -> f64 {
        let frames = LiveFrames::of(&frame(to, self.destination, kind));
        let before = sent(self.by);
        let took = frames.and_then(|frames| frames.arrive(from, FRAMES));
        let took = took.unwrap_or_else(|e| panic!("{}", canopy_bpf::chain(&e)));
        let left = sent(self.by) - before;
        let all = to != OTHER;
        assert!(if all { left >= u64::from(FRAMES) } else { left < 100 }, "{left} of {FRAMES} left by {}", self.by);
        took.as_nanos() as f64 / f64::from(FRAMES)
    }
}

/// What the packets are.
#[derive(Clone, Copy)]
struct Kind {
    name: &'static str,
    port: u16,
    payload: usize,
}

const KINDS: [Kind; 3] = [
    Kind { name: "UDP", port: 9, payload: 64 },
    Kind { name: "UDP", port: 9, payload: 1024 },
    Kind { name: "RoCEv2, also counted per flow", port: 4791, payload: 1024 },
];

/// Prints the table.
pub(crate) fn run() {
    let bed = Testbed::without_far_boundary(&Shape { children: 3, ..Shape::default() });
    let ours = Path::new(["u0", "d1", "d1p"], "5f00:0:1:a:5::");
    let kernel = Kernel::start();
    println!(
        "\n{:<30} {:>7} {:>6} {:>10}   {:>6} {:>6} {:>6}",
        "packets", "payload", "uN ns", "seg6local", "q1", "ratio", "q3"
    );
    for kind in KINDS {
        let mut rounds = Vec::new();
        // The first round fills the caches.
        for round in 0..=ROUNDS {
            let (un, theirs) = (ours.forwards(kind), kernel.forwards(kind));
            if round > 0 {
                rounds.push((un, theirs));
            }
        }
        let [_, un, _] = quartiles(rounds.iter().map(|(un, _)| *un));
        let [_, theirs, _] = quartiles(rounds.iter().map(|(_, theirs)| *theirs));
        let [a, ratio, c] = quartiles(rounds.iter().map(|(un, theirs)| theirs / un));
        let Kind { name, payload, .. } = kind;
        println!("{name:<30} {payload:>7} {un:>6.0} {theirs:>10.0}   {a:>6.2} {ratio:>6.2} {c:>6.2}");
    }
    println!("Beyond what a packet takes that the stack gets and drops, at an interface without programs.");
    drop(bed);
}

/// A router of the kernel's own, in a network namespace of its own, which its thread has.
struct Kernel {
    asked: mpsc::Sender<Kind>,
    answers: mpsc::Receiver<f64>,
}

impl Kernel {
    fn start() -> Self {
        let (asked, questions) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: no pointers are involved.
            assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0, "unshare(CLONE_NEWNET) needs root");
            let path = router();
            for kind in questions {
                if answer.send(path.forwards(kind)).is_err() {
                    return;
                }
            }
        });
        Self { asked, answers }
    }

    fn forwards(&self, kind: Kind) -> f64 {
        self.asked.send(kind).expect("the router's thread");
        self.answers.recv_timeout(Duration::from_secs(60)).expect("an answer of the router's thread")
    }
}

fn router() -> Path {
    for (name, value) in [("all.forwarding", 1), ("all.seg6_enabled", 1), ("default.seg6_enabled", 1)] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{}", name.replace('.', "/")), value.to_string())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    for args in [
        "link add in0 type veth peer name in0p",
        "link add out0 type veth peer name out0p",
        "link set in0 up",
        "link set in0p up",
        "link set out0 up",
        "link set out0p up",
        "-6 route add fd01:0:1::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev in0",
        "-6 route add fd01:0:a::/48 via fe80::99 dev out0",
        "-6 neigh replace fe80::99 dev out0 lladdr 02:00:00:00:00:99 nud permanent",
    ] {
        let done = Command::new("ip").args(args.split_whitespace()).output().expect("ip");
        assert!(done.status.success(), "ip {args}: {}", String::from_utf8_lossy(&done.stderr));
    }
    Path::new(["in0", "out0", "out0p"], "fd01:0:1:a:5::")
}

/// Index of an interface in the thread's namespace.
fn index(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).expect("a name");
    // SAFETY: the name is a string with its end, and lives through the call.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// Link-layer address of an interface in the thread's namespace.
fn station(name: &str) -> [u8; 6] {
    let out = Command::new("ip").args(["-o", "link", "show", "dev", name]).output().expect("ip");
    let text = String::from_utf8_lossy(&out.stdout);
    let (_, behind) = text.split_once("link/ether ").unwrap_or_else(|| panic!("{name}: {text}"));
    let octets: Vec<u8> = behind[..17].split(':').filter_map(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets.try_into().unwrap_or_else(|_| panic!("{name}: {text}"))
}

/// Packets that left by an interface in the thread's namespace.
fn sent(name: &str) -> u64 {
    let all = std::fs::read_to_string("/proc/thread-self/net/dev").expect("the interfaces' counters");
    let mut lines = all.lines().filter_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let counters = lines.next().unwrap_or_else(|| panic!("no {name} in {all}"));
    counters.split_whitespace().nth(9).and_then(|packets| packets.parse().ok()).expect("a number of packets")
}

/// A UDP packet of a host in a program: an outer header, and the inner one.
fn frame(to: [u8; 6], destination: &str, Kind { port, payload, .. }: Kind) -> Vec<u8> {
    let header = |next: u8, length: usize, source: &str, destination: &str| {
        let mut out = vec![0x60, 0, 0, 0];
        out.extend((length as u16).to_be_bytes());
        out.extend([next, 64]);
        for address in [source, destination] {
            out.extend(address.parse::<std::net::Ipv6Addr>().expect("an address").octets());
        }
        out
    };
    let length = (payload as u16 + 8).to_be_bytes();
    let datagram = [&[0xC0, 0][..], &port.to_be_bytes(), &length, &[1, 1], &vec![7; payload]].concat();
    let inner = [header(17, datagram.len(), "2001:db8:77::1", "2001:db8:1::100"), datagram].concat();
    let outer = header(41, inner.len(), "fcff:0:0:9::1", destination);
    [&to[..], &[2, 0, 0, 0, 0, 1], &[0x86, 0xDD], &outer, &inner].concat()
}
