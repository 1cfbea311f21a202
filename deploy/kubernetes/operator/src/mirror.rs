// SPDX-License-Identifier: Apache-2.0
//! The controller's groups, drains and topology, kept equal to them by its streams of changes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_api::{DrainResource, GroupResource, TopologyResource};
use canopy_ctl::client::Client;
use canopy_ctl::failure::{Exit, Failure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::manager::MANAGED_BY;

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
    /// A drain of a node.
    Drain {
        /// The node.
        node: String,
        /// Its manager, if it has one.
        manager: Option<String>,
    },
    /// The topology, or the state of a node.
    Topology,
}

/// Resources of the controller that are kept by their own stream.
trait Listed: DeserializeOwned + PartialEq + Send + Sync {
    /// Its kind, for messages.
    const KIND: &'static str;
    /// Where the stream is.
    const PATH: &'static str;

    fn name(&self) -> &str;
    /// What others are notified of; `None` if that is of no use.
    fn change(&self) -> Option<Change>;
    fn kept(mirror: &Mirror) -> &Kept<Self>;
}

/// The resources of one list, by name.
struct Kept<T> {
    items: Mutex<HashMap<String, Arc<T>>>,
    is_whole: watch::Sender<bool>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { items: Mutex::default(), is_whole: watch::Sender::new(false) }
    }
}

impl<T> Kept<T> {
    fn items(&self) -> MutexGuard<'_, HashMap<String, Arc<T>>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn whole(&self) {
        // The sender lives as long as this.
        _ = self.is_whole.subscribe().wait_for(|is_whole| *is_whole).await;
    }
}

impl Listed for GroupResource {
    const KIND: &'static str = "groups";
    const PATH: &'static str = "/api/v1/groups";

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn change(&self) -> Option<Change> {
        Some(Change::Group { tenant: self.metadata.tenant.clone(), name: self.metadata.name.clone() })
    }

    fn kept(mirror: &Mirror) -> &Kept<Self> {
        &mirror.groups
    }
}

impl Listed for DrainResource {
    const KIND: &'static str = "drains";
    const PATH: &'static str = "/api/v1/drains";

    fn name(&self) -> &str {
        &self.metadata.name
    }

    fn change(&self) -> Option<Change> {
        let manager = self.metadata.labels.get(MANAGED_BY).cloned();
        self.spec.node.clone().map(|node| Change::Drain { node, manager })
    }

    fn kept(mirror: &Mirror) -> &Kept<Self> {
        &mirror.drains
    }
}

/// The network, once it is known; `None` if the controller has none.
type Known = Option<Option<Arc<TopologyResource>>>;

/// What the controller has.
#[derive(Default)]
pub struct Mirror {
    groups: Kept<GroupResource>,
    drains: Kept<DrainResource>,
    topology: watch::Sender<Known>,
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
        self.groups.items().get(name).cloned()
    }

    /// The drain of this name.
    pub fn drain(&self, name: &str) -> Option<Arc<DrainResource>> {
        self.drains.items().get(name).cloned()
    }

    /// The drains of this node. A domain has at most 4,096 drains.
    pub fn drains_of(&self, node: &str) -> Vec<Arc<DrainResource>> {
        let is_its = |drain: &&Arc<DrainResource>| drain.spec.node.as_deref() == Some(node);
        self.drains.items().values().filter(is_its).cloned().collect()
    }

    /// The topology.
    pub fn topology(&self) -> Option<Arc<TopologyResource>> {
        self.topology.borrow().clone().flatten()
    }

    /// Changes of the topology.
    pub fn topology_changes(&self) -> watch::Receiver<Known> {
        self.topology.subscribe()
    }

    /// Waits until groups and topology of the controller are known.
    pub async fn whole(&self) {
        self.groups.whole().await;
        self.topology_known().await;
    }

    /// Waits until drains and topology of the controller are known.
    pub async fn drains_whole(&self) {
        self.drains.whole().await;
        self.topology_known().await;
    }

    async fn topology_known(&self) {
        _ = self.topology.subscribe().wait_for(Option::is_some).await;
    }

    /// What a write has made of a group, before the stream has it.
    pub fn wrote(&self, group: GroupResource) {
        let mut groups = self.groups.items();
        let is_newer = groups.get(&group.metadata.name).is_none_or(|present| {
            present.metadata.uid != group.metadata.uid || present.metadata.generation <= group.metadata.generation
        });
        if is_newer {
            groups.insert(group.metadata.name.clone(), Arc::new(group));
        }
    }

    /// What a write has made of a drain, before the stream has it: `None` if it is gone.
    pub fn wrote_drain(&self, name: &str, drain: Option<DrainResource>) {
        let mut drains = self.drains.items();
        match drain {
            Some(drain) => drop(drains.insert(name.to_owned(), Arc::new(drain))),
            None => drop(drains.remove(name)),
        }
    }

    /// Follows the groups, for ever.
    pub async fn follow_groups(&self, rest: &Client, changes: &mpsc::Sender<Change>) {
        self.follow::<GroupResource>(rest, changes).await;
    }

    /// Follows the drains, for ever.
    pub async fn follow_drains(&self, rest: &Client, changes: &mpsc::Sender<Change>) {
        self.follow::<DrainResource>(rest, changes).await;
    }

    async fn follow<T: Listed>(&self, rest: &Client, changes: &mpsc::Sender<Change>) {
        loop {
            match self.once::<T>(rest, changes).await {
                Ok(()) => tracing::debug!("the stream of {} has ended, and is opened again", T::KIND),
                Err(error) => {
                    tracing::warn!(%error, "cannot follow the controller's {}", T::KIND);
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    async fn once<T: Listed>(&self, rest: &Client, changes: &mpsc::Sender<Change>) -> Result<(), Failure> {
        let path = format!("{}?watch=true&timeoutSeconds={LASTS}", T::PATH);
        let mut stream = rest.open(&format!("following {}", T::KIND), &path).await?;
        // Until the present state is complete.
        let mut seen = Some(HashSet::new());
        while let Some(event) = stream.next().await? {
            let unreadable = |error| Failure::new(Exit::Error, format!("an event of the controller: {error}"));
            match event.name.as_str() {
                "added" | "modified" => {
                    let item: T = serde_json::from_str(&event.data).map_err(unreadable)?;
                    if let Some(seen) = &mut seen {
                        seen.insert(item.name().to_owned());
                    }
                    self.changed(item, changes).await;
                }
                "deleted" => {
                    let gone: Deleted = serde_json::from_str(&event.data).map_err(unreadable)?;
                    self.gone::<T>(&gone.metadata.name, changes).await;
                }
                "synced" => {
                    if let Some(seen) = seen.take() {
                        let is_gone = |name: &&String| !seen.contains(*name);
                        let gone: Vec<String> = T::kept(self).items().keys().filter(is_gone).cloned().collect();
                        for name in gone {
                            self.gone::<T>(&name, changes).await;
                        }
                        T::kept(self).is_whole.send_replace(true);
                    }
                }
                "gone" | "bye" => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }

    async fn changed<T: Listed>(&self, item: T, changes: &mpsc::Sender<Change>) {
        let item = Arc::new(item);
        let before = T::kept(self).items().insert(item.name().to_owned(), item.clone());
        if before.is_none_or(|before| before != item)
            && let Some(change) = item.change()
        {
            _ = changes.send(change).await;
        }
    }

    async fn gone<T: Listed>(&self, name: &str, changes: &mpsc::Sender<Change>) {
        let gone = T::kept(self).items().remove(name);
        if let Some(change) = gone.and_then(|gone| gone.change()) {
            _ = changes.send(change).await;
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
        let found = Some(found);
        let is_new = self.topology.send_if_modified(|known| {
            let is_new = *known != found;
            known.clone_from(&found);
            is_new
        });
        if is_new {
            _ = changes.send(Change::Topology).await;
        }
        Ok(())
    }
}
