// SPDX-License-Identifier: Apache-2.0
//! What a host composes path programs from, as it travels from the controller to the agent of a host, and from there to `canopy-steer`.
//!
//! - `node`: one node, whose links and hosts travel as runs.
//! - `items`: all nodes as octets with their digest, and the pages that turn one such set into another.
//! - `state`: what the last page of a change has.
//! - `received`: the receiving side, which checks what comes out.

mod items;
mod node;
mod received;
mod state;
#[cfg(test)]
mod tests;

pub use items::{FabricDigest, FabricItems, FabricPages};
pub use received::{Held, ReceiveError, Received};
