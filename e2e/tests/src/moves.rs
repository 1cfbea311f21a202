// SPDX-License-Identifier: Apache-2.0
//! What makes a tree move, and where it is (decisions 3.14).

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::Bed;

/// The condition `Moved` of a group.
#[derive(Clone, Debug)]
pub struct Moved {
    /// The tree in force is the one over the present topology.
    pub holds: bool,
    /// Why, or why not.
    pub reason: String,
    /// For the operator.
    pub message: String,
}

impl Bed {
    /// Replaces the topology by the lab's own, with its links as `change` makes them. The interfaces stay as they are.
    ///
    /// # Errors
    /// The controller refuses it.
    pub fn change_links(&self, change: impl Fn(&mut Value)) -> Result<()> {
        let mut spec = serde_json::to_value(self.lab.state().file.topology())?;
        spec["links"].as_array_mut().context("a topology without links")?.iter_mut().for_each(change);
        let topology =
            json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": spec});
        let (status, body) = self.lab.rest("PUT", "/api/v1/topology", Some(&topology))?;
        ensure!(status < 300, "{status} {body}");
        Ok(())
    }

    /// The parent of `node` in the tree of a group.
    ///
    /// # Errors
    /// The node is not in the tree.
    pub fn parent(&self, group: &str, node: &str) -> Result<String> {
        let status = self.group(group)?;
        let of_node = status["tree"].as_array().and_then(|tree| tree.iter().find(|n| n["node"] == node));
        let parent = of_node.and_then(|n| n["parent"].as_str());
        Ok(parent.with_context(|| format!("{node} has no parent: {status}"))?.to_owned())
    }

    /// Whether the tree of a group is the one over the present topology.
    ///
    /// # Errors
    /// The group has no such condition.
    pub fn moved(&self, group: &str) -> Result<Moved> {
        let status = self.group(group)?;
        let conditions = status["conditions"].as_array();
        let moved = conditions.and_then(|all| all.iter().find(|c| c["type"] == "Moved")).context("no Moved")?;
        let text = |field: &str| moved[field].as_str().unwrap_or_default().to_owned();
        Ok(Moved { holds: moved["status"] == "True", reason: text("reason"), message: text("message") })
    }
}

/// True for the link of these two devices.
pub fn connects(link: &Value, a: &str, b: &str) -> bool {
    let ends = ["a", "b"].map(|end| link[end].as_str().and_then(|e| e.split('/').next()).unwrap_or_default());
    ends == [a, b] || ends == [b, a]
}
