// SPDX-License-Identifier: Apache-2.0
//! Paths and programs by the crate's public interface.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod counting;
mod decoding;
mod illustration;
mod net;
mod oracle;
mod scapy;
