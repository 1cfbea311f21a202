// SPDX-License-Identifier: Apache-2.0
//! The nodes of a fabric as octets with their digest, and the pages that turn one such set into another.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use canopy_model::FieldError;
use canopy_model::fabric::HostFabric;
use canopy_model::ids::NodeId;
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::pb;

/// Octets of nodes in one page, at most; a single node may be longer.
const PAGE_OCTETS: usize = 256 << 10;
/// Octets that an item takes in a page besides its content, at most.
const ITEM_OCTETS: usize = 16;
/// Octets of a node's number that is gone, at most.
const GONE_OCTETS: usize = 3;

/// Digest of a fabric: of the content of all its nodes (see `FabricState.digest`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FabricDigest([u8; 32]);

impl FabricDigest {
    /// From a field of a message; an empty field is `None`.
    ///
    /// # Errors
    /// Another length than 0 and 32.
    pub fn from_field(field: &str, octets: &[u8]) -> Result<Option<Self>, FieldError> {
        match octets {
            [] => Ok(None),
            octets => octets
                .try_into()
                .map(|octets| Some(Self(octets)))
                .map_err(|_| FieldError::new(field, format!("{} bytes, a digest has 32", octets.len()))),
        }
    }
}

impl From<FabricDigest> for Vec<u8> {
    fn from(digest: FabricDigest) -> Self {
        digest.0.to_vec()
    }
}

impl std::fmt::Display for FabricDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

/// Encoded nodes. Clones share the octets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricItems {
    nodes: BTreeMap<NodeId, Item>,
    digest: FabricDigest,
}

/// One encoded node. Octets are compared by their hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    content: Bytes,
    hash: [u8; 32],
}

impl Item {
    pub(super) fn new(content: Bytes) -> Self {
        Self { hash: Sha256::digest(&content).into(), content }
    }

    pub(super) fn octets(&self) -> usize {
        self.content.len()
    }

    fn wire(&self, node: NodeId) -> pb::FabricItem {
        pb::FabricItem { node: u32::from(node.get()), content: self.content.clone() }
    }
}

impl FabricItems {
    pub(super) fn new(nodes: BTreeMap<NodeId, Item>) -> Self {
        Self { digest: digest(nodes.iter().map(|(node, item)| (*node, item))), nodes }
    }

    /// Encodes every node.
    pub fn encode(fabric: &HostFabric) -> Self {
        let item = |node| Item::new(pb::FabricNode::from(node).encode_to_vec().into());
        Self::new(fabric.nodes.iter().map(|(id, node)| (*id, item(node))).collect())
    }

    /// Digest of all nodes.
    pub fn digest(&self) -> FabricDigest {
        self.digest
    }

    pub(super) fn nodes(&self) -> &BTreeMap<NodeId, Item> {
        &self.nodes
    }

    /// The pages that turn `from` into these nodes: all nodes without `from`, and none if it is the same. Each node of both is compared once.
    pub fn pages(&self, from: Option<&Self>) -> FabricPages {
        let mut pages = Pages::default();
        pages.current.reset = from.is_none();
        if from.is_none_or(|from| from.digest != self.digest) {
            let held = |node| from.and_then(|from| from.nodes.get(node));
            for (node, item) in self.nodes.iter().filter(|(node, item)| held(node) != Some(item)) {
                pages.page_for(item.octets() + ITEM_OCTETS).nodes.push(item.wire(*node));
            }
            let before = from.into_iter().flat_map(|from| from.nodes.keys());
            for node in before.filter(|node| !self.nodes.contains_key(node)) {
                pages.page_for(GONE_OCTETS).gone.push(u32::from(node.get()));
            }
        }
        FabricPages { full: pages.full.into(), last: pages.current }
    }
}

/// A change as it travels, without the state of the host that gets it. Clones share the pages.
#[derive(Clone, Debug)]
pub struct FabricPages {
    full: Arc<[pb::WatchFabricResponse]>,
    last: pb::WatchFabricResponse,
}

impl FabricPages {
    /// The pages, of which the last one has `state`. A page is copied when its turn comes; its octets are shared.
    pub fn with_state(self, state: pb::FabricState) -> impl Iterator<Item = pb::WatchFabricResponse> + Send {
        let Self { full, mut last } = self;
        last.state = Some(state);
        let before = full.len();
        (0..before).map(move |page| full[page].clone()).chain(std::iter::once(last))
    }
}

#[derive(Default)]
struct Pages {
    full: Vec<pb::WatchFabricResponse>,
    current: pb::WatchFabricResponse,
    octets: usize,
}

impl Pages {
    /// The page that has room for so many octets more.
    fn page_for(&mut self, octets: usize) -> &mut pb::WatchFabricResponse {
        if self.octets > 0 && self.octets + octets > PAGE_OCTETS {
            self.full.push(std::mem::take(&mut self.current));
            self.octets = 0;
        }
        self.octets += octets;
        &mut self.current
    }
}

/// See `FabricState.digest`.
pub(super) fn digest<'a>(nodes: impl Iterator<Item = (NodeId, &'a Item)>) -> FabricDigest {
    let mut hash = Sha256::new();
    for (node, item) in nodes {
        hash.update(u32::from(node.get()).to_be_bytes());
        hash.update(item.hash);
    }
    FabricDigest(hash.finalize().into())
}
