// SPDX-License-Identifier: Apache-2.0
//! The number of instructions that the kernel's verifier processes to load the programs, compared with the figures per kernel in
//! `bpf/verified-insns.txt`: it shows growth long before a kernel with smaller limits rejects a program.

use std::collections::BTreeMap;

use libbpf_rs::Program;
use libbpf_rs::query::ProgInfoIter;

use super::*;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/verified-insns.txt");

/// Kernel version, such as `6.12` of `6.12.95+deb12-amd64`.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// Recorded instructions, by kernel and program.
fn record() -> BTreeMap<(String, String), u32> {
    let text = std::fs::read_to_string(RECORD).unwrap();
    let lines = text.lines().filter(|l| !l.starts_with('#') && !l.is_empty());
    let line = |l: &str| {
        let [kernel, program, insns] = l.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{l:?}") };
        ((kernel.to_owned(), program.to_owned()), insns.parse().unwrap())
    };
    lines.map(line).collect()
}

#[test]
fn the_verifier_processes_at_most_a_tenth_more_instructions_than_recorded() {
    let bed = Testbed::new(&Shape::default());
    let (kernel, record) = (kernel(), record());
    let mut wrong = Vec::new();
    for (name, fd) in bed.datapath.bpf.programs() {
        let id = Program::id_from_fd(fd).unwrap();
        let now = ProgInfoIter::default().find(|p| p.id == id).unwrap().verified_insns;
        println!("{kernel} {name} {now}");
        match record.get(&(kernel.clone(), name.to_owned())) {
            Some(known) if now <= known + known / 10 => {}
            Some(known) => wrong.push(format!("{name}: {now} instructions, {known} recorded")),
            None => wrong.push(format!("{name}: {now} instructions, nothing recorded for Linux {kernel}")),
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong:?}: make the program simpler, or record the new figures in bpf/verified-insns.txt"
    );
}
