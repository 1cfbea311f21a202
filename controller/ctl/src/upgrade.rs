// SPDX-License-Identifier: Apache-2.0
//! What is upgraded in which order: [`release`] knows which versions work together, [`batches`] which nodes can be away at the same time, [`plan`]
//! makes the order of both. All of it is pure.

pub mod batches;
pub mod plan;
pub mod release;
