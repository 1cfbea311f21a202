// SPDX-License-Identifier: Apache-2.0
//! The actor with a store, without a network. One program, since each links the whole controller.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assessing;
mod change_sets;
mod commit;
mod deletions;
mod drains;
mod durability;
mod events;
mod history;
mod joins;
mod once;
mod records;
mod restarts;
mod support;
mod telemetry;
mod thresholds;
