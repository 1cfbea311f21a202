// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::problem::{Object, ProblemCode};

fn at(seconds: u64) -> Monotonic {
    Monotonic::from_nanos(seconds * 1_000_000_000)
}

fn wall(seconds: u64) -> UnixTime {
    UnixTime::from_nanos(seconds * 1_000_000_000)
}

fn problem(code: ProblemCode, node: &str) -> Problem {
    let key = ProblemKey::new(code, Object::Node(node.into()));
    Problem {
        silence: None,
        key,
        since: at(0),
        began: wall(0),
        group: None,
        count: 1,
        closing: false,
        evidence: vec!["seen".into()],
        causes: vec![],
        affects: vec![],
    }
}

fn down(node: &str) -> Problem {
    problem(ProblemCode::AgentDisconnected, node)
}

fn change(problem: &Problem) -> Change {
    Change { key: problem.key.clone(), is_open: false, group: None, evidence: String::new() }
}

/// A clock of charts that shows 10,000 when the controller's shows 0.
const ORIGIN: u64 = 10_000;
const NODE: &str = "n1";

fn object() -> ChartObject {
    ChartObject::Node(NODE.into())
}

/// Points of a series whose value is the second.
fn points(wanted: &Wanted) -> Vec<(ChartObject, Series, Vec<Option<Point>>)> {
    let point = |n: u64| Some(Point { mean: n as f32, max: n as f32 });
    let all = (wanted.first..wanted.first + wanted.count as u64).map(point).collect();
    vec![(object(), Series::Drops, all)]
}

fn begin(incidents: &mut Incidents, problem: &Problem, now: u64) -> bool {
    let begins = incidents.begins(problem, at(now));
    if begins {
        incidents.begin(problem, at(now), ORIGIN + now, wall(1_000_000 + now));
    }
    begins
}

/// All that is due at `now`, saved with points.
fn save(incidents: &mut Incidents, now: u64) -> Vec<Arc<Incident>> {
    let due = incidents.due(at(now), ORIGIN + now);
    due.iter().filter_map(|wanted| incidents.save(wanted, &points(wanted), None)).collect()
}

#[test]
fn an_incident_has_every_second_from_before_to_after_it_once() {
    let mut incidents = Incidents::default();
    assert!(begin(&mut incidents, &down(NODE), 400));
    let mut saves = Vec::new();
    for now in 400..800 {
        saves.extend(save(&mut incidents, now).into_iter().map(|i| (now, i.seconds)));
    }
    assert_eq!(saves, [(400, 294), (550, 444), (706, 600)], "at once, half way, and complete");
    let incident = incidents.newest().next().unwrap().clone();
    let values: Vec<u64> = incident.series[0].points.iter().map(|p| p.unwrap().mean as u64).collect();
    assert_eq!(values, (ORIGIN + 100..ORIGIN + 700).collect::<Vec<_>>());
    assert_eq!(incident.start_unix_ns, wall(1_000_100));
    assert_eq!(
        (incident.opened_unix_ns, incident.id.as_str().split_once('-').unwrap().0),
        (wall(1_000_400), "0001000400")
    );
    assert!(is_id(&incident.id));
}

/// Catches a series that is new in the middle, or missing once, and whose points would be moved in time by that.
#[test]
fn a_series_that_comes_or_goes_has_gaps_where_it_was_not() {
    let mut incidents = Incidents::default();
    begin(&mut incidents, &down(NODE), 400);
    let saves = [vec![], vec![Series::Drops], vec![Series::Loss]];
    for (now, series) in [400, 550, 706].into_iter().zip(saves) {
        let wanted = incidents.due(at(now), ORIGIN + now).remove(0);
        let charts: Vec<_> = series.iter().map(|s| (object(), *s, points(&wanted).remove(0).2)).collect();
        incidents.save(&wanted, &charts, None).unwrap();
    }
    let incident = incidents.newest().next().unwrap();
    let known = |at: usize| {
        let points = &incident.series[at].points;
        assert_eq!(points.len(), 600);
        let first = points.iter().position(Option::is_some).unwrap();
        (first, points.iter().flatten().count(), points[first].unwrap().mean as u64 - ORIGIN - 100)
    };
    assert_eq!([known(0), known(1)], [(294, 150, 294), (444, 156, 444)]);
}

#[test]
fn charts_begin_where_the_controller_began() {
    let mut incidents = Incidents::default();
    incidents.begin(&down(NODE), at(10), 10, wall(1_000_010));
    let wanted = incidents.due(at(10), 10).remove(0);
    assert_eq!((wanted.first, wanted.count), (0, 4));
    assert_eq!(incidents.newest().next().unwrap().start_unix_ns, wall(1_000_000));
}

#[test]
fn a_problem_that_opens_again_meanwhile_is_the_same_incident_and_one_later_is_another() {
    let mut incidents = Incidents::default();
    let problem = down(NODE);
    assert!(begin(&mut incidents, &problem, 400));
    assert!(incidents.closed(&change(&problem), wall(1)).is_none(), "it is written with its charts");
    assert!(!begin(&mut incidents, &problem, 500));
    let incident = incidents.newest().next().unwrap().clone();
    assert_eq!((incident.reopened, incident.closed_unix_ns), (1, None));
    save(&mut incidents, 400);
    save(&mut incidents, 600);
    assert_eq!(save(&mut incidents, 710)[0].closed_unix_ns, None);
    let written = incidents.closed(&change(&problem), wall(2)).expect("it is complete, so it is written at once");
    assert_eq!(written.closed_unix_ns, Some(wall(2)));
    assert!(incidents.closed(&change(&problem), wall(3)).is_none());
    assert!(begin(&mut incidents, &problem, 720));
    assert_eq!(incidents.newest().count(), 2);
}

#[test]
fn what_another_problem_explains_and_what_is_only_worth_knowing_is_no_incident() {
    let mut incidents = Incidents::default();
    assert!(!begin(&mut incidents, &problem(ProblemCode::ThresholdClamped, NODE), 400));
    let mut explained = down(NODE);
    explained.causes = vec![down("n2").key];
    assert!(!begin(&mut incidents, &explained, 400));
    assert_eq!(incidents.newest().count(), 0);
}

#[test]
fn a_storm_pushes_out_little_and_is_counted() {
    let mut incidents = Incidents::default();
    let open = |incidents: &mut Incidents, from: u64, to: u64, now: u64| -> usize {
        (from..to).filter(|n| begin(incidents, &down(&format!("n{n}")), now)).count()
    };
    for round in 0..5 {
        assert_eq!(open(&mut incidents, round * 100, round * 100 + 60, 400 + round * 700), MAX_IN_STORM);
    }
    assert_eq!(incidents.left_out(), 50);
    let gone = incidents.trim();
    assert_eq!((gone.len(), incidents.newest().count()), (50, MAX_INCIDENTS));
    assert!(gone.iter().all(|id| id.starts_with("0001000400-")), "{gone:?}");
    assert!(incidents.trim().is_empty());
}

/// Catches a restart in a large fabric that pushes out what is kept, because agents take their time to connect.
#[test]
fn a_start_begins_few_incidents_and_later_problems_are_incidents_again() {
    let mut incidents = Incidents::default();
    let opened = |incidents: &mut Incidents, from: u64, now: u64| -> usize {
        (from..from + 20).filter(|n| begin(incidents, &down(&format!("n{n}")), now)).count()
    };
    assert_eq!([opened(&mut incidents, 0, 3), opened(&mut incidents, 100, 59)], [MAX_AT_START, 0]);
    assert_eq!((opened(&mut incidents, 200, 60), incidents.left_out()), (20, 35));
}

#[test]
fn an_incident_names_what_it_explains_and_outlives_a_controller_of_another_version() {
    let mut incidents = Incidents::default();
    let mut problem = down(NODE);
    begin(&mut incidents, &problem, 400);
    problem.affects =
        (0..60).map(|n| ProblemKey::new(ProblemCode::GroupStalled, Object::Group(format!("g{n}")))).collect();
    let wanted = incidents.due(at(400), ORIGIN + 400).remove(0);
    let saved = incidents.save(&wanted, &points(&wanted), Some(&problem)).unwrap();
    assert_eq!(saved.affects.len(), MAX_AFFECTED);
    assert_eq!(saved.affects[0], ProblemName { code: "GroupStalled".into(), kind: "group".into(), name: "g0".into() });
    let mut json = serde_json::to_value(&*saved).unwrap();
    assert_eq!(serde_json::from_value::<Incident>(json.clone()).unwrap(), *saved);
    let fields = json.as_object_mut().unwrap();
    fields.insert("newer".into(), 1.into());
    fields.insert("code".into(), "CodeOfTomorrow".into());
    fields.remove("reopened");
    let mut later = Incidents::default();
    later.restore([serde_json::from_value(json).unwrap()]);
    assert_eq!(later.get(&saved.id).unwrap().of.code, "CodeOfTomorrow");
    assert!(later.due(at(9999), 99_999).is_empty(), "its charts are those of the controller before");
}

#[test]
fn ids_are_names_of_files_and_nothing_else() {
    assert!(is_id("1764171000-00c0ffee00c0ffee"));
    for bad in [
        "",
        "-",
        "1764171000-",
        "1764171000-00C0FFEE00C0FFEE",
        "../4171000-00c0ffee00c0ffee",
        "1764171000-00c0ffee00c0ffe/",
    ] {
        assert!(!is_id(bad), "{bad}");
    }
}
