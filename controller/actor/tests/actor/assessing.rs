// SPDX-License-Identifier: Apache-2.0
//! When what changed is assessed, and what is seen of it before that.

use std::collections::BTreeSet;
use std::sync::Arc;

use canopy_controller_actor::events::Code;
use canopy_controller_actor::{Controller, Running, start};
use canopy_controller_core::Command;
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::problem::ProblemCode;
use canopy_model::status::{ItemError, ItemKind, NodeStatus};
use canopy_store::MemStore;
use serde_json::json;

use crate::support::{stop, until};

const GROUPS: usize = 200;

fn name(at: usize) -> String {
    format!("g{at:03}")
}

fn created(at: usize) -> Command {
    let (labels, spec) = (Labels::new(), Default::default());
    Command::PutGroup { tenant: None, name: name(at), labels, spec, if_match: None, create_only: true }
}

fn with_phase(controller: &Controller) -> usize {
    controller.phases().iter().map(|(_, count)| count).sum()
}

/// Carries out commands at once.
async fn all(controller: &Controller, commands: impl Iterator<Item = Command>) {
    let done: Vec<_> = commands
        .map(|command| {
            let controller = controller.clone();
            tokio::spawn(async move { controller.execute(command, None, false).await.map(drop) })
        })
        .collect();
    for done in done {
        done.await.unwrap().unwrap();
    }
}

/// Catches a change that waits for ever, a watcher that has no news of it before it is assessed, and a deleted group that stays.
#[tokio::test]
async fn many_changes_are_news_at_once_and_all_are_assessed() {
    let Running { controller, task } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    let every: BTreeSet<String> = (0..GROUPS).map(name).collect();
    for round in 0..3 {
        let mut follower = controller.follow_groups();
        all(&controller, (0..GROUPS).map(created)).await;
        let news: BTreeSet<String> = follower.changed().await.into_iter().collect();
        assert_eq!(news, every, "round {round}");
        until("all groups have a phase", || with_phase(&controller) == GROUPS).await;
        assert_eq!(controller.group_names().into_iter().collect::<BTreeSet<_>>(), every);
        all(&controller, (0..GROUPS).map(|at| Command::DeleteGroup { name: name(at) })).await;
        assert!(controller.group_names().is_empty());
        until("no group has a phase", || with_phase(&controller) == 0).await;
    }
    stop(Running { controller, task }).await;
}

/// Catches a group that has what was known of another one of its name, which was deleted when many were.
#[tokio::test]
async fn a_group_that_is_created_again_among_many_begins_anew() {
    let Running { controller, task } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    all(&controller, (0..GROUPS).map(created)).await;
    until("all groups have a phase", || with_phase(&controller) == GROUPS).await;
    let first = *controller.events().follow().borrow();
    all(&controller, (0..GROUPS).map(|at| Command::DeleteGroup { name: name(at) })).await;
    all(&controller, (0..GROUPS).map(created)).await;
    until("each group has come into a phase once more", || {
        let events =
            controller.events().newest(usize::MAX, |event| event.sequence >= first && event.code == Code::GroupPhase);
        let groups: BTreeSet<_> = events.into_iter().filter_map(|event| event.group).collect();
        groups.len() == GROUPS
    })
    .await;
    stop(Running { controller, task }).await;
}

/// Catches problems that are listed as they were, and a list that is made for each who asks.
#[tokio::test(start_paused = true)]
async fn problems_are_listed_anew_when_one_is_another_and_only_then() {
    let Running { controller, task } = start(Arc::new(MemStore::new()), Default::default()).await.unwrap();
    let spec = json!({
        "nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}],
        "hosts": [],
        "links": [{"a": "n1/eth1", "b": "n2/eth1"}],
    });
    let spec = serde_json::from_value(spec).unwrap();
    controller
        .execute(Command::PutTopology { labels: Labels::new(), spec, if_match: None }, None, false)
        .await
        .unwrap();
    let silent = |controller: &Controller| {
        let problems = controller.problems();
        problems.iter().any(|problem| problem.key.code == ProblemCode::LinkBlackHole)
    };
    let status = |errors| NodeStatus { node: "n1".into(), errors, ..NodeStatus::default() };
    assert!(!silent(&controller));
    let _n1 = controller.agent_connected("n1");
    let error = ItemError { kind: ItemKind::Silence, name: "eth1".into(), group: None, detail: "it is silent".into() };
    controller.report(status(vec![error])).unwrap();
    until("the link is known to be silent", || silent(&controller)).await;
    let listed = controller.problems();
    assert!(Arc::ptr_eq(&listed, &controller.problems()));
    controller.report(status(vec![])).unwrap();
    assert!(!Arc::ptr_eq(&listed, &controller.problems()), "the problem is about to close");
    stop(Running { controller, task }).await;
}
