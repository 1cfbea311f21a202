// SPDX-License-Identifier: Apache-2.0
//! What `pacing.rs` tests with HTB, with EDT: it needs the fq qdisc, which not every kernel has. Where it is missing, these tests are listed
//! as ignored. Needs root; `CANOPY_PACER` names the daemon, as in `main.rs`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, unused_imports, reason = "the support of several test programs")]

use std::process::ExitCode;

use canopy_testkit::cases::{Case, run};
use support::Wire;

mod paced;
mod support;

const CASES: [Case; 3] = [
    Case { name: "with_edt_a_rate_reduce_in_either_format_is_what_the_packets_do", run: rate_reduce },
    Case { name: "with_edt_a_pause_stops_one_queue_pair_and_ends_by_itself", run: pause },
    Case { name: "with_edt_a_resume_gives_back_once", run: resume },
];

fn main() -> ExitCode {
    run(&CASES, || (!has_fq(&Wire::new())).then(|| "no fq in this kernel".to_owned()))
}

fn rate_reduce() {
    paced::rate_reduce(&Wire::new(), "edt");
}

fn pause() {
    paced::pause(&Wire::new(), "edt");
}

fn resume() {
    paced::resume(&Wire::new(), "edt");
}

/// Whether this kernel has fq: EDT can be tested only there.
fn has_fq(wire: &Wire) -> bool {
    let made = wire.on_host("tc qdisc add dev eth0 root fq").is_ok();
    if made {
        wire.on_host("tc qdisc del dev eth0 root").unwrap();
    }
    made
}
