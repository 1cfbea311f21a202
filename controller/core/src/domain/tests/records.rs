// SPDX-License-Identifier: Apache-2.0
//! Records as a store keeps them: each is read at its own key, in the form in which it was written.

use canopy_model::drain::DrainSpec;
use canopy_model::silence::SilenceSpec;
use canopy_model::srh_hmac::{FlagBit, HmacKey, HmacKeyId, HmacSecret, SrhHmac};

use canopy_units::UnixTime;

use super::*;
use crate::assume_open;
use crate::record::{HmacRecord, RecordedRtt, RttRecord};
use crate::testing::{endpoint, fabric};

/// Group `g` from h1-1 to h2-1, and group `idle` with a receiver and no source.
fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    for name in ["g", "idle"] {
        w.run(group(name)).unwrap();
        w.run(receiver(name, "h2-1")).unwrap();
    }
    w.run(source("g", "h1-1")).unwrap();
    w
}

/// A record of each kind at least.
fn all() -> Vec<Record> {
    let mut w = world();
    let spec =
        DrainSpec { link: Some("leaf1/up1--spine1/down1".into()), reason: "optics".into(), ..DrainSpec::default() };
    let drain = Command::PutDrain { name: "d".into(), labels: Labels::new(), spec, if_match: None, create_only: true };
    w.run(drain).unwrap();
    let spec = SilenceSpec {
        node: Some("leaf1".into()),
        note: "fans".into(),
        until: Some(UnixTime::from_nanos(7)),
        ..SilenceSpec::default()
    };
    w.run(Command::PutSilence { name: "s".into(), labels: Labels::new(), spec, create_only: true }).unwrap();
    let key =
        HmacKey { id: HmacKeyId::new("id", 7).unwrap(), secret: HmacSecret::new([0xA5; 32]), flag_bit: FlagBit::Linux };
    let rtt = RecordedRtt { to: endpoint("spine1/down1"), rtt_ns: 7 };
    w.records.extend(
        [
            w.domain.leap(),
            Record::Hmac(HmacRecord::new(3, &SrhHmac::first(key))),
            Record::Rtt(RttRecord { node: "leaf1".into(), revision: 3, rtts: [("up1".to_owned(), rtt)].into() }),
        ]
        .map(|record| (record.key(), record)),
    );
    w.records.into_values().collect()
}

#[test]
fn a_record_is_read_at_its_key_as_it_was_written() {
    let mut kinds: Vec<String> = Vec::new();
    for record in all() {
        let key = record.key();
        let stored = serde_json::to_value(&record).unwrap();
        assert_eq!(Record::read(&key, stored).unwrap(), Some(record), "{key}");
        kinds.push(key.split('/').next().unwrap().to_owned());
        if key.starts_with("domain/") {
            kinds.push(key);
        }
    }
    for kind in ["topology", "drain", "silence", "group", "member", "rtt", "domain/hmac", "domain/state"] {
        assert!(kinds.iter().any(|k| k == kind), "{kind} of {kinds:?}");
    }
}

#[test]
fn what_is_not_the_domains_is_not_read() {
    for key in ["", "topology", "domain", "domain/other", "hmac", "lease/leader", "x/topology/default"] {
        assert_eq!(Record::read(key, serde_json::json!({})).unwrap(), None, "{key:?}");
    }
    for key in ["topology/default", "drain/d", "group/g", "member/g/h", "rtt/n", "domain/hmac", "domain/state"] {
        assert!(Record::read(key, serde_json::json!({})).is_err(), "{key}");
    }
}

/// A version that does not know ends of drains refuses fields of a spec that it does not know, and ignores others.
#[test]
fn the_end_of_a_drain_is_beside_its_spec() {
    let until = canopy_model::rfc3339::parse("2026-11-26T18:00:00Z").unwrap();
    let spec =
        DrainSpec { node: Some("spine1".into()), reason: "x".into(), until: Some(until), ..DrainSpec::default() };
    let mut w = World::with(fabric(2, 2, 1));
    w.run(Command::PutDrain { name: "d".into(), labels: Labels::new(), spec, if_match: None, create_only: true })
        .unwrap();
    let record = w.records["drain/d"].clone();
    let mut stored = serde_json::to_value(&record).unwrap();
    assert_eq!(Record::read("drain/d", stored.clone()).unwrap(), Some(record));
    assert!(stored["spec"].get("until").is_none(), "{stored}");
    // As that version writes it.
    assert_eq!(stored.as_object_mut().unwrap().remove("until"), Some("2026-11-26T18:00:00Z".into()));
    let Some(Record::Drain(earlier)) = Record::read("drain/d", stored).unwrap() else { panic!() };
    assert_eq!(earlier.into_drain().spec.until, None);
}

/// Versions that did not know sessions have no number of the first one.
#[test]
fn the_first_session_has_no_number_in_the_record_and_the_others_have() {
    let mut w = world();
    let Some(Record::Group(record)) = w.records.get_mut("group/g") else { panic!() };
    for (session, stored) in [(0, None), (1, Some(1)), (7, Some(7))] {
        record.session = session;
        let record = Record::Group(record.clone());
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(value.get("session").and_then(|s| s.as_u64()), stored);
        assert_eq!(Record::read("group/g", value).unwrap(), Some(record));
    }
}

/// The group's record names the session that was opened by the epoch in which its source joined.
#[test]
fn groups_with_a_source_count_as_open_in_a_copy_and_others_stay_as_they_are() {
    let w = world();
    for (opened, since, changes) in [(Some(3), 3, false), (Some(2), 3, true), (Some(4), 3, true), (None, 3, false)] {
        let mut records: Vec<(String, Record)> = w.records.clone().into_iter().collect();
        for (_, record) in &mut records {
            match record {
                Record::Group(group) => group.opened = opened,
                Record::Member(member) => member.since = since,
                _ => {}
            }
        }
        let before = records.clone();
        let changed = assume_open(&mut records);
        let keys: Vec<String> = changed.iter().map(Record::key).collect();
        assert_eq!(keys, if changes { vec!["group/g".to_owned()] } else { vec![] }, "{opened:?} {since}");
        for ((key, record), (_, old)) in records.iter().zip(&before) {
            let is_changed = changes && key == "group/g";
            assert_eq!(record != old, is_changed, "{key}");
            assert!(!is_changed || matches!(record, Record::Group(group) if group.opened.is_none()));
        }
    }
}

#[test]
fn groups_without_members_keep_their_epoch_through_changes_of_the_topology() {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    let id = w.domain.group("g").unwrap().status.group_id.get();
    let moved = |w: &World| match &w.records["topology/default"] {
        Record::Topology(topology) => topology.moved.clone(),
        other => panic!("{other:?}"),
    };
    w.run(topology(fabric(3, 2, 1))).unwrap();
    assert_eq!(moved(&w), BTreeMap::new(), "its own record has its epoch");
    // An earlier change of the topology moved the group's tree, and its record was not written since.
    let Some(Record::Topology(record)) = w.records.get_mut("topology/default") else { panic!() };
    record.moved.insert(id, 9);
    w.domain = w.restarted();
    w.run(topology(fabric(3, 3, 1))).unwrap();
    assert_eq!(moved(&w), BTreeMap::from([(id, 9)]));
    assert_eq!(w.restarted().group("g").unwrap().status.epoch, 9);
}

/// The keys that a command wrote and removed.
fn written(w: &mut World, command: Command) -> [Vec<String>; 2] {
    let prepared = w.domain.prepare(command.clone()).unwrap();
    let (put, removed): (Vec<&Write>, Vec<&Write>) =
        prepared.writes.iter().partition(|write| matches!(write, Write::Put(_)));
    let keys = [put, removed].map(|writes| writes.into_iter().map(Write::key).collect());
    w.run(command).unwrap();
    keys
}

/// Catches a link that goes out of service and writes all others of a large topology, and a record that stays behind without one.
#[test]
fn what_changes_with_the_links_of_a_large_topology_is_a_record_of_its_own() {
    let of = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<String>>();
    let mut w = World::apart(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w.run(source("g", "h1-1")).unwrap();
    w.run(receiver("g", "h2-1")).unwrap();
    w.confirm_all();
    let lost = ports_down("leaf1", &["up1"]);
    assert_eq!(written(&mut w, lost), [of(&["links/default", "domain/state"]), of(&[])]);
    let again = w.restarted();
    assert_eq!(again.state.down(), w.domain.state.down());
    assert_eq!(again.group("g").unwrap().status.epoch, w.domain.group("g").unwrap().status.epoch);
    let mut without = w.records.clone();
    without.remove("topology/default").unwrap();
    let refused = restored(without).map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("links/default"), "{refused}");
    // It becomes a small one, and is removed.
    w.domain.state.apart_above = usize::MAX;
    let [put, removed] = written(&mut w, topology(fabric(3, 2, 1)));
    assert!(put.contains(&"topology/default".to_owned()) && !put.contains(&"links/default".to_owned()), "{put:?}");
    assert_eq!(removed, of(&["links/default"]));
    let mut w = World::apart(fabric(2, 2, 1));
    assert_eq!(written(&mut w, Command::DeleteTopology)[1], of(&["topology/default", "links/default"]));
}

/// Catches an estimate by which a topology in one record, which an earlier version reads, is without what that needs.
#[test]
fn a_topology_has_no_fewer_octets_than_are_counted() {
    use crate::record::least_octets;
    use crate::testing::clos::{clos, fat_tree};
    let nodes = vec![crate::testing::node("a", 1), crate::testing::node("b", 2)];
    let short = TopologySpec { nodes, links: vec![crate::testing::link("a/1", "b/1")], ..TopologySpec::default() };
    for spec in [short, fabric(3, 2, 1), clos(), fat_tree(8), TopologySpec::default()] {
        let octets = serde_json::to_vec(&spec).unwrap().len();
        assert!(least_octets(&spec) <= octets, "{} counted, {octets} are there", least_octets(&spec));
    }
}
