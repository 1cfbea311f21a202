// SPDX-License-Identifier: Apache-2.0
//! The operator from start to end.

use std::sync::Arc;

use canopy_ctl::client::Client;
use futures::{Stream, StreamExt};
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::context::Context;
use crate::cordon::follow;
use crate::failure::Failure;
use crate::manager::Cluster;
use crate::metrics::{self, Metrics};
use crate::mirror::{Change, Mirror};
use crate::resources::{MulticastGroup, Topology};
use crate::status::Pace;
use crate::{crd, group, migrate, topology};

/// News of the controller that are not taken yet: while they wait, so does the reader of the stream.
const NEWS: usize = 1024;
/// Resources that are reconciled at once.
const AT_ONCE: u16 = 16;

/// Reconciles until `shutdown`; `drain_cordoned` is whether cordoned nodes are drained, `scraped` is where Prometheus reads metrics.
pub async fn run(
    kubernetes: kube::Client,
    rest: Client,
    cluster: Cluster,
    drain_cordoned: bool,
    scraped: Option<TcpListener>,
    shutdown: impl Future<Output = ()>,
) {
    let mirror = Arc::new(Mirror::default());
    let (of_groups, groups) = mpsc::channel(NEWS);
    let (of_topology, topologies) = mpsc::channel(NEWS);
    let (of_drains, drains) = mpsc::channel(NEWS);
    let metrics = Arc::new(Metrics::default());
    let context = |news: &mpsc::Sender<Change>| {
        let (kubernetes, rest, news) = (kubernetes.clone(), rest.clone(), news.clone());
        Arc::new(Context {
            kubernetes,
            rest,
            mirror: mirror.clone(),
            pace: Pace::default(),
            cluster: cluster.clone(),
            metrics: metrics.clone(),
            news,
        })
    };
    let config = || Config::default().concurrency(AT_ONCE);
    let reconcile_groups = Controller::new(Api::<MulticastGroup>::all(kubernetes.clone()), watcher::Config::default())
        .with_config(config())
        .reconcile_on(news(groups).filter_map(async |change| match change {
            Change::Group { tenant, name } => Some(ObjectRef::new(&name).within(&tenant)),
            Change::Drain { .. } | Change::Topology => None,
        }))
        .run(group::reconcile, later, context(&of_groups))
        .for_each(async |done| report(done.err()));
    let reconcile_topology = Controller::new(Api::<Topology>::all(kubernetes.clone()), watcher::Config::default())
        .with_config(config())
        .reconcile_on(news(topologies).map(|_| ObjectRef::new(crd::TOPOLOGY)))
        .run(topology::reconcile, later, context(&of_topology))
        .for_each(async |done| report(done.err()));
    let of_cordons = context(&of_drains);
    let nodes = if drain_cordoned { follow::unschedulable(kubernetes.clone()).boxed() } else { follow::none().boxed() };
    let scrapes = async {
        match scraped {
            Some(listener) => metrics::serve(listener, metrics.clone()).await,
            None => std::future::pending().await,
        }
    };
    let [group_definition, topology_definition] = crd::names();
    tokio::select! {
        () = shutdown => {}
        () = scrapes => {}
        () = follow::follow(&of_cordons, nodes, drains) => {}
        () = reconcile_groups => {}
        () = reconcile_topology => {}
        () = mirror.follow_groups(&rest, &of_groups) => {}
        () = mirror.follow_drains(&rest, &of_drains) => {}
        () = migrate::follow(kubernetes.clone(), &group_definition) => {}
        () = migrate::follow(kubernetes, &topology_definition) => {}
        () = mirror.follow_topology(&rest, &of_topology) => {}
    }
}

fn news(changes: mpsc::Receiver<Change>) -> impl Stream<Item = Change> + Send + 'static {
    futures::stream::unfold(changes, async |mut changes| changes.recv().await.map(|change| (change, changes)))
}

fn later<K: ResourceExt>(resource: Arc<K>, failure: &Failure, _: Arc<Context>) -> Action {
    let retry_in = failure.retry_in();
    match failure {
        Failure::Paced(_) => {}
        Failure::Waiting(why) => tracing::info!(resource = resource.name_any(), why, "waits"),
        other => tracing::warn!(resource = resource.name_any(), error = %other, ?retry_in, "cannot reconcile"),
    }
    Action::requeue(retry_in)
}

/// Reconciliations report their own failures; what is left is about the watch of Kubernetes.
fn report<E: std::fmt::Display>(error: Option<E>) {
    if let Some(error) = error {
        tracing::debug!(%error, "a reconciliation ended");
    }
}
