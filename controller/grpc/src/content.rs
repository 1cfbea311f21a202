// SPDX-License-Identifier: Apache-2.0
//! What one Watch stream sends: pages of a snapshot, the empty delta, deltas.

use std::sync::Arc;

use canopy_control::items::MAX_PAGE_OCTETS;
use canopy_control::pb::{WatchRequest, WatchResponse};
use canopy_control::{Items, Position, delta_response, page_response};
use canopy_model::capture::CaptureOrder;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::log_level::LogOrder;
use canopy_model::node_spec::NodeSpec;
use canopy_model::retirement::CleanUpOrder;
use tokio::task::JoinError;
use tonic::Status;

use crate::error;

/// What an agent holds.
pub(crate) struct Known {
    pub(crate) term: u64,
    pub(crate) generation: Generation,
    /// All zeros when it holds nothing.
    pub(crate) digest: SpecDigest,
    /// Content of an incomplete snapshot, and how far.
    resume: Option<(SpecDigest, Position)>,
}

impl Known {
    /// # Errors
    /// Which field of the request is wrong.
    pub(crate) fn of(request: &WatchRequest) -> Result<Self, Status> {
        let resume = request.resume.as_ref().map(|at| {
            let digest = SpecDigest::from_field("resume.digest", &at.digest)?;
            let after_group = match at.after_group {
                0 => None,
                id => Some(GroupId::new("resume.after_group", id.into())?),
            };
            Ok((digest, Position { base_octets: at.base_octets.try_into().unwrap_or(usize::MAX), after_group }))
        });
        Ok(Self {
            term: request.known_term,
            generation: request.known_generation,
            digest: SpecDigest::from_field("known_digest", &request.known_digest).map_err(error::field)?,
            resume: resume.transpose().map_err(error::field)?,
        })
    }
}

/// A node's spec and its encoded items.
pub(crate) struct Content {
    spec: Arc<NodeSpec>,
    items: Items,
}

impl Content {
    /// Encoding a large spec takes long: off the async threads.
    pub(crate) async fn encode(spec: Arc<NodeSpec>) -> Result<Self, JoinError> {
        tokio::task::spawn_blocking(move || Self { items: Items::encode(&spec), spec }).await
    }

    /// Term, generation and digest.
    pub(crate) fn name(&self) -> (u64, Generation, SpecDigest) {
        (self.spec.term, self.spec.generation, self.items.digest())
    }

    /// The empty delta for a node that holds this content, whatever it calls it; else the snapshot, or the rest of one that broke
    /// off.
    pub(crate) fn first_responses(&self, known: &Known) -> Vec<WatchResponse> {
        if known.digest == self.items.digest() {
            return vec![self.confirmation()];
        }
        let here = |(digest, position): &(SpecDigest, Position)| (*digest == self.items.digest()).then_some(*position);
        self.snapshot(known.resume.as_ref().and_then(here).unwrap_or_default())
    }

    /// The empty delta with a packet to capture: a node that does not know captures takes it as a confirmation.
    pub(crate) fn with_capture(&self, order: &CaptureOrder) -> WatchResponse {
        WatchResponse { capture: Some(order.into()), ..self.confirmation() }
    }

    /// The same with a filter of log lines.
    pub(crate) fn with_log_level(&self, order: &LogOrder) -> WatchResponse {
        WatchResponse { log_level: Some(order.into()), ..self.confirmation() }
    }

    /// The order to clean up, with an empty delta.
    pub(crate) fn with_clean_up(&self, order: &CleanUpOrder) -> WatchResponse {
        WatchResponse { clean_up: Some(order.into()), ..self.confirmation() }
    }

    fn confirmation(&self) -> WatchResponse {
        delta_response((self.spec.term, self.spec.generation), &self.items, &self.items)
    }

    /// Advances to `next`; returns the delta or the snapshot that updates a node to it.
    pub(crate) fn advance(&mut self, next: Arc<NodeSpec>) -> Vec<WatchResponse> {
        let before = self.items.clone();
        self.items.advance(&self.spec, &next);
        self.spec = next;
        let delta = delta_response((self.spec.term, self.spec.generation), &before, &self.items);
        if prost::Message::encoded_len(&delta) > MAX_PAGE_OCTETS {
            return self.snapshot(Position::default());
        }
        vec![delta]
    }

    /// Pages share the octets of the items.
    fn snapshot(&self, from: Position) -> Vec<WatchResponse> {
        self.items.pages(from).map(|page| page_response(self.name(), page)).collect()
    }
}
