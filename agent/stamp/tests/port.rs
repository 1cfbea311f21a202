// SPDX-License-Identifier: Apache-2.0
//! Echo Requests on a port that goes and comes back under its name, in a network namespace of the test's own: needs root.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;
use std::time::Duration;

use canopy_agent_core::stamp::{LinkProber, StampLink};
use canopy_model::ids::PortIndex;
use canopy_stamp::{Prober, StampSettings};
use nix::sched::{CloneFlags, unshare};
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    assert!(done.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&done.stderr));
}

/// A cable between the ports `near` and `far`.
fn plug() {
    ip("link add near type veth peer name far");
    for (port, address) in [("near", "fe80::a"), ("far", "fe80::b")] {
        ip(&format!("address add {address}/64 dev {port} nodad"));
        ip(&format!("link set {port} up"));
    }
}

/// Waits until more than `before` requests were answered, and returns how many.
async fn answered(prober: &Prober, before: u64, what: &str) -> u64 {
    let more = async {
        loop {
            let counts = prober.losses()[0].1;
            let answered = counts.sent - counts.lost;
            if answered > before && prober.silent().is_empty() {
                return answered;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, more).await.unwrap_or_else(|_| panic!("{what}: {:?}, {:?}", prober.losses(), prober.silent()))
}

/// Catches a socket that stays with the interface that is gone.
#[tokio::test]
async fn a_port_that_comes_back_answers_again() {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    plug();
    let mut prober = Prober::new(StampSettings { port: 862, interval: Duration::from_millis(50) });
    prober.watch(vec![StampLink {
        port: PortIndex::try_from(1).unwrap(),
        interface: "near".into(),
        own: "fe80::a".parse().unwrap(),
        neighbour: "fe80::b".parse().unwrap(),
    }]);
    let first = answered(&prober, 0, "the first cable").await;
    ip("link delete near");
    plug();
    answered(&prober, first + 5, "the second cable").await;
}
