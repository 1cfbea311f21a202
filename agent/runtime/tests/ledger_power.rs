// SPDX-License-Identifier: Apache-2.0
//! Power cuts: a spec that the ledger has stored is on the disk.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::ExitCode;

use canopy_agent_runtime::ledger::Ledger;
use canopy_control::HeldSpec;
use canopy_testkit::cases::{Case, run};
use canopy_testkit::power::{self, Device};
use canopy_testkit::spec::spec;

fn main() -> ExitCode {
    if let Some((_, dir)) = power::child() {
        write(&dir);
        return ExitCode::SUCCESS;
    }
    run(&[Case { name: "a_stored_spec_survives_power_cuts", run: cut }], power::missing)
}

/// Other groups with each generation: few and many, so that deltas have all sizes and the log is written anew now and then.
fn held(generation: u64) -> HeldSpec {
    let groups: Vec<u64> = (1..2 + generation * 37 % 90).map(|n| n * 3 + generation % 3).collect();
    HeldSpec::encode(spec(7, generation, &groups))
}

fn write(dir: &Path) {
    let ledger = Ledger::open(dir).unwrap();
    let mut generation = 0;
    power::on_request(|| {
        generation += 1;
        ledger.store(&held(generation)).unwrap();
        generation.to_string()
    });
}

fn cut() {
    let device = Device::new(24 << 20);
    let mut writer = device.writer("specs", "state");
    for n in 0..if std::env::var_os("CANOPY_DEEP").is_some() { 200 } else { 13 } {
        // Cuts after one spec, and after some.
        let mut generation: u64 = 0;
        for _ in 0..1 + n * n % 4 {
            generation = writer.write().parse().unwrap();
        }
        let cut = device.cut();
        let ledger = Ledger::open(&cut.path().join("state")).unwrap();
        let loaded = ledger.load("leaf-1").unwrap();
        assert!(
            loaded.as_ref() == Some(&held(generation)),
            "cut {n}: not generation {generation}, but {:?}",
            loaded.map(|l| l.spec().generation)
        );
    }
}
