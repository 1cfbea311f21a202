// SPDX-License-Identifier: Apache-2.0
//! Bytes on the wire: the headers that Canopy reads and writes, and the arithmetic of the RoCEv2 ICRC.
//!
//! No behaviour: no clock, no socket, no state. Every header is one file, with its diagram above it, as
//!
//! - a **view** `XxxView<'a>`, which checks lengths once in `parse` and then reads fields in place, and
//! - a **value** `Xxx`, with `parse` (octets to value), `emit` (value to octets) and `LEN`.
//!
//! `parse` accepts a slice that is longer than the header and reads only its front; a view returns what follows as
//! `payload()`. `emit` writes the front of the buffer and leaves the rest unchanged. Every bit of a header is in its
//! value, so `emit(parse(x)) == x`, except where a specification requires a reserved field to be ignored on reception
//! ([`end_mt`], [`long_haul_cnp`], [`stamp`]) or for padding ([`srh`]).
//!
//! The parts:
//!
//! | module | header | specification |
//! |---|---|---|
//! | [`ipv6`] | IPv6 | RFC 8200 section 3 |
//! | [`srh`], [`end_mt`] | Segment Routing Header and its TLVs | RFC 8754 section 2, draft-li-spring-rdma-multicast-over-srv6 section 7 |
//! | [`udp`] | UDP | RFC 768 |
//! | [`bth`], [`aeth`], [`reth`], [`immdt`], [`ieth`], [`atomic_eth`] | RDMA transport headers | IBTA volume 1, chapter 9 |
//! | [`cnp`] | body of a Congestion Notification Packet | IBTA annex A17.9.3 |
//! | [`icmpv6`] | ICMPv6 | RFC 4443 section 2 |
//! | [`long_haul_cnp`] | Long-haul CNP in ICMPv6 and in RoCEv2 | draft-tian-ccwg-long-haul-cnp section 6 |
//! | [`stamp`] | STAMP test packets | RFC 8762 section 4 |
//! | [`icrc`] | Invariant CRC, whole and by difference | IBTA annex A17.3.3 |
//! | [`frame`] | one whole RoCEv2-over-IPv6 packet | IBTA annex A17 |
//!
//! The crate is `no_std`. Feature `alloc` (default) adds values that own lists; feature `std` (default) adds conversions
//! of errors into `std::io::Error`.
#![no_std]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

#[cfg(feature = "alloc")]
extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod aeth;
pub mod atomic_eth;
pub mod bth;
mod checksum;
pub mod cnp;
pub mod end_mt;
pub mod error;
pub mod frame;
pub mod icmpv6;
pub mod icrc;
pub mod ieth;
pub mod immdt;
pub mod ipv6;
pub mod long_haul_cnp;
pub mod reth;
pub mod srh;
pub mod stamp;
pub mod udp;
mod wire;

pub use error::{EmitError, ParseError, Problem};
