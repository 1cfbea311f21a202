// SPDX-License-Identifier: Apache-2.0
//! The client library with which an RDMA application joins a group instead of exchanging QPNs with its peers.
//!
//! The application creates an RC queue pair, joins a group with its QPN, and connects the queue pair to the returned
//! parameters: one remote address, one remote QPN, one first PSN, like those of a single peer. The library never
//! touches the queue pair.
//!
//! ```no_run
//! use canopy_host::{Client, Event, JoinOptions};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), canopy_host::Error> {
//! let client = Client::connect("/run/canopy/host.sock")?;
//! let member = client.join(JoinOptions::source("weights", "s1", 0x12))?;
//! let c = member.connection();
//! println!("RTR/RTS: dgid {}, QPN {}, PSN {}, MTU {}", c.proxy_address, c.designated_qpn, c.start_psn, c.path_mtu);
//! member.wait_ready(2, Duration::from_secs(30))?;
//! for event in member.events() {
//!     if let Event::Evicted { host, reason } = event? {
//!         println!("{host} holds nothing that it did not acknowledge: {reason}");
//!     }
//! }
//! member.leave()
//! # }
//! ```
//!
//! This is the blocking API; [`aio`] is the same for applications with a tokio runtime. A call to the blocking API
//! inside a runtime panics, as `block_on` does there.
//!
//! Call [`Membership::leave`] when you are done. **A membership has a lease** unless [`JoinOptions::without_lease`] is called: when the
//! process ends, however it ends, or the last of its [`Client`], [`Membership`] and [`Events`] is dropped, the host leaves within a
//! second. A restart of the agent ends no lease. A child after `fork` shares the connection and with it the lease; after `exec` it does
//! not. Without a lease a process that exits does not leave: the group's stall policy handles a receiver that acknowledges nothing.
//!
//! Where the agent knows its callers by the tokens of their pods (`host_socket.kubernetes`), every call sends the token in the file that
//! `CANOPY_TOKEN_FILE` names, or [`ConnectOptions::token_file`].
//!
//! The agent and its controller may restart at any time: calls retry until their timeout, and [`Events`] report
//! [`Event::Disconnected`] and [`Event::Reconnected`]. Forwarding continues meanwhile.

pub mod aio;
mod blocking;
mod call;
mod error;
mod event;
mod options;
pub mod pacing;
mod token;

pub use blocking::{Client, Events, Membership};
pub use canopy_model::member::{Connection, MemoryRegion, Role};
pub use error::Error;
pub use event::Event;
pub use options::{ConnectOptions, DEFAULT_SOCKET, JoinOptions, Ready};
pub use token::PodToken;
