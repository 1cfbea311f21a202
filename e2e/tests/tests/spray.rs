// SPDX-License-Identifier: Apache-2.0
//! Packets that `canopy-steer` sprays over four spines of the lab: away from loss and from congestion, while the controller and the agents of
//! hosts are away.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Child;

use canopy_e2e::steered::{Datagrams, Path};
use canopy_e2e::{Bed, deep};

const B1: &str = "2001:db8:2:1::1";
/// Octets that a port's queue takes.
const ROOM: u64 = 4_000_000;

fn is_even(paths: &[Path]) -> bool {
    paths.len() == 4 && paths.iter().all(|path| path.slots == 16 && path.weight == 1.0 && path.fault.is_null())
}

fn paths(bed: &Bed) -> Vec<Path> {
    bed.steered_paths("a1", B1).unwrap()
}

fn are_even(bed: &Bed) {
    bed.lab.wait("all paths to carry packets alike", |_| Ok(is_even(&paths(bed)))).unwrap();
}

/// Host a1 has programs to b1 whose ways are all sound; then it is alone.
fn started(interval: &str) -> Bed {
    let settings = format!("mode = 'spray'\n[probe]\ninterval = '{interval}'\n");
    let mut bed = Bed::steered("spines4", &["a1"], &settings).unwrap();
    bed.lab.kill_controller().unwrap();
    ["a1", "a2", "b1", "c1"].iter().for_each(|host| bed.lab.kill_host_agent(host).unwrap());
    are_even(&bed);
    bed
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A million packets with `CANOPY_DEEP`. Catches a lossy path that stays in use, and one that is taken back too soon, too often.
#[test]
fn a_path_that_loses_a_twentieth_is_out_of_use_and_nearly_nothing_is_lost() {
    let bed = started("2ms");
    bed.lab.set_loss_from("leaf1/eth2", "5%".parse().unwrap()).unwrap();
    bed.lab.wait("the lossy path to be out of use", |_| Ok(paths(&bed)[1].slots == 0)).unwrap();
    let count = if deep() { 1_000_000 } else { 50_000 };
    let before = bed.arrived("b1").unwrap();
    let all = Datagrams { flows: 1, count, size: 64, rate: 25_000 };
    assert!(bed.send("a1", B1, all).unwrap().wait().unwrap().success());
    let mut lost = count;
    // What is on the way.
    bed.lab
        .wait("the packets to arrive", |_| {
            lost = count - (bed.arrived("b1")? - before);
            Ok(lost * 2000 <= count)
        })
        .unwrap();
    println!("{lost} of {count} packets are lost");
    bed.lab.set_loss_from("leaf1/eth2", "0%".parse().unwrap()).unwrap();
    are_even(&bed);
}

/// Catches a share that does not follow the congestion, a queue that is taken for a fault, and a share that does not come back.
#[test]
fn a_path_whose_queue_grows_gets_fewer_packets() {
    let bed = started("10ms");
    bed.shape("spine3", "eth2", "24mbit", ROOM).unwrap();
    // 120 Mbit/s, of which each spine gets 30.
    let flood = bed.send("a1", B1, Datagrams { flows: 1, count: 1 << 62, size: 1400, rate: 10_500 }).unwrap();
    bed.lab
        .wait("the congested path to have less than its share", |_| {
            let now = paths(&bed);
            let sound = now.iter().all(|path| path.fault.is_null());
            let others = [0, 1, 3].iter().all(|spine| now[*spine].weight > 0.9);
            Ok(sound && others && now[2].slots < 13 && now[2].weight < 0.75)
        })
        .unwrap();
    let printed = bed.lab.steer("a1", "paths", &[B1]).unwrap();
    assert!(printed.lines().any(|line| line.contains("reduced") && line.contains("spine3")), "{printed}");
    kill(flood);
    bed.shape("spine3", "eth2", "1gbit", ROOM).unwrap();
    are_even(&bed);
}
