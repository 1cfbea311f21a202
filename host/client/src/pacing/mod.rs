// SPDX-License-Identifier: Apache-2.0
//! Pacing of a host's queue pairs by `canopy-pacer`: the rate of each, and every change of it.
//!
//! For RDMA software, or a NIC, that does its own pacing: it registers its queue pairs and applies the [`Actions`].
//!
//! ```no_run
//! use canopy_host::pacing::{Client, OpenOptions, DEFAULT_SOCKET};
//!
//! # fn main() -> Result<(), canopy_host::Error> {
//! let client = Client::connect(DEFAULT_SOCKET)?;
//! client.open(OpenOptions::new(0x12, "fd00::9".parse().unwrap(), 0x34))?;
//! for action in client.actions() {
//!     let action = action?;
//!     println!("QP {} may send {} bit/s", action.qp.qpn, action.qp.rate.bps());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This is the blocking API; [`aio`] is the same for applications with a tokio runtime.

pub mod aio;
mod blocking;
mod wire;

use std::net::Ipv6Addr;
use std::time::Duration;

pub use blocking::{Actions, Client};
pub use canopy_units::{Monotonic, Rate, UnixTime};

/// Default socket of a daemon that is the only one of its machine.
pub const DEFAULT_SOCKET: &str = "/run/canopy/pacer.sock";

/// A queue pair to be paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Local QPN, 2..=0xFFFFFE.
    pub qpn: u32,
    /// Remote address of the queue pair: a receiver, or a group's Proxy Address.
    pub peer: Ipv6Addr,
    /// Destination QP of its packets, 2..=0xFFFFFE.
    pub dest_qpn: u32,
    /// Maximum rate; the daemon's default if absent.
    pub line_rate: Option<Rate>,
    /// Minimum rate, below which no reduction goes, 1 bit/s ..= line rate; the daemon's default if absent.
    pub min_rate: Option<Rate>,
    /// RTT of its path; measured if absent, and until then the daemon's default.
    pub rtt: Option<Duration>,
}

impl OpenOptions {
    /// With the daemon's rates and RTT.
    pub fn new(qpn: u32, peer: Ipv6Addr, dest_qpn: u32) -> Self {
        Self { qpn, peer, dest_qpn, line_rate: None, min_rate: None, rtt: None }
    }
}

/// How a queue pair became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Registered by an application or an operator.
    Registered,
    /// Learned from its packets.
    Learned,
    /// A source of a group, from the agent of the host.
    Agent,
}

/// The sender whose rate limit applies to a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedBy {
    /// The queue pair's peer, by its CNPs.
    Peer(Ipv6Addr),
    /// A node on the path.
    Node(Ipv6Addr),
}

/// A live queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qp {
    /// Local QPN.
    pub qpn: u32,
    /// Remote address of the queue pair.
    pub peer: Ipv6Addr,
    /// Destination QP of its packets.
    pub dest_qpn: u32,
    /// How it became known.
    pub origin: Origin,
    /// Current rate.
    pub rate: Rate,
    /// Maximum rate.
    pub line_rate: Rate,
    /// Minimum rate, below which no reduction goes.
    pub min_rate: Rate,
    /// Remaining time of a pause, during which it sends nothing.
    pub pause_left: Option<Duration>,
    /// The sender whose limit applies; `None` at line rate.
    pub limited_by: Option<LimitedBy>,
    /// RTT of its path.
    pub rtt: Duration,
    /// True if the RTT was measured, false if it was configured.
    pub rtt_is_measured: bool,
}

/// The pacing method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Means {
    /// The kernel, by earliest departure times and fq.
    Edt,
    /// The kernel, by HTB classes.
    Htb,
    /// None: only the applications that follow the actions.
    None,
}

/// The cause of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The current state when the watch starts.
    State,
    /// It became live.
    Open,
    /// It ended.
    Close,
    /// Its RTT or its line rate changed.
    Adjust,
    /// A node reported congestion.
    Notify,
    /// A node requested a lower rate.
    Reduce,
    /// A node requested a pause.
    Pause,
    /// A node reported that congestion has subsided.
    Resume,
    /// A CNP.
    Cnp,
    /// A pause ended.
    PauseEnd,
    /// No notification for two RTTs.
    Increase,
}

/// A change of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// The cause.
    pub cause: Cause,
    /// The state of the queue pair from now on.
    pub qp: Qp,
    /// When the kernel received the notification; `None` if there was none.
    pub received_at: Option<Monotonic>,
    /// When the new rate was applied.
    pub applied_at: Monotonic,
    /// The same time of the wall clock.
    pub applied_unix: UnixTime,
    /// Changes before this one that were dropped because this client was too slow.
    pub missed: u64,
}

/// The daemon and its queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Live queue pairs by QPN.
    pub qps: Vec<Qp>,
    /// The pacing method.
    pub pacing: Means,
    /// The interface.
    pub interface: String,
    /// Its rate.
    pub line_rate: Rate,
    /// Nodes whose Long-haul CNPs are accepted.
    pub nodes: u32,
    /// Notifications by format.
    pub received: Vec<(String, u64)>,
    /// Outcomes of the notifications, and of the daemon's own work, by reason.
    pub outcomes: Vec<(String, u64)>,
    /// Changes of queue pairs, by cause.
    pub actions: Vec<(String, u64)>,
    /// Time of this answer.
    pub at: Monotonic,
}
