// SPDX-License-Identifier: Apache-2.0
//! Pure part of a source host: inputs and the time come in, commands come out.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod pacing;
pub mod probing;
pub mod steering;
