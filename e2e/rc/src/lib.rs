// SPDX-License-Identifier: Apache-2.0
//! A software RoCEv2 Reliable Connection endpoint on a raw socket: the lab's test instrument.
//!
//! On the wire it behaves like an unmodified RNIC on the same host interface, but it counts what an RNIC hides: false
//! acknowledgements, ghosts, packets from the wrong address, damaged packets.
//!
//! Parts, from the inside out:
//!
//! - pure: [`psn`], [`transfer`] (a stream as packets), [`wire`] (a datagram as octets), [`window`], and the two state
//!   machines [`requester`] and [`responder`], which take packets and `now`;
//! - thin: [`connection`] (the two ends), [`content`] (what is sent), [`socket`] (batches through the kernel),
//!   [`membership`] (joins a group at the controller);
//! - the two programs: [`send`] and [`receive`], one thread each, and [`cli`].
//!
//! The data path is one plain thread per program: poll(2), recvmmsg(2), the state machine, sendmmsg(2). A separate
//! tokio runtime calls the controller, before and after.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cli;
pub mod connection;
pub mod content;
pub mod membership;
pub mod psn;
pub mod receive;
pub mod requester;
pub mod responder;
pub mod send;
pub mod socket;
pub mod transfer;
pub mod units;
pub mod window;
pub mod wire;
