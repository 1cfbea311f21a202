// SPDX-License-Identifier: Apache-2.0
//! What `canopy-pacer` says of a host's queue pairs: how each is to send, and every change of it.
//!
//! For RDMA software that paces by itself, or whose NIC does: it registers its queue pairs and follows the [`Actions`].
//!
//! ```no_run
//! use canopy_host::pacing::{Client, OpenOptions, DEFAULT_SOCKET};
//!
//! # fn main() -> Result<(), canopy_host::Error> {
//! let client = Client::connect(DEFAULT_SOCKET)?;
//! client.open(OpenOptions::new(0x12, "fd00::9".parse().unwrap(), 0x34))?;
//! for action in client.actions() {
//!     let action = action?;
//!     println!("QP {} may send {} bit/s", action.qp.qpn, action.qp.rate_bps);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This is the blocking API; [`aio`] is the same for those who have a tokio runtime.

pub mod aio;
mod blocking;
mod wire;

use std::net::Ipv6Addr;
use std::time::Duration;

pub use blocking::{Actions, Client};

/// Where a daemon that is the only one of its machine serves applications.
pub const DEFAULT_SOCKET: &str = "/run/canopy/pacer.sock";

/// A queue pair to be paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Local QPN, 2..=0xFFFFFE.
    pub qpn: u32,
    /// Who answers it: a receiver, or a group's Proxy Address.
    pub peer: Ipv6Addr,
    /// Destination QP of its packets, 2..=0xFFFFFE.
    pub dest_qpn: u32,
    /// Rate that nothing exceeds, in bits per second; the daemon's when absent.
    pub line_rate_bps: Option<u64>,
    /// Rate that no reduction goes below, in bits per second (1..=line rate); the daemon's when absent.
    pub min_rate_bps: Option<u64>,
    /// RTT of its path; measured when absent, and until then the daemon's.
    pub rtt: Option<Duration>,
}

impl OpenOptions {
    /// With the daemon's rates and RTT.
    pub fn new(qpn: u32, peer: Ipv6Addr, dest_qpn: u32) -> Self {
        Self { qpn, peer, dest_qpn, line_rate_bps: None, min_rate_bps: None, rtt: None }
    }
}

/// How a queue pair became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// An application or an operator said so.
    Registered,
    /// From its packets.
    Learned,
}

/// Whose cap a rate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Blamed {
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
    /// Who answers it.
    pub peer: Ipv6Addr,
    /// Destination QP of its packets.
    pub dest_qpn: u32,
    /// How it became known.
    pub origin: Origin,
    /// What it may send now, in bits per second.
    pub rate_bps: u64,
    /// Rate that nothing exceeds, in bits per second.
    pub line_rate_bps: u64,
    /// Rate that no reduction goes below, in bits per second.
    pub min_rate_bps: u64,
    /// What is left of its pause: it sends nothing for so long.
    pub pause_left: Option<Duration>,
    /// Whose cap the rate is; nobody's at line rate.
    pub blamed: Option<Blamed>,
    /// RTT of its path.
    pub rtt: Duration,
    /// The RTT was measured; otherwise it was given.
    pub rtt_is_measured: bool,
}

/// Who paces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Means {
    /// The kernel, by earliest departure times and fq.
    Edt,
    /// The kernel, by HTB classes.
    Htb,
    /// Whoever follows the actions.
    Nobody,
}

/// Why a queue pair is to send as it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// How it stands as the watch begins.
    State,
    /// It became live.
    Open,
    /// It is live no more.
    Close,
    /// Its RTT or its line rate changed.
    Adjust,
    /// A node said that there is congestion.
    Notify,
    /// A node asked for less.
    Reduce,
    /// A node asked for nothing at all for some time.
    Pause,
    /// A node said that congestion has subsided.
    Resume,
    /// A CNP.
    Cnp,
    /// A pause came to its end.
    PauseEnd,
    /// There was no news for two RTTs.
    Increase,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Why.
    pub cause: Cause,
    /// How the queue pair is to send from now on.
    pub qp: Qp,
    /// When the kernel saw the notification, in nanoseconds of `CLOCK_MONOTONIC`; `None` where there was none.
    pub received_ns: Option<u64>,
    /// When it paced accordingly, in nanoseconds of `CLOCK_MONOTONIC`.
    pub applied_ns: u64,
    /// The same moment, in nanoseconds since 1970.
    pub applied_unix_ns: u64,
    /// Changes before this one that were lost because this client was too slow.
    pub missed: u64,
}

/// The daemon and its queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Live queue pairs by QPN.
    pub qps: Vec<Qp>,
    /// Who paces.
    pub pacing: Means,
    /// The interface.
    pub interface: String,
    /// Its rate in bits per second.
    pub line_rate_bps: u64,
    /// Nodes whose instructions are accepted.
    pub nodes: u32,
    /// Notifications by format.
    pub received: Vec<(String, u64)>,
    /// What became of them, and of the daemon's own work, by reason.
    pub outcomes: Vec<(String, u64)>,
    /// Changes of queue pairs, by cause.
    pub actions: Vec<(String, u64)>,
    /// When this was answered, in nanoseconds of `CLOCK_MONOTONIC`.
    pub monotonic_ns: u64,
}
