// SPDX-License-Identifier: Apache-2.0
//! The receiving side of `WatchFabric`: collects the pages of a change, checks what comes out, and only then has it in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use canopy_model::FieldError;
use canopy_model::fabric::{FabricNode, HostFabric, Sender};
use canopy_model::ids::NodeId;
use canopy_model::limits::{MAX_LINKS, MAX_NODES};
use prost::Message;

use super::items::{FabricDigest, FabricItems, Item};
use crate::field::within;
use crate::pb;

/// Octets of the nodes of a fabric, at most: twice those of the largest one whose links form no runs.
const MAX_OCTETS: usize = 64 << 20;

/// Why a page is not taken. What was in force stays in force, and [`Received::digest`] asks for everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReceiveError {
    /// The message does not make sense.
    #[error("{0}")]
    Field(#[from] FieldError),
    /// What came out is not what the sender has.
    #[error("the fabric comes out with digest {computed}, but {announced} was announced")]
    DigestMismatch {
        /// Digest of what came out.
        computed: FabricDigest,
        /// Digest in the message.
        announced: FabricDigest,
    },
    /// More than a topology has.
    #[error("the fabric has more {what} than a topology may have")]
    TooLarge {
        /// Of what there are too many.
        what: &'static str,
    },
    /// Stored octets are not a fabric.
    #[error("what was stored cannot be decoded: {0}")]
    Stored(String),
}

/// What is in force. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// As octets.
    pub items: Arc<FabricItems>,
    /// The same, decoded. The same `Arc` as before unless a node changed.
    pub fabric: Arc<HostFabric>,
    /// What the host may send.
    pub sender: Arc<Sender>,
}

impl Held {
    /// As `state` of a message.
    pub fn state(&self) -> pb::FabricState {
        (self.items.digest(), &*self.sender).into()
    }

    /// Octets from which [`Received::restore`] has it again.
    pub fn to_octets(&self) -> Vec<u8> {
        let pages = self.items.pages(None).with_state(self.state());
        let whole = pages.fold(pb::WatchFabricResponse::default(), |mut whole, page| {
            whole.reset |= page.reset;
            whole.nodes.extend(page.nodes);
            pb::WatchFabricResponse { state: page.state, ..whole }
        });
        whole.encode_to_vec()
    }
}

/// The fabric as far as it was received.
#[derive(Debug, Default)]
pub struct Received {
    held: Option<Held>,
    change: Change,
    /// The last page was not taken.
    is_damaged: bool,
}

/// A change whose last page has not come yet.
#[derive(Debug, Default)]
struct Change {
    reset: bool,
    /// By node; `None`: gone.
    nodes: BTreeMap<NodeId, Option<(Item, FabricNode)>>,
    size: Size,
}

/// How much was taken, so that a few octets that stand for long runs do not become more than a topology has.
#[derive(Debug, Default)]
struct Size {
    octets: usize,
    links: usize,
    hosts: usize,
}

impl Size {
    fn add(&mut self, octets: usize, node: &FabricNode) {
        self.octets += octets;
        self.links += node.links.len();
        self.hosts += node.hosts.len();
    }

    fn check(&self) -> Result<(), ReceiveError> {
        check("octets", self.octets, MAX_OCTETS)?;
        check("links", self.links, MAX_LINKS)?;
        // One for each link of a host.
        check("links of hosts", self.hosts, MAX_LINKS)
    }
}

impl Received {
    /// From [`Held::to_octets`].
    ///
    /// # Errors
    /// The octets are something else.
    pub fn restore(octets: impl Into<Bytes>) -> Result<Self, ReceiveError> {
        let whole = pb::WatchFabricResponse::decode(octets.into()).map_err(|e| ReceiveError::Stored(e.to_string()))?;
        let mut received = Self::default();
        match received.apply(whole)? {
            Some(_) => Ok(received),
            None => Err(ReceiveError::Stored("it has no state".to_owned())),
        }
    }

    /// What is in force.
    pub fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }

    /// The `digest` of the next request. Forgets the pages of a change whose stream has ended.
    pub fn digest(&mut self) -> Vec<u8> {
        self.change = Change::default();
        self.held.as_ref().filter(|_| !self.is_damaged).map(|held| held.items.digest().into()).unwrap_or_default()
    }

    /// Takes a page. With the last page of a change, what is in force from now on.
    ///
    /// # Errors
    /// Why it is not taken: ask again, with [`Self::digest`].
    pub fn apply(&mut self, page: pb::WatchFabricResponse) -> Result<Option<Held>, ReceiveError> {
        let state = page.state.clone();
        let taken = self.change.take(page).and_then(|()| match state {
            Some(state) => std::mem::take(&mut self.change).carry_out(self.held.as_ref(), &state).map(Some),
            None => Ok(None),
        });
        match &taken {
            Ok(Some(held)) => (self.held, self.is_damaged) = (Some(held.clone()), false),
            Ok(None) => {}
            Err(_) => (self.change, self.is_damaged) = (Change::default(), true),
        }
        taken
    }
}

impl Change {
    fn take(&mut self, page: pb::WatchFabricResponse) -> Result<(), ReceiveError> {
        if page.reset {
            *self = Self { reset: true, ..Self::default() };
        }
        let id = |field: &str, number: u32| NodeId::new(field, number.into());
        for (i, item) in page.nodes.into_iter().enumerate() {
            let node = within(format_args!("nodes[{i}]"), id("node", item.node))?;
            let content = pb::FabricNode::decode(item.content.clone())
                .map_err(|e| FieldError::new("content", e.to_string()))
                .and_then(FabricNode::try_from);
            let content = within(format_args!("nodes[{i}]"), content)?;
            self.size.add(item.content.len(), &content);
            self.size.check()?;
            self.nodes.insert(node, Some((Item::new(item.content), content)));
        }
        for (i, number) in page.gone.into_iter().enumerate() {
            self.nodes.insert(id(&format!("gone[{i}]"), number)?, None);
        }
        // As many may be gone as are new.
        check("nodes", self.nodes.len(), 2 * MAX_NODES)
    }

    fn carry_out(self, before: Option<&Held>, state: &pb::FabricState) -> Result<Held, ReceiveError> {
        let (announced, sender) = within("state", state.try_into())?;
        let sender = Arc::new(sender);
        let (items, fabric) = match before {
            Some(before) if !self.reset && self.nodes.is_empty() => {
                (Arc::clone(&before.items), Arc::clone(&before.fabric))
            }
            before => {
                let before = before.filter(|_| !self.reset);
                let mut items = before.map(|held| held.items.nodes().clone()).unwrap_or_default();
                let mut fabric = before.map(|held| HostFabric::clone(&held.fabric)).unwrap_or_default();
                for (id, node) in self.nodes {
                    match node {
                        Some((item, node)) => {
                            items.insert(id, item);
                            fabric.nodes.insert(id, node);
                        }
                        None => {
                            items.remove(&id);
                            fabric.nodes.remove(&id);
                        }
                    }
                }
                check_size(&items, &fabric)?;
                (Arc::new(FabricItems::new(items)), Arc::new(fabric))
            }
        };
        let computed = items.digest();
        if computed != announced {
            return Err(ReceiveError::DigestMismatch { computed, announced });
        }
        Ok(Held { items, fabric, sender })
    }
}

fn check_size(items: &BTreeMap<NodeId, Item>, fabric: &HostFabric) -> Result<(), ReceiveError> {
    check("nodes", fabric.nodes.len(), MAX_NODES)?;
    let mut size = Size::default();
    items.values().zip(fabric.nodes.values()).for_each(|(item, node)| size.add(item.octets(), node));
    size.check()
}

fn check(what: &'static str, number: usize, most: usize) -> Result<(), ReceiveError> {
    if number > most { Err(ReceiveError::TooLarge { what }) } else { Ok(()) }
}
