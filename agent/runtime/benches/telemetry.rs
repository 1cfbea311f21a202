// SPDX-License-Identifier: Apache-2.0
//! What telemetry costs an agent: the counters of all branches are read from the maps of a kernel and encoded. The share is that of one
//! core with one sample a second, as agents send by default.

use std::time::{Duration, Instant};

use canopy_control::pb;
use canopy_datapath::testbed::{Shape, Testbed};
use prost::Message;

/// Receivers of a group, each a branch.
const BRANCHES: u32 = 8;
/// Branches of the node.
const SIZES: [u32; 4] = [8, 1_000, 10_000, 80_000];
const SAMPLES: usize = 60;
const INTERVAL: Duration = Duration::from_secs(1);

fn node(branches: u32) -> Testbed {
    let mut bed = Testbed::new(&Shape { receivers: BRANCHES, ..Shape::default() });
    bed.peers_answer();
    assert_eq!(bed.multiply(branches / BRANCHES), []);
    bed
}

/// One sample: how long it took, and its octets on the wire.
fn sample(bed: &mut Testbed) -> (Duration, usize) {
    let start = Instant::now();
    let groups = bed.groups();
    let request = pb::StreamTelemetryRequest {
        node: "n1".into(),
        groups: groups.iter().map(Into::into).collect(),
        ..Default::default()
    };
    let octets = request.encode_to_vec().len();
    (start.elapsed(), octets)
}

fn main() {
    println!("{:>9} {:>27} {:>12} {:>12}", "branches", "q1 median q3 us a sample", "of a core", "octets");
    let mut nodes = SIZES.map(node);
    let mut all: [Vec<(Duration, usize)>; 4] = Default::default();
    for _ in 0..SAMPLES {
        nodes.iter_mut().zip(&mut all).for_each(|(bed, taken)| taken.push(sample(bed)));
    }
    for (branches, mut taken) in SIZES.into_iter().zip(all) {
        taken.sort_unstable();
        let [q1, median, q3] = [1, 2, 3].map(|q| taken[SAMPLES * q / 4].0);
        let us = [q1, median, q3].map(|t| format!("{:8.0}", t.as_secs_f64() * 1e6)).join(" ");
        let share = 100.0 * median.as_secs_f64() / INTERVAL.as_secs_f64();
        println!("{branches:>9} {us:>27} {share:>10.2} % {:>12}", taken[0].1);
    }
}
