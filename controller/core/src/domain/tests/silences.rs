// SPDX-License-Identifier: Apache-2.0
//! Problems that operators know of.

use canopy_model::silence::SilenceSpec;
use canopy_units::UnixTime;

use super::*;
use crate::command::Outcome;
use crate::health::ProblemKey;
use crate::limits::MAX_SILENCES;
use crate::problem::{Object, ProblemCode};
use crate::testing::fabric;

const LINK: &str = "leaf1/up1--spine1/down1";

fn at(s: u64) -> UnixTime {
    UnixTime::from_nanos(s * 1_000_000_000)
}

fn spec(until: Option<u64>) -> SilenceSpec {
    SilenceSpec { note: "optics".into(), until: until.map(at), ..SilenceSpec::default() }
}

fn put(name: &str, spec: SilenceSpec) -> Command {
    Command::PutSilence { name: name.into(), labels: Labels::new(), spec, create_only: false }
}

fn node(name: &str, until: u64) -> SilenceSpec {
    SilenceSpec { node: Some(name.into()), ..spec(Some(until)) }
}

fn world() -> World {
    let mut w = World::with(fabric(2, 2, 1));
    w.run(group("g")).unwrap();
    w
}

fn key(code: ProblemCode, object: Object) -> ProblemKey {
    ProblemKey::new(code, object)
}

/// Name of the silence that is in force at 10 s.
fn of(d: &Domain, object: &Object) -> Option<String> {
    d.silence_of(&key(ProblemCode::LinkDown, object.clone()), at(10)).map(|s| s.metadata.name)
}

#[test]
fn a_silence_is_of_the_object_and_of_what_belongs_to_it() {
    let member = Object::Member { group: "g".into(), host: "h2-1".into() };
    let all = [
        Object::Controller,
        Object::Node("leaf1".into()),
        Object::Node("leaf2".into()),
        Object::Port("leaf1/up1".into()),
        Object::Port("leaf2/leaf1".into()),
        Object::Link(LINK.into()),
        Object::Link("leaf2/up1--spine1/down2".into()),
        Object::Group("g".into()),
        member.clone(),
        Object::Member { group: "leaf1".into(), host: "h1-1".into() },
    ];
    let silenced = |spec: SilenceSpec| {
        let mut w = world();
        w.run(put("s", spec)).unwrap();
        let covered = |d: &Domain| all.iter().filter(|o| of(d, o).is_some()).cloned().collect::<Vec<_>>();
        assert_eq!(covered(&w.domain), covered(&w.restarted()), "it is durable");
        covered(&w.domain)
    };
    let [port, link] = [Object::Port("leaf1/up1".into()), Object::Link(LINK.into())];
    assert_eq!(silenced(node("leaf1", 20)), [Object::Node("leaf1".into()), port, link.clone()]);
    // Of a link that is named by one of its ends, the whole link.
    for name in [LINK, "leaf1/up1", "spine1/down1"] {
        let of_link = SilenceSpec { link: Some(name.into()), ..spec(Some(20)) };
        assert_eq!(silenced(of_link), std::slice::from_ref(&link), "{name}");
    }
    let of_group = SilenceSpec { group: Some("g".into()), ..spec(Some(20)) };
    assert_eq!(silenced(of_group), [Object::Group("g".into()), member.clone()]);
    assert_eq!(silenced(SilenceSpec { host: Some("h2-1".into()), ..spec(Some(20)) }), [member]);
    let id = key(ProblemCode::LinkDown, Object::Controller).id();
    assert_eq!(silenced(SilenceSpec { problem: Some(id), ..spec(None) }), [Object::Controller]);
}

#[test]
fn of_several_the_one_that_ends_last_is_in_force_and_each_in_its_time() {
    let mut w = world();
    let object = Object::Node("leaf1".into());
    w.run(put("short", node("leaf1", 11))).unwrap();
    w.run(put("long", node("leaf1", 20))).unwrap();
    w.run(put("later", SilenceSpec { from: Some(at(30)), ..node("leaf1", 40) })).unwrap();
    let name = |s: u64| {
        let problem = key(ProblemCode::AgentDisconnected, object.clone());
        w.domain.silence_of(&problem, at(s)).map(|found| found.metadata.name)
    };
    assert_eq!([10, 19].map(name), [Some("long".into()), Some("long".into())]);
    assert_eq!([20, 29, 30, 39, 40].map(|s| name(s).is_some()), [false, false, true, true, false]);
    let ended = |s| w.domain.ended_silences(at(s)).collect::<Vec<_>>().join(" ");
    assert_eq!([10, 11, 20, 40].map(ended), ["", "short", "short long", "short long later"]);
    // What is in force changes with time alone, too.
    let versions = [10, 15, 25, 35].map(|s| w.domain.silences_version(at(s)));
    assert_eq!(versions.iter().collect::<std::collections::BTreeSet<_>>().len(), 4, "{versions:?}");
    let before = w.domain.silences_version(at(10));
    w.run(Command::DeleteSilence { name: "long".into() }).unwrap();
    assert_eq!(of(&w.domain, &object), Some("short".into()));
    assert!(w.domain.silences_version(at(10)) > before);
    w.run(put("short", node("leaf2", 30))).unwrap();
    assert_eq!(of(&w.domain, &object), None, "it is of another node now");
    assert_eq!(w.domain.ended_silences(at(29)).count(), 0, "and ends later");
}

#[test]
fn what_is_not_there_is_refused_and_what_is_there_changes_as_other_resources_do() {
    let mut w = world();
    let of = |field: &str| {
        let mut json = serde_json::json!({"note": "x", "until": "2100-01-01T00:00:00Z"});
        json[field] = "absent".into();
        put("s", serde_json::from_value(json).unwrap())
    };
    for field in ["node", "link", "group", "host"] {
        let problem = w.problem(of(field));
        assert!(problem.starts_with(&format!("Invalid: spec.{field}: ")), "{problem}");
    }
    assert!(w.problem(put("s", SilenceSpec { until: None, ..node("leaf1", 20) })).contains("spec.until"));
    let applied = w.run(put("s", node("leaf1", 20))).unwrap();
    assert_eq!((applied.outcome, applied.nodes, applied.groups), (Outcome::Created, vec![], vec![]));
    assert_eq!(w.run(put("s", node("leaf1", 20))).unwrap().outcome, Outcome::Unchanged);
    let changed = w.run(put("s", node("leaf1", 30))).unwrap();
    assert_eq!((changed.outcome, changed.generation), (Outcome::Updated, 2));
    let again =
        Command::PutSilence { name: "s".into(), labels: Labels::new(), spec: node("leaf2", 9), create_only: true };
    assert!(w.problem(again).starts_with("AlreadyExists"));
    assert_eq!(w.run(Command::DeleteSilence { name: "s".into() }).unwrap().outcome, Outcome::Deleted);
    assert!(w.problem(Command::DeleteSilence { name: "s".into() }).starts_with("NotFound"));
    assert!(!w.records.keys().any(|key| key.starts_with("silence/")));
    for i in 0..MAX_SILENCES {
        w.run(put(&format!("s{i}"), node("leaf1", 20))).unwrap();
    }
    assert!(w.problem(put("more", node("leaf1", 20))).starts_with("Limit: "));
    assert_eq!(w.run(put("s0", node("leaf1", 21))).unwrap().outcome, Outcome::Updated);
}
