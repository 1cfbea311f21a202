// SPDX-License-Identifier: Apache-2.0
//! The controller's groups and topology, kept equal to them by its streams of changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_api::{GroupResource, TopologyResource};
use canopy_ctl::client::Client;
use canopy_ctl::failure::{Exit, Failure};
use serde::Deserialize;
use tokio::sync::{mpsc, watch};

/// How long a stream lasts, seconds.
const LASTS: u32 = 3600;
/// Between two tries to open a stream.
const PAUSE: Duration = Duration::from_secs(2);
/// The topology's state follows every node: it is read at most so often.
const SETTLE: Duration = Duration::from_millis(500);

/// What has changed at the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A group.
    Group {
        /// Its tenant.
        tenant: String,
        /// Its name.
        name: String,
    },
    /// The topology, or the state of a node.
    Topology,
}

#[derive(Default)]
struct State {
    groups: HashMap<String, Arc<GroupResource>>,
    topology: Option<Arc<TopologyResource>>,
}

/// What the controller has.
pub struct Mirror {
    state: Mutex<State>,
    /// Groups and topology are whole.
    whole: watch::Sender<(bool, bool)>,
}

impl Default for Mirror {
    fn default() -> Self {
        Self { state: Mutex::default(), whole: watch::Sender::new((false, false)) }
    }
}

/// Which resource is gone.
#[derive(Deserialize)]
struct Deleted {
    metadata: Named,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Mirror {
    /// The group of this name.
    pub fn group(&self, name: &str) -> Option<Arc<GroupResource>> {
        self.state().groups.get(name).cloned()
    }

    /// The topology.
    pub fn topology(&self) -> Option<Arc<TopologyResource>> {
        self.state().topology.clone()
    }

    /// Waits until all that the controller has is known.
    pub async fn whole(&self) {
        // The sender lives as long as this.
        _ = self.whole.subscribe().wait_for(|(groups, topology)| *groups && *topology).await;
    }

    /// What a write has made of a group, before the stream has it.
    pub fn wrote(&self, group: GroupResource) {
        let mut state = self.state();
        let is_newer = state.groups.get(&group.metadata.name).is_none_or(|present| {
            present.metadata.uid != group.metadata.uid || present.metadata.generation <= group.metadata.generation
        });
        if is_newer {
            state.groups.insert(group.metadata.name.clone(), Arc::new(group));
        }
    }

    /// Follows the groups, for ever.
    pub async fn follow_groups(&self, rest: &Client, changes: &mpsc::Sender<Change>) {
        loop {
            match self.groups_once(rest, changes).await {
                Ok(()) => tracing::debug!("the stream of groups has ended, and is opened again"),
                Err(error) => {
                    tracing::warn!(%error, "cannot follow the controller's groups");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn groups_once(&self, rest: &Client, changes: &mpsc::Sender<Change>) -> Result<(), Failure> {
        let path = format!("/api/v1/groups?watch=true&timeoutSeconds={LASTS}");
        let mut stream = rest.open("following groups", &path).await?;
        // Until the present state is complete.
        let mut seen = Some(HashSet::new());
        while let Some(event) = stream.next().await? {
            let unreadable = |error| Failure::new(Exit::Error, format!("an event of the controller: {error}"));
            match event.name.as_str() {
                "added" | "modified" => {
                    let group: GroupResource = serde_json::from_str(&event.data).map_err(unreadable)?;
                    if let Some(seen) = &mut seen {
                        seen.insert(group.metadata.name.clone());
                    }
                    self.changed(group, changes).await;
                }
                "deleted" => {
                    let gone: Deleted = serde_json::from_str(&event.data).map_err(unreadable)?;
                    self.gone(&gone.metadata.name, changes).await;
                }
                "synced" => {
                    if let Some(seen) = seen.take() {
                        let is_gone = |name: &&String| !seen.contains(*name);
                        let gone: Vec<String> = self.state().groups.keys().filter(is_gone).cloned().collect();
                        for name in gone {
                            self.gone(&name, changes).await;
                        }
                        self.whole.send_modify(|whole| whole.0 = true);
                    }
                }
                "gone" | "bye" => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn changed(&self, group: GroupResource, changes: &mpsc::Sender<Change>) {
        let change = Change::Group { tenant: group.metadata.tenant.clone(), name: group.metadata.name.clone() };
        let group = Arc::new(group);
        let before = self.state().groups.insert(group.metadata.name.clone(), group.clone());
        if before.is_none_or(|before| before != group) {
            _ = changes.send(change).await;
        }
    }

    async fn gone(&self, name: &str, changes: &mpsc::Sender<Change>) {
        let gone = self.state().groups.remove(name);
        if let Some(group) = gone {
            let (tenant, name) = (group.metadata.tenant.clone(), name.to_owned());
            _ = changes.send(Change::Group { tenant, name }).await;
        }
    }

    /// Follows the topology and the nodes, for ever.
    pub async fn follow_topology(&self, rest: &Client, changes: &mpsc::Sender<Change>) {
        loop {
            match self.topology_once(rest, changes).await {
                Ok(()) => tracing::debug!("the stream of the topology has ended, and is opened again"),
                Err(error) => {
                    tracing::warn!(%error, "cannot follow the controller's topology");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn topology_once(&self, rest: &Client, changes: &mpsc::Sender<Change>) -> Result<(), Failure> {
        let path = format!("/api/v1/watch?topics=topology,nodes&timeoutSeconds={LASTS}");
        let mut stream = rest.open("following the topology", &path).await?;
        let (news, mut newest) = watch::channel(());
        newest.mark_changed();
        let reading = async {
            while newest.changed().await.is_ok() {
                self.read_topology(rest, changes).await?;
                tokio::time::sleep(SETTLE).await;
            }
            Ok(())
        };
        let following = async {
            while let Some(event) = stream.next().await? {
                match event.name.as_str() {
                    "heartbeat" | "synced" => {}
                    "gone" | "bye" => return Ok(()),
                    _ => news.send_replace(()),
                }
            }
            Ok(())
        };
        tokio::select! {
            ended = reading => ended,
            ended = following => ended,
        }
    }

    /// Reads the topology again.
    ///
    /// # Errors
    /// The controller is not reached.
    pub async fn read_topology(&self, rest: &Client, changes: &mpsc::Sender<Change>) -> Result<(), Failure> {
        let found = match rest.get("reading the topology", "/api/v1/topology").await {
            Ok(topology) => Some(Arc::new(topology)),
            Err(failure) if failure.exit == Exit::NotFound => None,
            Err(failure) => return Err(failure),
        };
        let before = std::mem::replace(&mut self.state().topology, found.clone());
        self.whole.send_modify(|whole| whole.1 = true);
        if before != found {
            _ = changes.send(Change::Topology).await;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
