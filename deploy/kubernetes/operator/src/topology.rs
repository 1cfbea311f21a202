// SPDX-License-Identifier: Apache-2.0
//! The `Topology`: what has to be done that the controller has it, and what its status is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_api::{API_VERSION, Kind, TopologyResource};
use canopy_ctl::failure::Exit;
use canopy_model::topology::TopologySpec;
use hyper::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::Api;
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event, finalizer};
use serde_json::{Value, json};

use crate::condition::{Now, settle};
use crate::context::Context;
use crate::failure::Failure;
use crate::group::{ADOPT, FINALIZER, Step, UNAVAILABLE, refusal};
use crate::manager::MANAGED_BY;
use crate::resources::{DeletionPolicy, Topology, TopologyStatus};
use crate::status;

/// The controller's address of the topology.
const PATH: &str = "/api/v1/topology";
/// What was refused is sent again after this.
const AGAIN: Duration = Duration::from_secs(60);
/// How long a reconciliation waits for the controller.
const PATIENCE: Duration = Duration::from_secs(10);

/// What has to be done for `resource`, where the controller has `found`.
pub fn decide(resource: &Topology, manager: &str, found: Option<&TopologyResource>) -> Step {
    let mut labels = resource.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), manager.into());
    let document = document(&labels, &resource.spec.topology);
    let Some(found) = found else { return Step::Create(document) };
    match found.metadata.labels.get(MANAGED_BY) {
        Some(other) if other != manager => {
            return Step::Refuse(format!("the topology is managed by {other}: delete that resource first"));
        }
        None if resource.annotations().get(ADOPT).map(String::as_str) != Some("true") => {
            return Step::Refuse(format!(
                "the topology was declared, or taken over, by others: kubectl annotate topology {} {ADOPT}=true makes it this resource's, with its spec",
                resource.name_any()
            ));
        }
        _ => {}
    }
    if *found.spec == resource.spec.topology && found.metadata.labels == labels {
        Step::Keep
    } else {
        Step::Change(document)
    }
}

fn document(labels: &BTreeMap<String, String>, spec: &TopologySpec) -> Value {
    let metadata = json!({"name": "default", "labels": labels});
    json!({"apiVersion": API_VERSION, "kind": Kind::Topology, "metadata": metadata, "spec": spec})
}

/// The status of `resource`, with this outcome of its reconciliation.
pub fn status_of(resource: &Topology, found: Option<&TopologyResource>, outcome: Now, at: &Time) -> TopologyStatus {
    let before = resource.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let observed_generation = resource.metadata.generation;
    let mut now = vec![outcome];
    now.extend(found.iter().flat_map(|found| &found.status.conditions).map(Now::from));
    let conditions = settle(before, now, observed_generation, at);
    match found {
        None => TopologyStatus { observed_generation, conditions, ..Default::default() },
        Some(TopologyResource { status, .. }) => TopologyStatus {
            observed_generation,
            nodes: status.nodes,
            connected_nodes: status.connected_nodes,
            synced_nodes: status.synced_nodes,
            hosts: status.hosts,
            links: status.links,
            conditions,
        },
    }
}

/// Reconciles the resource.
///
/// # Errors
/// It has to be done again.
pub async fn reconcile(resource: Arc<Topology>, context: Arc<Context>) -> Result<Action, Failure> {
    let api = Api::all(context.kubernetes.clone());
    let (own, context) = (&api, &*context);
    let done = finalizer(own, FINALIZER, resource, |event| async move {
        match event {
            Event::Apply(resource) => apply(own, &resource, context).await,
            Event::Cleanup(resource) => clean_up(own, &resource, context).await,
        }
    });
    Ok(done.await?)
}

async fn apply(api: &Api<Topology>, resource: &Topology, context: &Context) -> Result<Action, Failure> {
    if tokio::time::timeout(PATIENCE, context.mirror.whole()).await.is_err() {
        return away(api, resource, context, "it was not reached since the operator started").await;
    }
    let manager = context.manager(resource);
    let found = context.mirror.topology();
    let document = match decide(resource, &manager, found.as_deref()) {
        Step::Keep => None,
        Step::Refuse(why) => {
            let outcome = Now::reconciled("False", "Conflict", why);
            return show(api, resource, None, outcome, context, Action::requeue(AGAIN)).await;
        }
        Step::Create(document) | Step::Change(document) => Some(document),
    };
    if let Some(document) = document {
        let rest = context.rest.clone().managing(Some(manager));
        let answer = match rest.send(Method::PUT, PATH, Some(&document)).await {
            Ok(answer) => answer,
            Err(failure) => return away(api, resource, context, &failure.to_string()).await,
        };
        if !(200..300).contains(&answer.status) {
            let (reason, why) = refusal(answer.status, &answer.body);
            if reason == UNAVAILABLE {
                return away(api, resource, context, &why).await;
            }
            tracing::info!(status = answer.status, why, "the topology is refused");
            let outcome = Now::reconciled("False", reason, why);
            return show(api, resource, found.as_deref(), outcome, context, Action::requeue(AGAIN)).await;
        }
        tracing::info!("declared the topology");
        context.refresh_topology().await.map_err(|failure| Failure::Controller(failure.to_string()))?;
    }
    let outcome = Now::reconciled("True", "Declared", "the controller has what this resource declares");
    show(api, resource, context.mirror.topology().as_deref(), outcome, context, Action::await_change()).await
}

/// The controller cannot be asked now: that is shown, and tried again.
async fn away(api: &Api<Topology>, resource: &Topology, context: &Context, why: &str) -> Result<Action, Failure> {
    let outcome = Now::reconciled("Unknown", UNAVAILABLE, why);
    show(api, resource, context.mirror.topology().as_deref(), outcome, context, Action::await_change()).await?;
    Err(Failure::Controller(why.to_owned()))
}

async fn show(
    api: &Api<Topology>,
    resource: &Topology,
    found: Option<&TopologyResource>,
    outcome: Now,
    context: &Context,
    then: Action,
) -> Result<Action, Failure> {
    let wanted = status_of(resource, found, outcome, &context.now());
    let late = status::write(api, &context.pace, resource, resource.status.as_ref(), &wanted).await?;
    Ok(late.map_or(then, Action::requeue))
}

async fn clean_up(api: &Api<Topology>, resource: &Topology, context: &Context) -> Result<Action, Failure> {
    context.mirror.whole().await;
    let manager = context.manager(resource);
    let found = context.mirror.topology();
    let Some(found) = found.filter(|found| found.metadata.labels.get(MANAGED_BY) == Some(&manager)) else {
        return Ok(Action::await_change());
    };
    let rest = context.rest.clone().managing(Some(manager));
    if resource.spec.deletion_policy == DeletionPolicy::Orphan {
        let mut labels = found.metadata.labels.clone();
        labels.remove(MANAGED_BY);
        let document = document(&labels, &found.spec);
        let done = rest.change("leaving the topology", Method::PUT, PATH, Some(&document)).await;
        done.map_err(|failure| Failure::Controller(failure.to_string()))?;
        return Ok(Action::await_change());
    }
    match rest.change("deleting the topology", Method::DELETE, PATH, None).await {
        Ok(()) => Ok(Action::await_change()),
        Err(failure) if failure.exit == Exit::NotFound => Ok(Action::await_change()),
        // Groups have members on it: the controller names them.
        Err(failure) => {
            let why = failure.to_string();
            let outcome = Now::reconciled("False", "InUse", &why);
            let wanted = status_of(resource, Some(&*found), outcome, &context.now());
            let late = status::write(api, &context.pace, resource, resource.status.as_ref(), &wanted).await?;
            Err(late.map_or(Failure::Waiting(why), Failure::Paced))
        }
    }
}
