// SPDX-License-Identifier: Apache-2.0
//! One `MulticastGroup`: what has to be done that the controller has the group, and what its status is.

use std::sync::Arc;
use std::time::Duration;

use canopy_controller_api::problem::Problem;
use canopy_controller_api::{API_VERSION, GroupResource, Kind};
use canopy_ctl::failure::Exit;
use canopy_model::status::GroupPhase;
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
use crate::manager::MANAGED_BY;
use crate::resources::{DeletionPolicy, MulticastGroup, MulticastGroupStatus};
use crate::status;

/// Holds a resource until what it declares is cleaned up.
pub const FINALIZER: &str = "canopy.dev/declared";
/// With `true`, the operator takes over a group that was made by others.
pub const ADOPT: &str = "canopy.dev/adopt";
/// How long a reconciliation waits for the controller before the status has that it is away.
const PATIENCE: Duration = Duration::from_secs(10);
/// What was refused is sent again after this, for what the controller does not report: a quota that grew, another group that is gone.
const AGAIN: Duration = Duration::from_secs(60);

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the controller has it.
    Keep,
    /// The group is new.
    Create(Value),
    /// The group is another one.
    Change(Value),
    /// The group is not this resource's to write.
    Refuse(String),
}

/// What has to be done for `resource`, where the controller has `found`.
pub fn decide(resource: &MulticastGroup, manager: &str, found: Option<&GroupResource>) -> Step {
    let wanted = |labels| document(resource, labels);
    let mut labels = resource.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.into(), manager.into());
    let Some(found) = found else { return Step::Create(wanted(&labels)) };
    let (name, tenant) = (resource.name_any(), &found.metadata.tenant);
    if resource.namespace().as_deref() != Some(tenant) {
        return Step::Refuse(format!(
            "there is a group {name} already, in another tenant: names of groups are unique in the whole domain"
        ));
    }
    match found.metadata.labels.get(MANAGED_BY) {
        Some(other) if other != manager => {
            return Step::Refuse(format!(
                "group {name} is managed by {other}: delete that resource, or choose another name"
            ));
        }
        None if resource.annotations().get(ADOPT).map(String::as_str) != Some("true") => {
            return Step::Refuse(format!(
                "group {name} was made, or taken over, by others: kubectl annotate --namespace {tenant} multicastgroup {name} {ADOPT}=true makes it this resource's, with its spec"
            ));
        }
        _ => {}
    }
    if found.spec == resource.spec.group && found.metadata.labels == labels {
        Step::Keep
    } else {
        Step::Change(wanted(&labels))
    }
}

fn document(resource: &MulticastGroup, labels: &std::collections::BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": Kind::Group,
        "metadata": {"name": resource.name_any(), "tenant": resource.namespace(), "labels": labels},
        "spec": resource.spec.group,
    })
}

/// The status of `resource`, with this outcome of its reconciliation.
pub fn status_of(
    resource: &MulticastGroup,
    found: Option<&GroupResource>,
    outcome: Now,
    at: &Time,
) -> MulticastGroupStatus {
    let before = resource.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let observed_generation = resource.metadata.generation;
    let mut now = vec![outcome];
    let Some(found) = found else {
        let conditions = settle(before, now, observed_generation, at);
        return MulticastGroupStatus { observed_generation, conditions, ..Default::default() };
    };
    let is_ready = if found.status.phase == GroupPhase::Ready { "True" } else { "False" };
    now.push(Now {
        kind: "Ready".into(),
        status: is_ready,
        reason: found.status.phase.to_string(),
        message: found.status.reason.clone(),
    });
    now.extend(found.status.conditions.iter().map(Now::from));
    MulticastGroupStatus {
        observed_generation,
        phase: found.status.phase.to_string(),
        reason: found.status.reason.clone(),
        source: found.status.source.clone(),
        receivers: found.status.receivers,
        conditions: settle(before, now, observed_generation, at),
    }
}

/// Reconciles one resource.
///
/// # Errors
/// It has to be done again.
pub async fn reconcile(resource: Arc<MulticastGroup>, context: Arc<Context>) -> Result<Action, Failure> {
    let api = Api::namespaced(context.kubernetes.clone(), &resource.namespace().unwrap_or_default());
    let (own, context) = (&api, &*context);
    let done = finalizer(own, FINALIZER, resource, |event| async move {
        match event {
            Event::Apply(resource) => apply(own, &resource, context).await,
            Event::Cleanup(resource) => clean_up(own, &resource, context).await,
        }
    });
    Ok(done.await?)
}

async fn apply(api: &Api<MulticastGroup>, resource: &MulticastGroup, context: &Context) -> Result<Action, Failure> {
    if tokio::time::timeout(PATIENCE, context.mirror.whole()).await.is_err() {
        return away(api, resource, context, "it was not reached since the operator started").await;
    }
    let (name, manager) = (resource.name_any(), context.manager(resource));
    let found = context.mirror.group(&name);
    let sent = match decide(resource, &manager, found.as_deref()) {
        Step::Keep => None,
        Step::Refuse(why) => {
            // What another one has made of the group is that one's.
            return show(
                api,
                resource,
                None,
                Now::reconciled("False", "Conflict", why),
                context,
                Action::requeue(AGAIN),
            )
            .await;
        }
        Step::Create(document) => Some((Method::POST, "/api/v1/groups".to_owned(), document)),
        Step::Change(document) => Some((Method::PUT, format!("/api/v1/groups/{name}"), document)),
    };
    if let Some((method, path, document)) = sent {
        let rest = context.rest.clone().managing(Some(manager));
        let answer = match rest.send(method, &path, Some(&document)).await {
            Ok(answer) => answer,
            Err(failure) => return away(api, resource, context, &failure.to_string()).await,
        };
        match answer.status {
            200..300 => {
                tracing::info!(group = name, "declared");
                if let Ok(group) = serde_json::from_slice(&answer.body) {
                    context.mirror.wrote(group);
                }
            }
            status => {
                let (reason, why) = refusal(status, &answer.body);
                if reason == UNAVAILABLE {
                    return away(api, resource, context, &why).await;
                }
                tracing::info!(group = name, status, why, "refused");
                let outcome = Now::reconciled("False", reason, why);
                return show(api, resource, found.as_deref(), outcome, context, Action::requeue(AGAIN)).await;
            }
        }
    }
    let found = context.mirror.group(&name);
    let outcome = Now::reconciled("True", "Declared", "the controller has what this resource declares");
    show(api, resource, found.as_deref(), outcome, context, Action::await_change()).await
}

/// Reason of [`RECONCILED`](crate::condition::RECONCILED) while the controller cannot answer.
pub(crate) const UNAVAILABLE: &str = "ControllerUnavailable";

/// Reason and message of a refused write.
pub(crate) fn refusal(status: u16, body: &[u8]) -> (&'static str, String) {
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    let why = problem.map_or_else(
        || format!("the controller answered {status}"),
        |problem| {
            let fields = problem.extensions.errors.iter().map(|error| format!("; {}: {}", error.field, error.detail));
            format!("{} ({}){}", problem.detail, problem.extensions.code, fields.collect::<String>())
        },
    );
    let reason = match status {
        409 | 412 => "Conflict",
        400 | 413 | 422 => "Invalid",
        401 | 403 => "NotPermitted",
        _ => UNAVAILABLE,
    };
    (reason, why)
}

/// The controller cannot be asked now: that is shown, and tried again.
async fn away(
    api: &Api<MulticastGroup>,
    resource: &MulticastGroup,
    context: &Context,
    why: &str,
) -> Result<Action, Failure> {
    let found = context.mirror.group(&resource.name_any());
    let outcome = Now::reconciled("Unknown", UNAVAILABLE, why);
    show(api, resource, found.as_deref(), outcome, context, Action::await_change()).await?;
    Err(Failure::Controller(why.to_owned()))
}

/// Writes the status; `then` is when the resource is reconciled next.
async fn show(
    api: &Api<MulticastGroup>,
    resource: &MulticastGroup,
    found: Option<&GroupResource>,
    outcome: Now,
    context: &Context,
    then: Action,
) -> Result<Action, Failure> {
    let wanted = status_of(resource, found, outcome, &context.now());
    let late = status::write(api, &context.pace, resource, resource.status.as_ref(), &wanted).await?;
    Ok(late.map_or(then, Action::requeue))
}

/// What a deleted resource leaves: nothing, or its group without a manager.
async fn clean_up(api: &Api<MulticastGroup>, resource: &MulticastGroup, context: &Context) -> Result<Action, Failure> {
    context.mirror.whole().await;
    let (name, manager) = (resource.name_any(), context.manager(resource));
    let found = context.mirror.group(&name);
    let Some(found) = found.filter(|found| found.metadata.labels.get(MANAGED_BY) == Some(&manager)) else {
        return Ok(Action::await_change());
    };
    let rest = context.rest.clone().managing(Some(manager));
    let path = format!("/api/v1/groups/{name}");
    if resource.spec.deletion_policy == DeletionPolicy::Orphan {
        let mut left = GroupResource::clone(&found);
        left.metadata.labels.remove(MANAGED_BY);
        let document = json!({
            "apiVersion": API_VERSION,
            "kind": Kind::Group,
            "metadata": {"name": name, "tenant": left.metadata.tenant, "labels": left.metadata.labels},
            "spec": left.spec,
        });
        let doing = format!("leaving group {name}");
        let done = rest.change(&doing, Method::PUT, &path, Some(&document)).await;
        done.map_err(|failure| Failure::Controller(failure.to_string()))?;
        tracing::info!(group = name, "left to others");
        return Ok(Action::await_change());
    }
    let members = u64::from(found.status.receivers) + u64::from(found.status.source.is_some());
    if members > 0 && found.status.phase != GroupPhase::Deleting {
        let why = format!(
            "group {name} is deleted once its {members} members have left; deletionPolicy Orphan would leave it"
        );
        let wanted = status_of(resource, Some(&*found), Now::reconciled("False", "HasMembers", &why), &context.now());
        let late = status::write(api, &context.pace, resource, resource.status.as_ref(), &wanted).await?;
        return Err(late.map_or(Failure::Waiting(why), Failure::Paced));
    }
    match rest.delete(&format!("deleting group {name}"), &path, None).await {
        Ok(None) => {
            tracing::info!(group = name, "deleted");
            Ok(Action::await_change())
        }
        Ok(Some(_)) => Err(Failure::Waiting(format!("the members of group {name} are being removed"))),
        Err(failure) if failure.exit == Exit::NotFound => Ok(Action::await_change()),
        Err(failure) => Err(Failure::Controller(failure.to_string())),
    }
}
