// SPDX-License-Identifier: Apache-2.0
//! Cost of a packet at the egress by the number of flows: the table is bounded, and a lookup is one hash.
//!
//! One program is measured with all sizes in turn, and a ratio is of two medians. "known" is a flow in the table, announced by the
//! agent; "new" is a flow that is not in the table and evicts the least recently used one.

use canopy_datapath::testbed::*;

const OFFERED: [u32; 4] = [1, 1_000, 65_536, 1_000_000];
const ROUNDS: usize = 40;
const PACKETS: u32 = 200;

/// Prints the table.
pub(crate) fn run() {
    let bed = Testbed::without_far_boundary(&Shape::default());
    println!(
        "\n{:<16} {:>9} {:>8} {:>8} {:>8} {:>8}   {:>6}",
        "egress", "offered", "entries", "q1 ns", "median", "q3 ns", "ratio"
    );
    let (mut offered, mut first) = (0, [0.0; 2]);
    for size in OFFERED {
        while offered < size {
            bed.egress("d0", &flow_packet(offered));
            offered += 1;
        }
        bed.announce_flow(0);
        let mut next = offered;
        let mut kinds = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (kind, medians) in kinds.iter_mut().enumerate() {
                let mut ns: Vec<u128> = (0..PACKETS)
                    .map(|_| {
                        next += kind as u32;
                        bed.egress("d0", &flow_packet(if kind == 0 { 0 } else { next })).as_nanos()
                    })
                    .collect();
                ns.sort_unstable();
                medians.push(ns[ns.len() / 2] as f64);
            }
        }
        offered = next;
        for (kind, (name, mut medians)) in ["known flow", "new flow"].into_iter().zip(kinds).enumerate() {
            medians.sort_unstable_by(f64::total_cmp);
            let at = |q: usize| medians[medians.len() * q / 4];
            if size == OFFERED[0] {
                first[kind] = at(2);
            }
            let (entries, ratio) = (bed.egress_flows(), at(2) / first[kind]);
            println!("{name:<16} {size:>9} {entries:>8} {:>8} {:>8} {:>8}   {ratio:>6.2}", at(1), at(2), at(3));
        }
    }
}
