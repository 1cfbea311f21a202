// SPDX-License-Identifier: Apache-2.0
//! What a path consists of.

use canopy_agent_core::congestion::Limits;

/// What a source listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hears {
    /// Nodes and CNPs.
    Everything,
    /// CNPs: it never heard of Long-haul CNP, and discards ICMPv6 of that type.
    Cnps,
    /// Nothing.
    Nothing,
}

impl SourceSpec {
    /// One QP that hears everything, of a hundredth of its rate at least.
    pub(crate) fn new(line_bps: u64, rtt_ns: u64) -> Self {
        Self { hears: Hears::Everything, qps: 1, line_bps, min_bps: line_bps / 100, rtt_ns, dip_ns: (0, 0) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceSpec {
    pub(crate) hears: Hears,
    pub(crate) qps: usize,
    /// Of each QP.
    pub(crate) line_bps: u64,
    pub(crate) min_bps: u64,
    /// RTT_est of the path.
    pub(crate) rtt_ns: u64,
    /// From and until when it has only 75 % of what it may to send.
    pub(crate) dip_ns: (u64, u64),
}

/// What a node on the path can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Marks and complains.
    LongHaul,
    /// Marks.
    Ecn,
    /// Neither.
    Plain,
}

/// Non-RDMA traffic through one node's port only: a rate between two times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) rate_bps: u64,
    pub(crate) from_ns: u64,
    pub(crate) until_ns: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct HopSpec {
    pub(crate) kind: Kind,
    pub(crate) rate_bps: u64,
    pub(crate) limits: Limits,
    pub(crate) buffer_bytes: u64,
    pub(crate) bursts: Vec<Burst>,
    /// When within a millisecond it looks.
    pub(crate) phase_ns: u64,
    /// Nothing that it says arrives.
    pub(crate) unheard: bool,
}

impl HopSpec {
    /// K_max = R * RTT / 8 octets, K_min half of it, a buffer of four times K_max.
    pub(crate) fn new(rate_bps: u64, rtt_ns: u64) -> Self {
        let k_max = (u128::from(rate_bps) * u128::from(rtt_ns) / 8_000_000_000) as u64;
        let limits = Limits::new(k_max / 2, k_max, rtt_ns);
        let (kind, bursts) = (Kind::LongHaul, Vec::new());
        Self { kind, rate_bps, limits, buffer_bytes: 4 * k_max, bursts, phase_ns: 0, unheard: false }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PathSpec {
    pub(crate) sources: Vec<SourceSpec>,
    pub(crate) hops: Vec<HopSpec>,
    /// One way, from the sources to the first node, from node to node, and to the receiver: one more than nodes.
    pub(crate) delays_ns: Vec<u64>,
    pub(crate) cnp_interval_ns: u64,
}

impl PathSpec {
    /// Propagation there and back.
    pub(crate) fn rtt_ns(&self) -> u64 {
        2 * self.delays_ns.iter().sum::<u64>()
    }
}
