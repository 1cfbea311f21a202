// SPDX-License-Identifier: Apache-2.0
//! Whether a node is in sync, as `canopy-agent ready` has it.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use canopy_agent_link::{Link, Session, Worker};
use canopy_agent_runtime::readiness::{Readiness, ask};
use canopy_control::HeldSpec;
use canopy_model::status::{ItemError, ItemKind, NodeStatus};

fn held(generation: u64) -> Arc<HeldSpec> {
    let spec = canopy_testkit::spec::spec(1, generation, &[1]);
    Arc::new(HeldSpec::encode(spec))
}

fn parts() -> (Link, Worker, Readiness) {
    let (link, worker) = canopy_agent_link::channels("n1", None);
    let readiness = Readiness::of(&link);
    (link, worker, readiness)
}

fn connected(worker: &Worker) {
    worker.session.send_replace(Session { opened: 1, up: true, minor_version: 6 });
}

fn applied(held: &HeldSpec, errors: Vec<ItemError>) -> NodeStatus {
    NodeStatus {
        node: "n1".into(),
        observed_term: held.spec().term,
        observed_generation: held.spec().generation,
        observed_digest: held.digest(),
        errors,
        ..NodeStatus::default()
    }
}

fn error(kind: ItemKind) -> ItemError {
    ItemError { kind, name: "eth1".into(), group: None, detail: "it is not there".into() }
}

#[test]
fn a_node_without_a_configuration_is_in_sync_and_any_other_once_it_is_connected() {
    let (link, worker, readiness) = parts();
    assert_eq!(readiness.judge(), Ok(()));
    let known = held(1);
    worker.specs.send_replace(Some(Arc::clone(&known)));
    link.report(applied(&known, vec![]));
    assert!(readiness.judge().unwrap_err().contains("not connected"));
    worker.session.send_replace(Session { opened: 1, up: true, minor_version: 0 });
    assert!(readiness.judge().unwrap_err().contains("not connected"));
    connected(&worker);
    assert_eq!(readiness.judge(), Ok(()));
    worker.session.send_modify(|session| session.up = false);
    assert!(readiness.judge().unwrap_err().contains("not connected"));
}

#[test]
fn what_is_not_applied_or_not_as_desired_is_the_reason() {
    let (link, worker, readiness) = parts();
    connected(&worker);
    let (old, new) = (held(1), held(2));
    worker.specs.send_replace(Some(Arc::clone(&new)));
    assert!(readiness.judge().unwrap_err().contains("not read its kernel"));
    link.report(applied(&old, vec![]));
    assert_eq!(readiness.judge(), Err("generation 2 of term 1 is not applied yet".into()));
    link.report(applied(&new, vec![error(ItemKind::Link), error(ItemKind::Silence)]));
    assert_eq!(readiness.judge(), Ok(()));
    link.report(applied(&new, vec![error(ItemKind::Silence), error(ItemKind::Program)]));
    assert_eq!(readiness.judge(), Err("program eth1 is not as desired: it is not there".into()));
}

#[tokio::test]
async fn the_running_agent_is_asked_at_its_socket() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = ask(directory.path()).unwrap_err();
    assert!(nothing.starts_with("no agent answers at "), "{nothing}");
    let (link, worker, readiness) = parts();
    let known = held(1);
    worker.specs.send_replace(Some(Arc::clone(&known)));
    link.report(applied(&known, vec![]));
    let serving = tokio::spawn(readiness.serve(Readiness::socket(directory.path())));
    let asked = async || {
        let directory = directory.path().to_owned();
        tokio::task::spawn_blocking(move || ask(&directory)).await.unwrap()
    };
    // Until it listens.
    while asked().await.is_err_and(|reason| reason.starts_with("no agent")) {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked().await, Err("the agent is not connected to the controller".into()));
    connected(&worker);
    assert_eq!(asked().await, Ok(()));
    serving.abort();
}
