// SPDX-License-Identifier: Apache-2.0
//! What a change of one group costs an agent when it has few groups and when it has many: every step from the wire to the report,
//! over the real maps of a kernel. Both sizes take turns in one run; the ratio is that of the medians.

use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_agent_runtime::ledger::Ledger;
use canopy_control::{Accepted, HeldSpec, SentSpec, SpecHead, apply_update};
use canopy_datapath::testbed::{Shape, Testbed};
use canopy_model::node_spec::NodeSpec;

const SIZES: [u32; 2] = [10, 4_000];
const CHANGES: usize = 60;
const STEPS: [&str; 5] = ["decode, digest", "ledger", "reconcile", "all of it", "reconcile without a change"];

struct Node {
    bed: Testbed,
    held: Arc<HeldSpec>,
    ledger: Ledger,
    _dir: tempfile::TempDir,
}

impl Node {
    fn new(groups: u32) -> Self {
        let mut bed = Testbed::new(&Shape { receivers: 8, ..Shape::default() });
        bed.peers_answer();
        assert_eq!(bed.multiply(groups), []);
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let held = Arc::new(HeldSpec::encode(bed.spec().clone()));
        ledger.store(&held).expect("stored");
        Self { bed, held, ledger, _dir: dir }
    }

    /// Changes one group, and returns the time of each step.
    fn change(&mut self) -> [Duration; 4] {
        let mut next = self.held.spec().clone();
        next.generation += 1;
        let id = *next.groups.keys().next().expect("a group");
        next.groups.get_mut(&id).expect("a group").epoch += 1;
        let head = |of: &NodeSpec| SpecHead { term: of.term, generation: of.generation, base: Arc::clone(&of.base) };
        let before = self.held.spec();
        let programs = before.groups.iter().map(|(id, program)| (*id, program.clone()));
        let mut sent = SentSpec::new(head(before), programs);
        let change = (id, next.groups.get(&id).cloned());
        let delta = sent.advance(head(&next), std::iter::once(change)).expect("one program is shorter than a page");

        let start = Instant::now();
        let accepted = apply_update(Some(&self.held), &mut None, delta);
        let Ok(Accepted::Spec(held)) = accepted else { panic!("{accepted:?}") };
        let decoded = start.elapsed();
        self.ledger.store(&held).expect("stored");
        let stored = start.elapsed();
        assert_eq!(self.bed.adopt(held.spec()), []);
        let all = start.elapsed();
        self.held = Arc::from(held);
        [decoded, stored - decoded, all - stored, all]
    }

    fn audit(&mut self) -> Duration {
        let start = Instant::now();
        assert_eq!(self.bed.adopt(self.held.spec()), []);
        start.elapsed()
    }
}

fn main() {
    let mut nodes = SIZES.map(Node::new);
    let mut times: [[Vec<Duration>; 5]; 2] = Default::default();
    for _ in 0..CHANGES {
        for (node, times) in nodes.iter_mut().zip(&mut times) {
            node.change().into_iter().zip(times).for_each(|(took, of_step)| of_step.push(took));
        }
    }
    // Not between the changes: an audit of many groups leaves the next change with cold caches.
    for _ in 0..CHANGES {
        nodes.iter_mut().zip(&mut times).for_each(|(node, times)| times[4].push(node.audit()));
    }
    println!("{:<28} {:>26} {:>26} {:>7}", "step", "10 groups: q1 median q3 us", "4,000: q1 median q3 us", "ratio");
    for (step, name) in STEPS.iter().enumerate() {
        let [few, many] = [0, 1].map(|size| {
            let all = &mut times[size][step];
            all.sort_unstable();
            [1, 2, 3].map(|q| all[CHANGES * q / 4].as_secs_f64() * 1e6)
        });
        let row = |t: [f64; 3]| t.map(|us| format!("{us:8.0}")).join(" ");
        println!("{name:<28} {:>26} {:>26} {:>7.2}", row(few), row(many), many[1] / few[1]);
    }
}
