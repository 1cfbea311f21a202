// SPDX-License-Identifier: Apache-2.0
//! Updates of a node's desired state: snapshots and deltas, and how an agent applies them.
//!
//! A delta names the generation it is relative to and carries the digest of the whole that must come out, so that a
//! lost, repeated or misapplied update is found at once; the agent then watches anew and gets a snapshot.

use std::collections::BTreeMap;

use canopy_model::FieldError;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::{GroupProgram, NodeBase, NodeSpec};

use crate::digest::Digest;
use crate::field::{each, required, within};
use crate::pb;
use pb::watch_response::Update;

/// Why an update was refused; the spec that the agent holds stays in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UpdateError {
    /// The message does not make sense.
    #[error("{0}")]
    Field(#[from] FieldError),
    /// A controller that is no longer the leader speaks.
    #[error("term {got} is lower than {accepted}, which this node has accepted already: another controller leads")]
    LowerTerm {
        /// Highest term accepted.
        accepted: u64,
        /// Term of the update.
        got: u64,
    },
    /// The update is older than what the node runs.
    #[error("generation {got} is older than {current}")]
    OlderGeneration {
        /// Generation held.
        current: Generation,
        /// Generation of the update.
        got: Generation,
    },
    /// The delta is relative to a spec that the node does not hold: watch anew to get a snapshot.
    #[error("the delta is relative to generation {from}, but this node holds {}", display_current(.current))]
    OtherBase {
        /// Generation held; `None` without a spec.
        current: Option<Generation>,
        /// Generation that the delta is relative to.
        from: Generation,
    },
    /// What came out is not what the controller meant: watch anew to get a snapshot.
    #[error("generation {generation} comes out with digest {computed}, but the controller says {announced}")]
    DigestMismatch {
        /// Generation of the update.
        generation: Generation,
        /// Digest of what came out.
        computed: Digest,
        /// Digest in the update.
        announced: Digest,
    },
}

fn display_current(current: &Option<Generation>) -> String {
    current.map_or_else(|| "nothing".to_owned(), |g| g.to_string())
}

impl From<&NodeSpec> for pb::NodeSpec {
    fn from(spec: &NodeSpec) -> Self {
        Self { base: Some((&spec.base).into()), groups: spec.groups.values().map(Into::into).collect() }
    }
}

/// Base and programs of a snapshot; term and generation travel in the message around it.
impl TryFrom<pb::NodeSpec> for (NodeBase, BTreeMap<GroupId, GroupProgram>) {
    type Error = FieldError;
    fn try_from(wire: pb::NodeSpec) -> Result<Self, FieldError> {
        let base = within("base", required("base", wire.base)?.try_into())?;
        let mut groups = BTreeMap::new();
        for (i, program) in each::<_, GroupProgram>("groups", wire.groups)?.into_iter().enumerate() {
            let id = program.group_id;
            if groups.insert(id, program).is_some() {
                return Err(FieldError::new(format!("groups[{i}].group_id"), format!("{id} appears twice")));
            }
        }
        Ok((base, groups))
    }
}

/// What changed from `from` to `to`. Costs one comparison per group.
pub fn delta(from: &NodeSpec, to: &NodeSpec) -> pb::NodeDelta {
    let changed = |p: &&GroupProgram| from.groups.get(&p.group_id) != Some(p);
    pb::NodeDelta {
        from_generation: from.generation,
        base: (from.base != to.base).then(|| (&to.base).into()),
        upserted_groups: to.groups.values().filter(changed).map(Into::into).collect(),
        removed_groups: from.groups.keys().filter(|id| !to.groups.contains_key(id)).map(|id| id.get()).collect(),
    }
}

/// The message that tells a node everything.
pub fn snapshot_response(spec: &NodeSpec) -> pb::WatchResponse {
    pb::WatchResponse {
        term: spec.term,
        generation: spec.generation,
        digest: Digest::of(spec).into(),
        update: Some(Update::Snapshot(spec.into())),
    }
}

/// The message that takes a node from `from`, whose digest is `digest`, to `to`; and the digest of `to`.
/// Hashes only what changed. `delta_response(x, Digest::of(x), x)` is the empty delta that confirms `x`.
pub fn delta_response(from: &NodeSpec, digest: Digest, to: &NodeSpec) -> (pb::WatchResponse, Digest) {
    let mut digest = digest;
    if from.base != to.base {
        digest.toggle_base(&from.base);
        digest.toggle_base(&to.base);
    }
    for (id, old) in &from.groups {
        if to.groups.get(id) != Some(old) {
            digest.toggle_group(old);
        }
    }
    for (id, new) in &to.groups {
        if from.groups.get(id) != Some(new) {
            digest.toggle_group(new);
        }
    }
    let update = Some(Update::Delta(delta(from, to)));
    (pb::WatchResponse { term: to.term, generation: to.generation, digest: digest.into(), update }, digest)
}

/// The spec that a node holds after `response`.
///
/// Equal generation and digest is no change, whatever the update says. A snapshot replaces everything; a delta must be
/// relative to exactly what the node holds. What comes out must have the digest that the controller announced.
///
/// # Errors
/// [`UpdateError`]; `current` stays in force. After `OtherBase` and `DigestMismatch` the agent watches anew without a
/// known generation, and so gets a snapshot.
pub fn apply_update(current: Option<NodeSpec>, response: pb::WatchResponse) -> Result<NodeSpec, UpdateError> {
    let pb::WatchResponse { term, generation, digest, update } = response;
    let announced = Digest::try_from(digest.as_slice())?;
    if let Some(held) = &current {
        if term < held.term {
            return Err(UpdateError::LowerTerm { accepted: held.term, got: term });
        }
        if generation < held.generation {
            return Err(UpdateError::OlderGeneration { current: held.generation, got: generation });
        }
        if generation == held.generation && announced == Digest::of(held) {
            return Ok(NodeSpec { term, ..held.clone() });
        }
    }
    let next = match required("update", update)? {
        Update::Snapshot(snapshot) => {
            let (base, groups) = within("snapshot", snapshot.try_into())?;
            NodeSpec { term, generation, base, groups }
        }
        Update::Delta(delta) => match current {
            Some(held) if held.generation == delta.from_generation => {
                NodeSpec { term, generation, ..within("delta", apply_delta(held, delta))? }
            }
            held => {
                return Err(UpdateError::OtherBase {
                    current: held.map(|h| h.generation),
                    from: delta.from_generation,
                });
            }
        },
    };
    let computed = Digest::of(&next);
    if computed != announced {
        return Err(UpdateError::DigestMismatch { generation, computed, announced });
    }
    Ok(next)
}

fn apply_delta(mut spec: NodeSpec, delta: pb::NodeDelta) -> Result<NodeSpec, FieldError> {
    if let Some(base) = delta.base {
        spec.base = within("base", base.try_into())?;
    }
    for id in delta.removed_groups {
        spec.groups.remove(&GroupId::new("removed_groups", id.into())?);
    }
    for program in each::<_, GroupProgram>("upserted_groups", delta.upserted_groups)? {
        spec.groups.insert(program.group_id, program);
    }
    Ok(spec)
}

#[cfg(test)]
mod tests;
