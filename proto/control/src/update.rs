// SPDX-License-Identifier: Apache-2.0
//! Updates of a node's desired state: pages of a snapshot and deltas, and how an agent applies them.
//!
//! A delta names the digest of the content that it is relative to, and carries the digest of the content that must come out, so
//! that a lost, repeated or misapplied update is found at once; the agent then watches anew and gets a snapshot.

use std::sync::Arc;

use canopy_model::FieldError;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::node_spec::{GroupProgram, NodeBase, NodeSpec};
use canopy_model::programs::Programs;
use prost::Message;

use crate::field::{required, within};
use crate::items::Items;
use crate::pb;
use crate::staged::Staged;
use crate::update_error::UpdateError;
use pb::watch_response::Update;

/// Minor version of the southbound contract: it grows with every message or field that the other side may rely on.
pub const MINOR_VERSION: u32 = 10;

/// A node's desired state, parsed, with the items that it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldSpec {
    spec: NodeSpec,
    items: Items,
}

impl HeldSpec {
    /// Encodes `spec`.
    pub fn encode(spec: NodeSpec) -> Self {
        let items = Items::encode(&spec);
        Self { spec, items }
    }

    /// Parses `items`.
    ///
    /// # Errors
    /// Which field of which item is wrong.
    pub fn parse(term: u64, generation: Generation, items: Items) -> Result<Self, FieldError> {
        let base = Arc::new(parse_base(items.base())?);
        let groups: Result<Programs, FieldError> =
            items.groups().map(|(id, octets)| Ok((id, parse_program(id, octets)?))).collect();
        Ok(Self { spec: NodeSpec { term, generation, base, groups: groups? }, items })
    }

    /// The desired state.
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// The items as they were received.
    pub fn items(&self) -> &Items {
        &self.items
    }

    /// Digest of the content.
    pub fn digest(&self) -> SpecDigest {
        self.items.digest()
    }
}

/// The message with one page of the snapshot of a spec with this term, generation and digest.
pub(crate) fn page_response(
    (term, generation, digest): (u64, Generation, SpecDigest),
    page: pb::SnapshotPage,
) -> pb::WatchResponse {
    let update = Some(Update::Page(page));
    pb::WatchResponse {
        term,
        generation,
        digest: digest.into(),
        update,
        minor_version: MINOR_VERSION,
        ..Default::default()
    }
}

/// The whole snapshot of `spec`, page by page.
pub fn snapshot_responses(spec: &HeldSpec) -> Vec<pb::WatchResponse> {
    let name = (spec.spec.term, spec.spec.generation, spec.digest());
    spec.items.pages(Default::default()).map(|page| page_response(name, page)).collect()
}

/// The message that takes a node from the content `from` to `to`, which is of this term and generation. With equal contents it
/// is the empty delta, which confirms what the node holds.
pub fn delta_response((term, generation): (u64, Generation), from: &Items, to: &Items) -> pb::WatchResponse {
    delta_of((term, generation, to.digest()), from.delta(to))
}

/// The message with a delta to a content with this term, generation and digest.
pub(crate) fn delta_of(
    (term, generation, digest): (u64, Generation, SpecDigest),
    delta: pb::NodeDelta,
) -> pb::WatchResponse {
    let (digest, update) = (digest.into(), Some(Update::Delta(delta)));
    pb::WatchResponse { term, generation, digest, update, minor_version: MINOR_VERSION, ..Default::default() }
}

/// What an accepted update leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The spec that the node holds from now on.
    Spec(Box<HeldSpec>),
    /// A page of a snapshot that is not complete yet.
    Page,
}

/// Applies `response` to what a node holds; `staged` keeps the pages of an incomplete snapshot.
///
/// An equal digest is no change of the content, whatever the update contains: the node takes over term and generation. What comes
/// out must have the digest that the controller announced.
///
/// # Errors
/// [`UpdateError`]; what the node holds stays in force. After all but `LowerTerm` and `OlderGeneration` the agent watches anew
/// without a known digest, and so gets a snapshot.
pub fn apply_update(
    held: Option<&HeldSpec>,
    staged: &mut Option<Staged>,
    response: pb::WatchResponse,
) -> Result<Accepted, UpdateError> {
    let pb::WatchResponse { term, generation, digest, update, .. } = response;
    let announced = SpecDigest::from_field("digest", &digest)?;
    if let Some(HeldSpec { spec, .. }) = held {
        if term < spec.term {
            return Err(UpdateError::LowerTerm { accepted: spec.term, got: term });
        }
        if term == spec.term && generation < spec.generation {
            return Err(UpdateError::OlderGeneration { term, current: spec.generation, got: generation });
        }
    }
    if let Some(held) = held.filter(|held| held.digest() == announced) {
        *staged = None;
        let spec = NodeSpec { term, generation, ..held.spec.clone() };
        return Ok(Accepted::Spec(Box::new(HeldSpec { spec, items: held.items.clone() })));
    }
    let next = match required("update", update)? {
        Update::Page(page) => {
            let complete = page.last;
            Staged::add(staged, (term, generation, announced), page)?;
            let Some(staged) = staged.take_if(|_| complete) else { return Ok(Accepted::Page) };
            within("snapshot", HeldSpec::parse(term, generation, staged.into_items()))?
        }
        Update::Delta(delta) => {
            *staged = None;
            let from = SpecDigest::from_field("delta.from_digest", &delta.from_digest)?;
            match held {
                Some(held) if held.digest() == from => within("delta", apply_delta(held, (term, generation), delta))?,
                _ => {
                    let current = held.map(HeldSpec::digest).unwrap_or_default();
                    return Err(UpdateError::OtherBase { current, from });
                }
            }
        }
    };
    let computed = next.digest();
    if computed != announced {
        return Err(UpdateError::DigestMismatch { generation, computed, announced });
    }
    Ok(Accepted::Spec(Box::new(next)))
}

/// Parses and hashes only what the delta contains.
fn apply_delta(
    held: &HeldSpec,
    (term, generation): (u64, Generation),
    delta: pb::NodeDelta,
) -> Result<HeldSpec, FieldError> {
    let mut next = held.clone();
    (next.spec.term, next.spec.generation) = (term, generation);
    if let Some(base) = delta.base {
        next.spec.base = Arc::new(parse_base(&base)?);
        next.items.set_base(base);
    }
    for id in delta.removed_groups {
        let id = GroupId::new("removed_groups", id.into())?;
        next.spec.groups.remove(&id);
        next.items.remove(id);
    }
    for item in delta.upserted_groups {
        let id = GroupId::new("upserted_groups.group_id", item.group_id.into())?;
        next.spec.groups.insert(id, parse_program(id, &item.program)?);
        next.items.upsert(id, item.program);
    }
    Ok(next)
}

fn parse_base(octets: &[u8]) -> Result<NodeBase, FieldError> {
    if octets.is_empty() {
        return Err(FieldError::new("base", "is missing"));
    }
    let wire = pb::NodeBase::decode(octets).map_err(|e| FieldError::new("base", e.to_string()))?;
    within("base", wire.try_into())
}

fn parse_program(id: GroupId, octets: &[u8]) -> Result<GroupProgram, FieldError> {
    let path = format!("groups[{id}]");
    let wire = pb::GroupProgram::decode(octets).map_err(|e| FieldError::new(&path, e.to_string()))?;
    let program: GroupProgram = within(&path, wire.try_into())?;
    if program.group_id != id {
        let detail = format!("is {} in the program of group {id}", program.group_id);
        return Err(FieldError::new(format!("{path}.group_id"), detail));
    }
    Ok(program)
}

#[cfg(test)]
mod tests;
