// SPDX-License-Identifier: Apache-2.0
//! Events outlive the controller: the journal beside the store has them.

use std::path::Path;
use std::sync::Arc;

use canopy_controller_actor::events::Code;
use canopy_controller_actor::journal::EventFilter;
use canopy_controller_actor::{Running, start};
use canopy_store::{EmbeddedStore, EngineKind};
use canopy_units::UnixTime;

use crate::support::{stop, until};

async fn controller(dir: &Path) -> Running {
    let store = EmbeddedStore::open(&dir.join("store"), EngineKind::default()).unwrap();
    start(Arc::new(store), Default::default()).await.unwrap()
}

#[tokio::test]
async fn what_happened_before_a_restart_is_listed_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let running = controller(dir.path()).await;
    let begun = UnixTime::now();
    for i in 0..3 {
        running.controller.events().note(Code::AgentConnected, Some(&format!("n{i}")), format!("before {i}"));
    }
    let last = *running.controller.events().follow().borrow();
    stop(running).await;

    let running = controller(dir.path()).await;
    let events = running.controller.events();
    assert!(*events.follow().borrow() >= last, "numbers grow over restarts");
    events.note(Code::AgentDisconnected, Some("n1"), "after");
    let details = async |filter: EventFilter| -> Vec<String> {
        let found = running.controller.recorded_events(100, filter).await.unwrap();
        found.into_iter().map(|event| event.detail).collect()
    };
    let n1 = || EventFilter { node: Some("n1".into()), ..EventFilter::default() };
    assert_eq!(details(n1()).await, ["before 1", "after"]);
    assert_eq!(details(EventFilter { code: Some("AgentConnected".into()), ..n1() }).await, ["before 1"]);
    assert_eq!(details(EventFilter { after: Some(last - 1), ..n1() }).await, ["after"]);
    assert_eq!(details(EventFilter { before: Some(last), ..n1() }).await, ["before 1"]);
    assert_eq!(details(EventFilter { since: begun, ..n1() }).await, ["before 1", "after"]);
    let later = UnixTime::from_nanos(UnixTime::now().nanos() + 1);
    assert_eq!(details(EventFilter { since: later, ..n1() }).await, [""; 0]);
    stop(running).await;
}

/// Half a line is what a power cut leaves.
#[tokio::test]
async fn a_journal_that_was_cut_costs_what_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    let running = controller(dir.path()).await;
    for detail in ["first", "second"] {
        running.controller.events().note(Code::AgentConnected, Some("n1"), detail);
    }
    stop(running).await;
    let journal = std::fs::read_dir(dir.path().join("store/events")).unwrap().next().unwrap().unwrap().path();
    let content = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &content[..content.len() - 9]).unwrap();

    let running = controller(dir.path()).await;
    running.controller.events().note(Code::AgentConnected, Some("n1"), "third");
    let path = journal.clone();
    until("the third event", || std::fs::read_to_string(&path).unwrap().contains("third")).await;
    let of_n1 = EventFilter { node: Some("n1".into()), ..EventFilter::default() };
    let found = running.controller.recorded_events(100, of_n1).await.unwrap();
    let details: Vec<&str> = found.iter().map(|event| event.detail.as_str()).collect();
    assert_eq!(details, ["first", "third"]);
    stop(running).await;
}
