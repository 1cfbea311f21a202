// SPDX-License-Identifier: Apache-2.0
//! What follows once every node has confirmed: a group is opened for data, and a tree's move (make-before-break, decisions 3.14) takes
//! its second step. A move that a node does not confirm in time is given up, and tried again with that node's next report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use canopy_controller_core::{Command, Outcome};
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;

/// Longest time that a next tree is made.
const MAX_MAKING: Duration = Duration::from_secs(30);
/// Least time from giving a group's move up to trying it again, the first time; twice that the second time, and so on.
const LEAST_PAUSE: Duration = Duration::from_secs(10);
/// Least time between two attempts to open groups.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
/// Longest of these times.
const MOST_PAUSE: Duration = Duration::from_secs(960);

/// What moves wait for.
#[derive(Default)]
pub(crate) struct Moves(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    /// The moves whose time runs, by group.
    limited: HashMap<String, u64>,
    /// The groups whose moves were given up, by the node that did not confirm.
    given_up: HashMap<String, BTreeMap<String, Pause>>,
    /// The groups whose opening failed, and when that was tried again last.
    unopened: BTreeSet<String>,
    opened_at: Option<Instant>,
    /// How often in a row the move of a group was given up.
    attempts: HashMap<String, u32>,
}

/// Until a move is tried again.
#[derive(Default)]
struct Pause {
    /// The node has reported something else since.
    has_news: bool,
    has_ended: bool,
}

impl Controller {
    /// Puts the next trees of those `groups` into force that every node has confirmed.
    pub(crate) fn finish_moves(&self, groups: &[String]) {
        for name in groups.iter().filter(|name| self.read(|d| d.moving(name)).is_some_and(|m| m.is_made)) {
            let (this, group) = (self.clone(), name.clone());
            tokio::spawn(async move {
                let finish = Command::FinishMove { group: group.clone() };
                match this.execute(finish, None, false).await {
                    Ok(_) => _ = this.waiting_moves().attempts.remove(&group),
                    Err(e) => {
                        let detail = format!("both trees stay in force: {e}");
                        this.note_group(Code::MoveNotFinished, None, &group, detail);
                    }
                }
            });
        }
    }

    /// Opens those `groups` that every node has confirmed for the first time in the source's session.
    pub(crate) fn open_groups(&self, groups: &[String]) {
        for name in groups.iter().filter(|name| self.read(|d| d.may_open(name))) {
            let (this, group) = (self.clone(), name.clone());
            tokio::spawn(async move {
                match this.execute(Command::OpenGroup { group: group.clone() }, None, false).await {
                    Ok(_) => _ = this.waiting_moves().unopened.remove(&group),
                    Err(e) if this.waiting_moves().unopened.insert(group.clone()) => {
                        let detail = format!("its headend takes no data: {e}");
                        this.note_group(Code::GroupNotOpened, None, &group, detail);
                    }
                    Err(_) => {}
                }
            });
        }
    }

    /// Opens groups whose opening failed and that still may be opened, at most once in a [`OPEN_AGAIN`].
    pub(crate) fn retry_opening(&self) {
        let unopened: Vec<String> = {
            let (mut waiting, now) = (self.waiting_moves(), Instant::now());
            if waiting.unopened.is_empty() || waiting.opened_at.is_some_and(|at| now < at + OPEN_AGAIN) {
                return;
            }
            waiting.opened_at = Some(now);
            waiting.unopened.retain(|name| self.read(|d| d.may_open(name)));
            waiting.unopened.iter().cloned().collect()
        };
        self.open_groups(&unopened);
    }

    /// Gives the moves of `groups` that have begun `MAX_MAKING` from now.
    pub(crate) fn limit_moves(&self, groups: &[String]) {
        let moving = |name: &&String| Some(((*name).clone(), self.read(|d| d.moving(name))?.since));
        let begun: Vec<(String, u64)> = {
            let all: Vec<(String, u64)> = groups.iter().filter_map(|name| moving(&name)).collect();
            let mut waiting = self.waiting_moves();
            all.into_iter()
                .filter(|(name, since)| waiting.limited.insert(name.clone(), *since) != Some(*since))
                .collect()
        };
        if begun.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MAX_MAKING).await;
            for (name, since) in begun {
                let this = this.clone();
                tokio::spawn(async move { this.give_up_move(name, since).await });
            }
        });
    }

    /// Tries the moves again that were given up because of `node`, which has reported something else since, and whose pause has ended; and
    /// plans the groups that had no tree because of a node that was too far behind.
    pub(crate) fn retry_moves(&self, node: &str) {
        for group in self.read(|d| d.waiting_for_nodes()) {
            let this = self.clone();
            tokio::spawn(async move { this.retry_move(group).await });
        }
        let due: Vec<String> = {
            let mut waiting = self.waiting_moves();
            let Some(of_node) = waiting.given_up.get_mut(node) else { return };
            of_node.values_mut().for_each(|pause| pause.has_news = true);
            let due = of_node.extract_if(.., |_, pause| pause.has_ended).map(|(group, _)| group).collect();
            if of_node.is_empty() {
                waiting.given_up.remove(node);
            }
            due
        };
        for group in due {
            let this = self.clone();
            tokio::spawn(async move { this.retry_move(group).await });
        }
    }

    async fn retry_move(&self, group: String) {
        if self.execute(Command::RetryMove { group: group.clone() }, None, false).await.is_err() {
            // There is no such group any longer.
            self.waiting_moves().attempts.remove(&group);
        }
    }

    async fn give_up_move(&self, group: String, since: u64) {
        {
            let mut waiting = self.waiting_moves();
            if waiting.limited.get(&group) == Some(&since) {
                waiting.limited.remove(&group);
            }
        }
        let outcome = self.execute(Command::GiveUpMove { group: group.clone(), since }, None, false).await;
        if !outcome.is_ok_and(|done| done.outcome == Outcome::Updated) {
            return;
        }
        let Some((node, reason)) =
            self.read(|d| Some((d.given_up_because_of(&group)?.to_owned(), d.group(&group)?.status.reason)))
        else {
            return;
        };
        tracing::warn!(group, node, reason, "a tree was not moved");
        let pause = {
            let mut waiting = self.waiting_moves();
            let attempts = waiting.attempts.entry(group.clone()).or_default();
            *attempts += 1;
            let pause = LEAST_PAUSE.saturating_mul(1 << (*attempts - 1).min(16)).min(MOST_PAUSE);
            waiting.given_up.entry(node.clone()).or_default().insert(group.clone(), Pause::default());
            pause
        };
        self.note_group(Code::MoveGivenUp, Some(&node), &group, reason);
        tokio::time::sleep(pause).await;
        let has_news = {
            let mut waiting = self.waiting_moves();
            let of_node = waiting.given_up.get_mut(&node);
            let Some(pause) = of_node.and_then(|of_node| of_node.get_mut(&group)) else { return };
            pause.has_ended = true;
            pause.has_news
        };
        if has_news {
            self.retry_moves(&node);
        }
    }

    fn waiting_moves(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.moves().0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use canopy_controller_core::metadata::Labels;
    use canopy_store::{MemStore, Store};
    use serde_json::json;

    use super::*;
    use crate::{Running, start};

    /// Source behind n1, receiver behind n4, which n2 and n3 lead to; with a drained link at n2 or n3.
    fn topology(drained: Option<&str>) -> Command {
        let link =
            |a: &str, b: &str| json!({"a": a, "b": b, "drained": drained.is_some_and(|node| b.starts_with(node))});
        let nodes: Vec<_> = (1..=4).map(|i| json!({"name": format!("n{i}"), "id": i})).collect();
        let spec = json!({
            "nodes": nodes,
            "hosts": [
                {"name": "s1", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1"},
                {"name": "r1", "prefix": "2001:db8:2::/64", "address": "2001:db8:2::1"},
            ],
            "links": [
                link("n1/eth1", "n2/eth1"), link("n1/eth2", "n3/eth1"), link("n4/eth1", "n2/eth2"), link("n4/eth2", "n3/eth2"),
                link("n1/eth9", "s1/eth0"), link("n4/eth9", "r1/eth0"),
            ],
        });
        Command::PutTopology {
            labels: Labels::new(),
            spec: Arc::new(serde_json::from_value(spec).unwrap()),
            if_match: None,
        }
    }

    #[tokio::test]
    async fn the_time_of_a_move_runs_again_in_a_controller_that_starts_during_it() {
        let store: Arc<dyn Store> = Arc::new(MemStore::new());
        let Running { controller, .. } = start(store.clone(), Default::default()).await.unwrap();
        let group = Command::PutGroup {
            tenant: None,
            name: "g".into(),
            labels: Labels::new(),
            spec: Default::default(),
            if_match: None,
            create_only: true,
        };
        let join = |spec| Command::PutMember {
            group: "g".into(),
            spec: serde_json::from_value(spec).unwrap(),
            create_only: true,
            instance: None,
            lease: None,
        };
        let commands = [
            topology(None),
            group,
            join(json!({"host": "s1", "role": "source", "qpn": 17})),
            join(json!({"host": "r1", "role": "receiver", "qpn": 18})),
        ];
        for command in commands {
            controller.execute(command, None, false).await.unwrap();
        }
        let tree = controller.read(|d| d.group("g")).unwrap().status.tree;
        let used = if tree.iter().any(|t| t.node == "n2") { "n2" } else { "n3" };
        controller.execute(topology(Some(used)), None, false).await.unwrap();
        assert!(controller.waiting_moves().limited.contains_key("g"));
        controller.stop().await;

        let Running { controller, .. } = start(store, Default::default()).await.unwrap();
        let since = controller.read(|d| d.moving("g")).unwrap().since;
        assert_eq!(controller.waiting_moves().limited.get("g"), Some(&since));
    }
}
