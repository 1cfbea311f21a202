// SPDX-License-Identifier: Apache-2.0
//! A cordoned node of Kubernetes is a drained one of the topology, where that is asked for.
//!
//! `kubectl cordon` and `kubectl drain` make a node unschedulable. The drain that follows belongs to that Node object: its manager is named after
//! the object's UID, so that a restart of the operator finds it again, and one whose node is uncordoned or gone is ended. Drains of others are
//! neither changed nor ended. [`follow`] carries out what [`decide`] returns.

pub mod follow;

use std::sync::Arc;

use canopy_controller_api::{API_VERSION, DrainResource, Kind};
use serde_json::{Value, json};

use crate::manager::{Cluster, MANAGED_BY};

/// With `true` at a cordoned node, it is drained although hosts behind it are members of groups.
pub const ACCEPT_LOSS: &str = "canopy.dev/accept-loss";
/// Longest name of a drain (a DNS label).
const MAX_NAME: usize = 63;

/// A node of Kubernetes that is unschedulable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cordoned {
    /// Of the Node object.
    pub uid: String,
    /// [`ACCEPT_LOSS`].
    pub accept_loss: bool,
}

/// What has to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The node is to be drained, as this manager.
    Create {
        /// Who writes it.
        manager: String,
        /// The drain.
        document: Value,
    },
    /// A drain of this cluster has no cordoned node any more.
    End {
        /// Who writes it.
        manager: String,
        /// The drain.
        name: String,
    },
    /// The node cannot be drained.
    Refuse(String),
}

/// Name of the drain that a cordoned node has. Where that is too long for a name, it is the beginning of it and a hash of the node's whole name.
pub fn drain_name(node: &str) -> String {
    let name = format!("cordon-{node}");
    if name.len() <= MAX_NAME {
        return name;
    }
    // FNV-1a of 32 bits: the same in every version, because the drain is found by it after an upgrade.
    let hash = node.bytes().fold(0x811c_9dc5_u32, |hash, octet| (hash ^ u32::from(octet)).wrapping_mul(0x0100_0193));
    // A name of the topology is a DNS label, so that each octet is a character.
    let begin = name.get(..MAX_NAME - 9).unwrap_or("cordon");
    format!("{}-{hash:08x}", begin.trim_end_matches('-'))
}

/// What has to be done for `node`, which is cordoned or not.
///
/// `is_in_topology` is whether the controller has a node of that name, `drains` are those that it has of the node, and `named` is the one with its
/// [`drain_name`].
pub fn decide(
    cluster: &Cluster,
    node: &str,
    cordoned: Option<&Cordoned>,
    is_in_topology: bool,
    drains: &[Arc<DrainResource>],
    named: Option<&DrainResource>,
) -> Vec<Step> {
    let own = cordoned.map(|of| cluster.manager(&of.uid));
    let mut steps = Vec::new();
    let mut is_drained = false;
    for drain in drains {
        match drain.metadata.labels.get(MANAGED_BY) {
            Some(manager) if Some(manager) == own.as_ref() => is_drained = true,
            Some(manager) if cluster.has(manager) => {
                steps.push(Step::End { manager: manager.clone(), name: drain.metadata.name.clone() });
            }
            _ => {}
        }
    }
    let (Some(cordoned), Some(manager)) = (cordoned, own) else { return steps };
    if is_drained || !is_in_topology {
        return steps;
    }
    let name = drain_name(node);
    let is_ending = steps.iter().any(|step| matches!(step, Step::End { name: ending, .. } if *ending == name));
    if named.is_some() && !is_ending {
        let why =
            format!("there is a drain {name} already, which others have made or taken over: delete it, or leave it");
        steps.push(Step::Refuse(why));
        return steps;
    }
    let document = json!({
        "apiVersion": API_VERSION,
        "kind": Kind::Drain,
        "metadata": {"name": name, "labels": {MANAGED_BY: manager}},
        "spec": {
            "node": node,
            "reason": format!("node {node} is cordoned in the Kubernetes cluster {cluster}"),
            "acceptLoss": cordoned.accept_loss,
        },
    });
    steps.push(Step::Create { manager, document });
    steps
}
