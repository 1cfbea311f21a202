// SPDX-License-Identifier: Apache-2.0
//! Carriers over a link with a delay. Needs root. `sch_netem` passes no carrier on: where the kernel has it, the test is listed as ignored.
#![allow(missing_docs, clippy::unwrap_used)]

use std::process::ExitCode;

use canopy_lab::{Lab, Means};
use canopy_testkit::cases::{Case, run};
use common::{delayed, eventually, forward_by_hand, ip, options};

mod common;

fn main() -> ExitCode {
    let name = "each_end_of_a_delayed_link_has_the_others_carrier";
    run(&[Case { name, run: each_end_of_a_delayed_link_has_the_others_carrier }], || {
        let by = up().state().delay_means;
        (by != Some(Means::UserSpace))
            .then(|| "links are delayed by sch_netem here, which passes no carrier on".to_owned())
    })
}

fn up() -> Lab {
    Lab::up(delayed("1ms"), options("t-carrier")).unwrap()
}

fn each_end_of_a_delayed_link_has_the_others_carrier() {
    let lab = up();
    forward_by_hand(&lab);
    let carrier = |device: &str, port: &str| !ip(&lab, device, &format!("link show dev {port}")).contains("NO-CARRIER");
    ip(&lab, "r1", "link set dev eth0 down");
    eventually("n1 to lose its carrier", || !carrier("n1", "eth2.5"));
    ip(&lab, "n1", "link set dev eth2.5 down");
    ip(&lab, "r1", "link set dev eth0 up");
    eventually("r1 to have no carrier", || !carrier("r1", "eth0"));
    ip(&lab, "n1", "link set dev eth2.5 up");
    eventually("both carriers", || carrier("r1", "eth0") && carrier("n1", "eth2.5"));
}
