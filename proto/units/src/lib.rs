// SPDX-License-Identifier: Apache-2.0
//! Quantities with their units. A span of time is a [`std::time::Duration`]; the rest is here:
//!
//! - [`Octets`]: a size or a count of octets.
//! - [`Rate`]: bits per second.
//! - [`Monotonic`], [`UnixTime`]: instants of the two clocks; they cannot be mixed.
//! - [`UnwrappedPsn`]: a packet sequence number that does not wrap.
//!
//! Every operation saturates and none panics. Numbers with their unit in the name (`rate_bps`, `rtt_ns`) are for edges only: protocol
//! buffers, JSON, BPF maps, the C ABI, metrics.

#[cfg(feature = "serde")]
pub mod numbers;

mod octets;
mod psn;
mod rate;
mod time;

pub use octets::Octets;
pub use psn::UnwrappedPsn;
pub use rate::{NotARate, Rate};
pub use time::{Monotonic, UnixTime, nanos};
