// SPDX-License-Identifier: Apache-2.0
//! What one Watch stream sends: pages of a snapshot, the empty delta, deltas.

use std::sync::Arc;

use canopy_control::pb::{WatchRequest, WatchResponse};
use canopy_control::{Position, SentSpec, SpecHead};
use canopy_controller_core::desired::ProgramTimes;
use canopy_controller_core::{DesiredNode, NodePrograms};
use canopy_model::capture::CaptureOrder;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{Generation, GroupId};
use canopy_model::log_level::LogOrder;
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

/// What a node was sent.
pub(crate) struct Content {
    sent: SentSpec,
    groups: ProgramTimes,
}

impl Content {
    /// Hashing many programs takes long: off the async threads. `programs`: all of the node.
    pub(crate) async fn of(desired: Arc<DesiredNode>, programs: NodePrograms) -> Result<Self, JoinError> {
        let make =
            move || Self { sent: SentSpec::new(head(&desired), programs.after(None)), groups: desired.groups.clone() };
        tokio::task::spawn_blocking(make).await
    }

    /// The groups whose programs it has.
    pub(crate) fn groups(&self) -> &ProgramTimes {
        &self.groups
    }

    /// Term, generation and digest.
    pub(crate) fn name(&self) -> (u64, Generation, SpecDigest) {
        self.sent.name()
    }

    /// The empty delta for a node that holds this content, whatever it calls it; else the snapshot, or the rest of one that broke
    /// off, of which each page is made when it is sent. `programs`: all of the node, of the same state.
    pub(crate) fn first_responses(
        &self,
        known: &Known,
        programs: &NodePrograms,
    ) -> impl Iterator<Item = WatchResponse> + Send + use<> {
        let (_, _, digest) = self.name();
        let is_known = known.digest == digest;
        let here = |(of, position): &(SpecDigest, Position)| (*of == digest).then_some(*position);
        let position = known.resume.as_ref().and_then(here).unwrap_or_default();
        let pages = (!is_known).then(|| self.snapshot(position, programs));
        is_known.then(|| self.confirmation()).into_iter().chain(pages.into_iter().flatten())
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
        self.sent.confirmation()
    }

    /// Advances to `next`; returns the delta that updates a node to it, unless it is too long for one message. `programs`: those that differ.
    pub(crate) fn advance(&mut self, next: &DesiredNode, programs: &NodePrograms) -> Option<WatchResponse> {
        let gone = next.groups.changed_since(&self.groups).filter(|(_, has_one)| !has_one).map(|(id, _)| (id, None));
        let changes = gone.chain(programs.after(None).map(|(id, program)| (id, Some(program))));
        let delta = self.sent.advance(head(next), changes);
        self.groups = next.groups.clone();
        delta
    }

    /// The snapshot from `position` on. `programs`: all of the node, of the same state.
    pub(crate) fn snapshot(
        &self,
        position: Position,
        programs: &NodePrograms,
    ) -> impl Iterator<Item = WatchResponse> + Send + use<> {
        self.sent.snapshot(position, programs.after(position.after_group))
    }
}

fn head(desired: &DesiredNode) -> SpecHead {
    SpecHead { term: desired.term, generation: desired.generation, base: Arc::clone(&desired.base) }
}
