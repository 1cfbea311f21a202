// SPDX-License-Identifier: Apache-2.0
//! Model checking, within small bounds, of a group of one root and two edges, each an [`Aggregation`] with the rules of the
//! agents' kernel programs, between a go-back-N source and RC responders.
//!
//! PSNs have three or four bits, so that a few packets wrap. MSNs and credits are constant.
//! `CANOPY_DEEP=1` enlarges the bounds.
//!
//! [`Aggregation`]: canopy_reference::aggregate::Aggregation

mod endpoints;
mod events;
mod limits;
mod membership;
mod network;
mod properties;
mod recovery;
mod scenario;
mod state;
mod step;
