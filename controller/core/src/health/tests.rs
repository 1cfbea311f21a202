// SPDX-License-Identifier: Apache-2.0
//! The life of problems, and which of them are causes.

use std::time::Duration;

use super::*;

const T0: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn at(ms: u64) -> Monotonic {
    T0 + Duration::from_millis(ms)
}

/// The wall clock of these tests is two hours ahead.
fn observe(health: &mut Health, subject: &Subject, symptoms: Vec<Symptom>, now: Monotonic) {
    health.observe(subject, symptoms, now, UnixTime::from_nanos(now.nanos() + 7_200_000_000_000));
}

fn node(name: &str) -> Subject {
    Subject::Node(name.to_owned())
}

fn port(name: &str) -> ProblemKey {
    ProblemKey::new(ProblemCode::PortDown, Object::Port(name.to_owned()))
}

fn stalled(group: &str) -> ProblemKey {
    ProblemKey::new(ProblemCode::GroupStalled, Object::Group(group.to_owned()))
}

fn receiver(host: &str) -> ProblemKey {
    ProblemKey::new(ProblemCode::ReceiverStalled, Object::Member { group: "g".into(), host: host.into() })
}

fn symptom(key: ProblemKey, causes: &[ProblemKey]) -> Symptom {
    Symptom { evidence: format!("{} is seen", key.object), key, causes: causes.to_vec(), group: None }
}

fn keys(problems: &[Problem]) -> Vec<&ProblemKey> {
    problems.iter().map(|p| &p.key).collect()
}

#[test]
fn a_problem_opens_and_closes_after_its_delays_and_is_one_through_flaps() {
    let key = ProblemKey::new(ProblemCode::LinkCongested, Object::Port("n1/eth1".into()));
    let (opens, closes) = (key.code.info().opens_after, key.code.info().closes_after);
    let mut health = Health::default();
    let seen = || vec![symptom(key.clone(), &[])];
    observe(&mut health, &node("n1"), seen(), T0);
    assert!(health.problems().is_empty() && health.take_changes().is_empty());
    assert_eq!(health.poll_timeout(), Some(T0 + opens));
    // A shorter one leaves nothing.
    observe(&mut health, &node("n1"), vec![], T0 + opens / 2);
    assert_eq!((health.poll_timeout(), health.known.len(), health.by_subject.len()), (None, 0, 0));

    observe(&mut health, &node("n1"), seen(), at(60_000));
    health.handle_timeout(at(60_000) + (opens - Duration::from_nanos(1)));
    assert!(health.problems().is_empty());
    health.handle_timeout(at(60_000) + opens);
    let open = health.problems();
    assert_eq!((open[0].since, open[0].count, open[0].closing), (at(60_000), 1, false));
    assert_eq!(open[0].began, UnixTime::from_nanos(at(60_000 + 7_200_000).nanos()));
    assert_eq!(
        health.take_changes(),
        [Change { key: key.clone(), is_open: true, group: None, evidence: "port n1/eth1 is seen".into() }]
    );

    // A flap: the same problem, with its beginning.
    let gone = at(60_000) + opens * 2;
    observe(&mut health, &node("n1"), vec![], gone);
    assert_eq!((health.problems()[0].closing, health.problems()[0].evidence.len()), (true, 1));
    observe(&mut health, &node("n1"), seen(), gone + closes / 2);
    health.handle_timeout(gone + closes);
    let open = health.problems();
    assert_eq!((open[0].since, open[0].count, open[0].closing), (at(60_000), 2, false));
    assert!(health.take_changes().is_empty());

    let gone = gone + closes * 2;
    observe(&mut health, &node("n1"), vec![], gone);
    health.handle_timeout(gone + (closes - Duration::from_nanos(1)));
    assert_eq!(health.problems().len(), 1);
    health.handle_timeout(gone + closes);
    assert!(health.problems().is_empty() && health.poll_timeout().is_none());
    assert_eq!(health.take_changes().iter().map(|c| c.is_open).collect::<Vec<_>>(), [false]);
}

/// The timer of its first end is no timer of the second.
#[test]
fn a_problem_that_returns_while_it_closes_has_the_whole_delay_again() {
    let key = ProblemKey::new(ProblemCode::LinkCongested, Object::Port("n1/eth1".into()));
    let (opens, closes) = (key.code.info().opens_after, key.code.info().closes_after);
    let mut health = Health::default();
    let seen = || vec![symptom(key.clone(), &[])];
    observe(&mut health, &node("n1"), seen(), T0);
    let gone = T0 + opens;
    observe(&mut health, &node("n1"), seen(), gone);
    observe(&mut health, &node("n1"), vec![], gone);
    observe(&mut health, &node("n1"), seen(), gone + closes / 4);
    let again = gone + closes / 2;
    observe(&mut health, &node("n1"), vec![], again);
    health.handle_timeout(gone + closes);
    assert_eq!(keys(&health.problems()), [&key]);
    health.handle_timeout(again + closes);
    assert_eq!(keys(&health.problems()), [&key; 0]);
}

/// Catches a change that those who follow the version miss, and one that is none.
#[test]
fn the_version_changes_with_what_is_shown() {
    let mut health = Health::default();
    let key = ProblemKey::new(ProblemCode::LinkCongested, Object::Port("n1/eth1".into()));
    let with =
        |evidence: &str, causes: &[ProblemKey]| Symptom { evidence: evidence.into(), ..symptom(key.clone(), causes) };
    let steps = [
        (0, vec![with("a", &[])]),
        (60_000, vec![with("a", &[])]),
        (61_000, vec![with("a", &[])]),
        (62_000, vec![with("b", &[])]),
        (63_000, vec![with("b", &[port("n1/eth1")])]),
        (64_000, vec![with("b", &[port("n1/eth1")]), symptom(port("n1/eth1"), &[])]),
        (124_000, vec![with("b", &[port("n1/eth1")]), symptom(port("n1/eth1"), &[])]),
        (125_000, vec![symptom(port("n1/eth1"), &[])]),
        (126_000, vec![with("b", &[]), symptom(port("n1/eth1"), &[])]),
        (127_000, vec![]),
        (1_000_000, vec![]),
    ];
    let (mut shown, mut differences) = (health.problems(), 0);
    for (ms, symptoms) in steps {
        let version = health.version();
        observe(&mut health, &node("n1"), symptoms, at(ms));
        let now = health.problems();
        assert!(health.version() >= version, "after {ms} ms");
        assert!(health.version() != version || now == shown, "after {ms} ms");
        differences += usize::from(now != shown);
        shown = now;
        let version = health.version();
        health.handle_timeout(at(ms));
        assert_eq!(health.version(), version, "after {ms} ms");
    }
    assert!(differences >= 7, "{differences}");
    let version = health.version();
    observe(&mut health, &node("n1"), vec![], at(1_000_001));
    assert_eq!(health.version(), version);
}

#[test]
fn both_ends_of_a_link_have_one_problem_that_lasts_until_neither_has_it() {
    let key = ProblemKey::new(ProblemCode::LinkBlackHole, Object::Link("a--b".into()));
    let mut health = Health::default();
    for end in ["a", "b"] {
        observe(&mut health, &node(end), vec![symptom(key.clone(), &[])], T0);
    }
    let open = health.problems();
    assert_eq!((open.len(), open[0].evidence.len(), open[0].count), (1, 2, 1));
    observe(&mut health, &node("a"), vec![], at(100));
    assert!(!health.problems()[0].closing);
    observe(&mut health, &node("b"), vec![], at(200));
    assert!(health.problems()[0].closing);
}

#[test]
fn causes_are_roots_and_what_they_explain_counts_under_them() {
    let mut health = Health::default();
    observe(&mut health, &node("n4"), vec![symptom(port("n4/eth2"), &[])], T0);
    let group = vec![symptom(stalled("g"), &[receiver("r3")]), symptom(receiver("r3"), &[port("n4/eth2")])];
    observe(&mut health, &Subject::Group("g".into()), group.clone(), T0);
    let all = health.problems();
    assert_eq!(keys(&all), [&port("n4/eth2"), &stalled("g"), &receiver("r3")]);
    assert_eq!(all.iter().map(Problem::is_root).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(all[0].affects, [stalled("g"), receiver("r3")]);

    // Without the port's problem the receiver is the root.
    observe(&mut health, &node("n4"), vec![], at(1));
    health.handle_timeout(at(10_000));
    let all = health.problems();
    assert_eq!((keys(&all), all[0].affects.clone()), (vec![&receiver("r3"), &stalled("g")], vec![stalled("g")]));
}

#[test]
fn the_worst_and_the_oldest_come_first_and_room_is_bounded() {
    let mut health = Health::default();
    let lossy = ProblemKey::new(ProblemCode::LinkLossy, Object::Link("a--b".into()));
    observe(&mut health, &node("a"), vec![symptom(lossy.clone(), &[])], T0);
    observe(&mut health, &node("b"), vec![symptom(port("b/1"), &[])], at(2));
    observe(&mut health, &node("c"), vec![symptom(port("a/1"), &[])], at(3));
    assert_eq!(keys(&health.problems()), [&port("b/1"), &port("a/1"), &lossy]);

    let many = |n: usize| (0..n).map(|i| symptom(port(&format!("z/{i}")), &[])).collect::<Vec<_>>();
    observe(&mut health, &node("z"), many(MAX_PROBLEMS), at(4));
    assert_eq!((health.known.len(), health.left_out()), (MAX_PROBLEMS, 3));
    observe(&mut health, &node("z"), many(1), at(5));
    health.handle_timeout(at(60_000));
    assert_eq!(health.problems().len(), 4);
}

#[test]
fn a_name_of_a_problem_depends_on_its_code_and_object_alone() {
    let ids = [
        port("n1/eth1").id(),
        port("n1/eth2").id(),
        stalled("n1/eth1").id(),
        ProblemKey::new(ProblemCode::LinkCongested, Object::Port("n1/eth1".into())).id(),
    ];
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
    assert!(ids.iter().all(|id| id.len() == 16));
    // As in every version before: operators have it in tickets.
    assert_eq!(ids[0], "608e6f8f4f70fbb5");
}

/// Catches a problem of a group that a later group of its name inherits, and with it the later one's tenant.
#[test]
fn a_problem_of_another_group_of_the_name_is_another_one() {
    let mut health = Health::default();
    let group = Subject::Group("g".to_owned());
    let uids = ["01234567-89ab-8def-8123-456789abcdef", "11234567-89ab-8def-8123-456789abcdef"];
    let [first, second] = uids.map(|uid| serde_json::from_str::<Uid>(&format!("\"{uid}\"")).unwrap());
    let of = |uid| vec![Symptom { group: Some(uid), ..symptom(stalled("g"), &[]) }];
    let opens = stalled("g").code.info().opens_after;
    observe(&mut health, &group, of(first), T0);
    health.handle_timeout(T0 + opens);
    assert_eq!(health.problems()[0].group, Some(first));
    // No clock decides: this is at the same instant.
    observe(&mut health, &group, of(second), T0 + opens);
    health.handle_timeout(T0 + opens * 2);
    let seen: Vec<_> = health.take_changes().into_iter().map(|change| (change.is_open, change.group)).collect();
    assert_eq!(seen, [(true, Some(first)), (false, Some(first)), (true, Some(second))]);
    assert_eq!((health.problems()[0].group, health.problems()[0].count), (Some(second), 1));
}
