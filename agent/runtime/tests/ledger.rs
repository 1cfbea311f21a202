// SPDX-License-Identifier: Apache-2.0
//! What the ledger does with files that it did not write, or not whole.

#![allow(clippy::unwrap_used)]

use std::fs;

use canopy_agent_runtime::ledger::Ledger;
use canopy_control::pb::SnapshotPage;
use canopy_control::pb::watch_response::Update;
use canopy_control::{Accepted, HeldSpec, apply_update, snapshot_responses};
use canopy_testkit::spec::spec;
use sha2::{Digest as _, Sha256};

fn held(term: u64, generation: u64, groups: &[u64]) -> HeldSpec {
    HeldSpec::encode(spec(term, generation, groups))
}

#[test]
fn what_is_stored_is_loaded_with_its_term() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let ledger = Ledger::open(&state).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), None);
    for stored in [held(1, 1, &[1]), held(7, 2, &[2, 3]), held(7, 3, &[2, 3]), held(8, 1, &[])] {
        ledger.store(&stored).unwrap();
        assert_eq!(ledger.load("leaf-1").unwrap(), Some(stored));
    }
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_snapshot_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let (path, aside) = (dir.path().join("spec.log"), dir.path().join("spec.log.damaged"));
    ledger.store(&held(7, 2, &[2])).unwrap();
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
        assert_eq!(fs::read(&aside).unwrap(), bytes, "the damaged file is kept");
        assert!(!path.exists());
    }
    let ledger = reopened(ledger, dir.path());
    ledger.store(&held(1, 1, &[1])).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), Some(held(1, 1, &[1])), "a new one can be written");
}

fn reopened(ledger: Ledger, dir: &std::path::Path) -> Ledger {
    drop(ledger);
    Ledger::open(dir).unwrap()
}

#[test]
fn a_delta_that_was_not_written_whole_is_dropped_and_damage_before_it_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let path = dir.path().join("spec.log");
    let all = [held(7, 2, &[2]), held(7, 3, &[2, 3]), held(7, 4, &[3])];
    let mut ends = vec![];
    for stored in &all {
        ledger.store(stored).unwrap();
        ends.push(fs::metadata(&path).unwrap().len() as usize);
    }
    assert!(ends[2] - ends[1] < ends[0], "a delta costs as much as everything: {ends:?}");
    let good = fs::read(&path).unwrap();
    for length in ends[0]..ends[2] {
        fs::write(&path, &good[..length]).unwrap();
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(ledger.load("leaf-1").unwrap().as_ref(), Some(&all[whole - 1]), "cut after {length}");
    }
    // A record that was written whole is not behind one that was not.
    let mut damaged = good.clone();
    damaged[ends[0] + 12] ^= 1;
    fs::write(&path, &damaged).unwrap();
    assert_eq!(ledger.load("leaf-1").unwrap(), None);
    assert_eq!(fs::read(dir.path().join("spec.log.damaged")).unwrap(), damaged);
}

#[test]
fn the_log_is_written_anew_when_its_deltas_are_longer_than_its_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let length = || fs::metadata(dir.path().join("spec.log")).unwrap().len();
    let (mut longest, mut shrank) = (0, 0);
    for generation in 1..2_000 {
        let stored = held(1, generation, if generation % 2 == 0 { &[1, 2] } else { &[1, 3] });
        let before = if generation == 1 { 0 } else { length() };
        ledger.store(&stored).unwrap();
        longest = longest.max(length());
        shrank += u32::from(length() < before);
        if generation % 100 == 0 {
            assert_eq!(ledger.load("leaf-1").unwrap(), Some(stored));
        }
    }
    assert!(shrank > 2 && longest < 128 << 10, "{shrank} times, at most {longest} octets");
}

/// The ledger keeps fields of a later version, and the digest covers them.
#[test]
fn a_field_of_a_later_version_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    let plain = held(3, 1, &[1, 2]);
    let mut page = snapshot_responses(&plain).remove(0);
    let Some(Update::Page(p)) = &mut page.update else { panic!() };
    let mut program = p.groups[0].program.to_vec();
    // Field 1000, a varint: 7.
    program.extend([0xC0, 0x3E, 7]);
    p.groups[0].program = program.clone().into();
    page.digest = digest_of(p);
    let Ok(Accepted::Spec(newer)) = apply_update(None, &mut None, page) else { panic!() };
    assert_eq!(newer.spec(), plain.spec());
    for stored in [&plain, &newer] {
        ledger.store(stored).unwrap();
        let loaded = ledger.load("leaf-1").unwrap().unwrap();
        assert_eq!((&loaded, loaded.digest()), (stored, stored.digest()));
    }
    let loaded = ledger.load("leaf-1").unwrap().unwrap();
    assert_eq!(loaded.items().groups().next().unwrap().1.to_vec(), program);
}

/// The published rule of `WatchResponse.digest`.
fn digest_of(page: &SnapshotPage) -> Vec<u8> {
    let mut digest = Sha256::digest([b"b".as_slice(), &page.base].concat()).to_vec();
    for item in &page.groups {
        let hash = Sha256::digest([b"g".as_slice(), &item.group_id.to_be_bytes(), &item.program].concat());
        digest.iter_mut().zip(hash).for_each(|(a, b)| *a ^= b);
    }
    digest
}

#[test]
fn the_ledger_of_another_node_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(dir.path()).unwrap();
    ledger.store(&held(7, 2, &[2])).unwrap();
    assert_eq!(ledger.load("leaf-2").unwrap(), None);
    assert!(dir.path().join("spec.log.damaged").exists());
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
