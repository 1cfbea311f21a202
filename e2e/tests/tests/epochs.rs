// SPDX-License-Identifier: Apache-2.0
//! An acknowledgement belongs to a program (decisions 3.9): whatever moves, and however late an agent is, data that a receiver lacks is
//! not acknowledged, and the source sends it again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use canopy_e2e::capture::{ACKS, Capture, DATA, check_no_false_ack, check_resent};
use canopy_e2e::moves::connects;
use canopy_e2e::{Bed, Paused, deep, up};
use canopy_lab::{Transfer, TransferSpec};
use serde_json::json;

/// n2, with r3 behind it, has two possible parents.
const MOVES: &str = "n2";
const PARENTS: [&str; 2] = ["n4", "n5"];
const ROOT: &str = "n6";
const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const SOURCE: &str = "2001:db8:0:100::1";
/// Time for which agents are late.
const LATE: Duration = Duration::from_millis(400);

/// What the source sends and receives, and what every receiver answers.
struct Taps {
    start: u64,
    data: Capture,
    acks: Capture,
    receivers: Vec<Capture>,
}

impl Taps {
    fn of(bed: &Bed) -> Self {
        let start = bed.group("g").unwrap()["connection"]["startPsn"].as_u64().unwrap();
        let tap = |host: &str, filter: String| Capture::start(&bed.lab, host, "eth0", &filter).unwrap();
        let receivers = RECEIVERS.map(|r| tap(r, format!("{ACKS} and src host 2001:db8:0:{}::1", &r[1..])));
        let acks = tap("s1", format!("{ACKS} and dst host {SOURCE}"));
        let data = Capture::start_headers(&bed.lab, "s1", "eth0", &format!("{DATA} and src host {SOURCE}")).unwrap();
        Self { start, data, acks, receivers: receivers.into() }
    }

    /// The transfer ends, no ACK was false, and what the source went back to, no receiver had passed by.
    fn check(self, bed: &Bed, transfer: Transfer) {
        let done = transfer.finish(&bed.lab);
        // First: after a false ACK a transfer does not end.
        let receivers: Vec<_> = self.receivers.into_iter().map(|c| c.stop().unwrap()).collect();
        let (acks, data) = (self.acks.stop().unwrap(), self.data.stop().unwrap());
        let checked = check_no_false_ack(self.start, &acks, &receivers)
            .and_then(|acks| Ok((acks, check_resent(self.start, &data, &receivers)?)));
        let (acks, resent) = checked.unwrap_or_else(|e| panic!("{e}; captures: {}", keep(bed).display()));
        println!("{acks} acknowledgements at s1, none of them false; it went back {resent} times");
        assert!(resent > 0, "the source never sent anything again: this proves nothing");
        let report = done.unwrap();
        assert!(report.mismatches().is_empty(), "{:?}", report.mismatches());
        assert_eq!(report.source.more.get("false_acks"), Some(&json!(0)));
    }
}

/// Copies the captures to a directory that outlives the lab: what is wrong is seen nowhere else.
fn keep(bed: &Bed) -> PathBuf {
    let kept = std::env::temp_dir().join(format!("canopy-epochs-{}", std::process::id()));
    std::fs::create_dir_all(&kept).unwrap();
    for entry in std::fs::read_dir(bed.lab.dir()).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "pcap") {
            std::fs::copy(entry.path(), kept.join(entry.file_name())).unwrap();
        }
    }
    kept
}

fn transfer(bed: &Bed, bytes: u64) -> Transfer {
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(if deep() { 900 } else { 120 }),
        leave: false,
        ..TransferSpec::new("g", "s1", &RECEIVERS, bytes)
    };
    spec.args.insert("s1".into(), ["--timeout", "50ms", "--retries", "0"].map(Into::into).into());
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("the transfer to be under way", |_| Ok(bed.sent_by("s1")? > 1 << 20)).unwrap();
    transfer
}

fn send_more(bed: &Bed, octets: u64) {
    let before = bed.sent_by("s1").unwrap();
    bed.lab.wait("the source to send more", |_| Ok(bed.sent_by("s1")? > before + octets)).unwrap();
}

fn parent(bed: &Bed) -> String {
    bed.parent("g", MOVES).unwrap()
}

fn other(parent: &str) -> &'static str {
    PARENTS.into_iter().find(|p| *p != parent).unwrap()
}

/// The old and the new parent of r3's edge, one after the other: r3 receives nothing while the tree moves, and the agents of the new
/// parent and of the headend are late by less than half a second, as on a busy machine.
#[test]
fn a_tree_that_moves_while_two_agents_are_late_acknowledges_nothing_that_a_receiver_lacks() {
    let bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let taps = Taps::of(&bed);
    let transfer = transfer(&bed, 96 << 20);
    for _ in 0..if deep() { 40 } else { 6 } {
        let old = parent(&bed);
        let new = other(&old);
        let paused = Paused::new(&bed, &[new, ROOT]).unwrap();
        bed.lab.set_loss("r3/eth0", "100%".parse().unwrap()).unwrap();
        bed.change_links(|link| link["drained"] = json!(connects(link, &old, MOVES))).unwrap();
        std::thread::sleep(LATE);
        drop(paused);
        let moved = || Ok(bed.moved("g")?.holds && parent(&bed) == new);
        bed.lab.wait("the tree to move", |_| moved()).unwrap();
        // Retransmissions only: r3 lacks what the source sends.
        send_more(&bed, 256 << 10);
        bed.lab.set_loss("r3/eth0", "0%".parse().unwrap()).unwrap();
        send_more(&bed, 1 << 20);
    }
    taps.check(&bed, transfer);
}

/// Stops the receivers one after the other, again and again, for longer than the repetitions of a new program take to pass; returns how
/// often, once `end` is dropped.
fn pause_in_turn(receivers: &[u32], end: &Receiver<()>) -> usize {
    let mut pauses = 0;
    for pid in receivers.iter().cycle() {
        let paused = Paused::process(*pid).unwrap();
        let has_ended = end.recv_timeout(Duration::from_millis(100 + 12 * (pauses as u64 % 6)));
        drop(paused);
        pauses += 1;
        if has_ended != Err(RecvTimeoutError::Timeout) || end.recv_timeout(LATE / 10) != Err(RecvTimeoutError::Timeout)
        {
            break;
        }
    }
    pauses
}

/// No agent is late and no receiver is cut off: the tree moves, and the encoding of its lists, because a link is drained, has another MTU,
/// and is as before, over and over. Each receiver stops for a while again and again, so that now one and now another one is the last.
#[test]
fn a_tree_that_moves_all_the_time_under_load_acknowledges_nothing_that_a_receiver_lacks() {
    let moves = if deep() { 200 } else { 40 };
    let bed = up("figure1").unwrap();
    bed.limit("s1", 50).unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();
    let taps = Taps::of(&bed);
    // Enough for 0.6 s per move; the rest is sent at full rate.
    let bytes = moves * (4 << 20);
    let transfer = transfer(&bed, bytes);
    // Some packets are lost, so that the source has to send some again.
    bed.lab.set_loss("r3/eth0", "0.1%".parse().unwrap()).unwrap();
    let preferred = parent(&bed);
    let (end, ended) = mpsc::channel();
    let receivers = RECEIVERS.map(|r| transfer.pid(r).unwrap());
    let pauses = std::thread::spawn(move || pause_in_turn(&receivers, &ended));
    let begun = Instant::now();
    for n in 0..moves {
        let epoch = bed.group("g").unwrap()["epoch"].as_u64();
        let (drained, is_narrow) = ([0, 1].contains(&(n % 4)), [1, 2].contains(&(n % 4)));
        bed.change_links(|link| {
            link["drained"] = json!(drained && connects(link, &preferred, MOVES));
            if is_narrow && connects(link, ROOT, "n4") {
                link["mtu"] = json!(1280);
            }
        })
        .unwrap();
        bed.lab
            .wait(
                "the tree to move",
                |_| Ok(bed.moved("g")?.reason == "InForce" && bed.group("g")?["phase"] == "Ready"),
            )
            .unwrap();
        let group = bed.group("g").unwrap();
        assert!(group["epoch"].as_u64() > epoch, "move {n}: the tree stayed as it was");
        assert_eq!(parent(&bed) == preferred, !drained, "move {n}: {group}");
    }
    drop(end);
    let pauses = pauses.join().unwrap();
    println!("{moves} moves in {:.1} s, {pauses} pauses of receivers", begun.elapsed().as_secs_f64());
    assert!(pauses > RECEIVERS.len(), "not every receiver was the last one once");
    assert!(bed.sent_by("s1").unwrap() < bytes, "the transfer ended before the last move: this proves nothing");
    bed.limit("s1", 1000).unwrap();
    taps.check(&bed, transfer);
}
