// SPDX-License-Identifier: Apache-2.0
//! Configuration of a path.

use canopy_agent_core::congestion::Limits;
use canopy_units::Octets;

use crate::fluid::span;

/// Messages that a source accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// Long-haul CNPs and CNPs.
    Everything,
    /// CNPs only: it does not support Long-haul CNP and discards ICMPv6 of that type.
    Cnps,
    /// Nothing.
    Nothing,
}

impl SourceSpec {
    /// One QP that accepts everything; its minimum rate is a hundredth of the line rate.
    pub(crate) fn new(line_bps: u64, rtt_ns: u64) -> Self {
        Self { accepts: Accepts::Everything, qps: 1, line_bps, min_bps: line_bps / 100, rtt_ns, dip_ns: (0, 0) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceSpec {
    pub(crate) accepts: Accepts,
    pub(crate) qps: usize,
    /// Of each QP.
    pub(crate) line_bps: u64,
    pub(crate) min_bps: u64,
    /// RTT_est of the path.
    pub(crate) rtt_ns: u64,
    /// Start and end of a time in which it has data for only 75 % of its rate.
    pub(crate) dip_ns: (u64, u64),
}

/// Capabilities of a node on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Marks packets and sends Long-haul CNPs.
    LongHaul,
    /// Marks packets.
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
    /// Offset of its samples within a millisecond.
    pub(crate) phase_ns: u64,
    /// Its Long-haul CNPs are lost.
    pub(crate) cnps_lost: bool,
}

impl HopSpec {
    /// K_max = R * RTT / 8 octets, K_min half of it, a buffer of four times K_max.
    pub(crate) fn new(rate_bps: u64, rtt_ns: u64) -> Self {
        let k_max = (u128::from(rate_bps) * u128::from(rtt_ns) / 8_000_000_000) as u64;
        let limits = Limits::new(Octets(k_max / 2), Octets(k_max), span(rtt_ns));
        let (kind, bursts) = (Kind::LongHaul, Vec::new());
        Self { kind, rate_bps, limits, buffer_bytes: 4 * k_max, bursts, phase_ns: 0, cnps_lost: false }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct PathSpec {
    pub(crate) sources: Vec<SourceSpec>,
    pub(crate) hops: Vec<HopSpec>,
    /// One-way delays from the sources to the first node, between nodes, and to the receiver: one more than nodes.
    pub(crate) delays_ns: Vec<u64>,
    pub(crate) cnp_interval_ns: u64,
}

impl PathSpec {
    /// Round-trip propagation delay.
    pub(crate) fn rtt_ns(&self) -> u64 {
        2 * self.delays_ns.iter().sum::<u64>()
    }
}
