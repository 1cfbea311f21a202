// SPDX-License-Identifier: Apache-2.0
//! What every reconciliation needs.

use std::sync::Arc;

use canopy_ctl::client::Client;
use canopy_ctl::failure::Failure as RestFailure;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use tokio::sync::mpsc;

use crate::manager::Cluster;
use crate::metrics::Metrics;
use crate::mirror::{Change, Mirror};
use crate::status::Pace;

/// What every reconciliation needs.
pub struct Context {
    /// Kubernetes.
    pub kubernetes: kube::Client,
    /// The controller.
    pub rest: Client,
    /// What the controller has.
    pub mirror: Arc<Mirror>,
    /// When each status was written.
    pub pace: Pace,
    /// The cluster.
    pub cluster: Cluster,
    /// What Prometheus reads.
    pub metrics: Arc<Metrics>,
    /// Takes what a reconciliation finds to have changed.
    pub news: mpsc::Sender<Change>,
}

impl Context {
    /// The manager that this resource is.
    pub fn manager(&self, resource: &impl Resource) -> String {
        self.cluster.manager(resource.meta().uid.as_deref().unwrap_or_default())
    }

    /// The present instant, for conditions.
    pub fn now(&self) -> Time {
        Time(Timestamp::now())
    }

    /// Reads the topology again, after it was written.
    ///
    /// # Errors
    /// The controller is not reached.
    pub async fn refresh_topology(&self) -> Result<(), RestFailure> {
        self.mirror.read_topology(&self.rest, &self.news).await
    }
}
