// SPDX-License-Identifier: Apache-2.0
//! What the ledger does with files that it did not write, or not whole.

#![allow(clippy::unwrap_used)]

#[path = "../../link/tests/support/mod.rs"]
mod support;

use std::fs;

use canopy_agent_runtime::ledger::Ledger;
use support::spec;

#[test]
fn what_is_stored_is_loaded_with_its_term() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let ledger = Ledger::open(&state).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), None);
    ledger.store(&spec(1, 1, &[1])).unwrap();
    ledger.store(&spec(7, 2, &[2, 3])).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), Some(spec(7, 2, &[2, 3])));
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let (path, aside) = (dir.path().join("spec.pb"), dir.path().join("spec.pb.damaged"));
    ledger.store(&spec(7, 2, &[2])).unwrap();
    let good = fs::read(&path).unwrap();
    let flipped = (0..good.len()).map(|at| {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let cut = (0..good.len()).map(|length| good[..length].to_vec());
    for bytes in flipped.chain(cut) {
        fs::write(&path, &bytes).unwrap();
        assert_eq!(ledger.load("leaf-1").unwrap(), None);
        assert_eq!(fs::read(&aside).unwrap(), bytes, "it is kept for a look");
        assert!(!path.exists());
    }
    ledger.store(&spec(1, 1, &[1])).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), Some(spec(1, 1, &[1])), "a new one can be written");
}

#[test]
fn the_ledger_of_another_node_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    ledger.store(&spec(7, 2, &[2])).unwrap();
    assert_eq!(ledger.load("leaf-2").unwrap(), None);
    assert!(dir.path().join("spec.pb.damaged").exists());
}

#[test]
fn one_agent_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = Ledger::open(dir.path()).unwrap();
    let error = Ledger::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("another canopy-agent"), "{error}");
    drop(first);
    Ledger::open(dir.path()).unwrap();
}
