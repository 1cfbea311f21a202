// SPDX-License-Identifier: Apache-2.0
//! Whether the host of a stalled receiver answers: at most three ICMPv6 Echo Requests for one stall, which neighbour discovery precedes
//! by itself. Pure: stalls, answers and the time come in.
//!
//! - [`Reach`]: which hosts are probed for which stalls, and when: at most [`MAX_HOSTS`] wait, and one starts every [`APART`].
//! - [`HostProbe`]: the requests to one host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::net::Ipv6Addr;
use std::pin::Pin;
use std::time::Duration;

use canopy_model::ids::GroupId;
use canopy_model::node_spec::{BranchKind, NodeSpec, Peer};
use canopy_model::reach::{EchoTally, HostReach};
use canopy_units::Monotonic;

#[cfg(test)]
mod tests;

/// Octets of a small request, from its IPv6 header on.
pub const SMALL: u16 = 64;
/// Time for an answer.
pub const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// Shortest time between the first requests to two hosts: 30 requests a second for a node.
pub const APART: Duration = Duration::from_millis(100);
/// Hosts that wait or are being probed, at most: beyond them, a stall gets no evidence.
pub const MAX_HOSTS: usize = 256;
/// Stalls that are remembered, at most.
pub const MAX_STALLS: usize = 16_384;

/// A branch that stalls its group.
pub type StalledBranch = (GroupId, Ipv6Addr);

/// What to probe, and from where.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostTarget {
    /// Interface towards the host.
    pub interface: String,
    /// The gateway address of this node on it.
    pub own: Ipv6Addr,
    /// The receiver's address.
    pub host: Ipv6Addr,
    /// Octets of a large request, from its IPv6 header on; more than [`SMALL`].
    pub large: u16,
}

impl HostTarget {
    /// The host of a receiver of this node. `None` for a child node, a branch that no longer exists, and where the size of data packets is
    /// not known.
    pub fn of(spec: &NodeSpec, (group, address): StalledBranch) -> Option<Self> {
        let program = spec.groups.get(&group)?;
        let is_receiver = |kind: &BranchKind| matches!(kind, BranchKind::Receiver { .. });
        let branch = program.branches.iter().find(|b| b.address == address && is_receiver(&b.kind))?;
        let port = spec.base.ports.iter().find(|p| p.index == branch.port)?;
        let Peer::Host { gateway, .. } = port.peer else { return None };
        let large = u16::try_from(program.largest_packet).ok().filter(|large| *large > SMALL)?;
        Some(Self { interface: port.name.clone(), own: gateway, host: address, large })
    }
}

/// Sends and receives for [`HostProbe`], as the agent's event loop uses it.
pub trait HostProber: Send {
    /// Starts to probe a host.
    fn probe(&mut self, target: HostTarget);

    /// Completes when a host that was probed has answered, or had its time; `None` where nothing could be sent. Cancel safe.
    fn found(&mut self) -> Pin<Box<dyn Future<Output = (HostTarget, Option<HostReach>)> + Send + '_>>;
}

/// Probes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHostProber;

impl HostProber for NoHostProber {
    fn probe(&mut self, _target: HostTarget) {}

    fn found(&mut self) -> Pin<Box<dyn Future<Output = (HostTarget, Option<HostReach>)> + Send + '_>> {
        Box::pin(std::future::pending())
    }
}

/// Which hosts are probed for which stalls.
#[derive(Debug)]
pub struct Reach {
    /// Every stall that lasts: what is known of its host, `None` while that waits or is being probed.
    stalls: BTreeMap<StalledBranch, Option<HostReach>>,
    /// Hosts that wait or are being probed, each with the stalls that it explains: receivers of several groups on a host share a probe.
    hosts: BTreeMap<HostTarget, BTreeSet<StalledBranch>>,
    waiting: VecDeque<HostTarget>,
    next_start: Monotonic,
}

impl Default for Reach {
    fn default() -> Self {
        Self { stalls: BTreeMap::new(), hosts: BTreeMap::new(), waiting: VecDeque::new(), next_start: Monotonic::START }
    }
}

impl Reach {
    /// A receiver is reported as stalled, for the first time or again. Returns what is known of its host: one stall is not probed twice.
    pub fn stalled(&mut self, branch: StalledBranch, target: HostTarget) -> Option<HostReach> {
        if let Some(known) = self.stalls.get(&branch) {
            return *known;
        }
        let is_full = self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(&target);
        if is_full || self.stalls.len() >= MAX_STALLS {
            return None;
        }
        self.stalls.insert(branch, None);
        let explains = self.hosts.entry(target.clone()).or_default();
        if explains.is_empty() {
            self.waiting.push_back(target);
        }
        explains.insert(branch);
        None
    }

    /// The stall has ended.
    pub fn recovered(&mut self, branch: StalledBranch) {
        self.stalls.remove(&branch);
    }

    /// Forgets stalls of branches that `exists` denies.
    pub fn retain(&mut self, exists: impl Fn(StalledBranch) -> bool) {
        self.stalls.retain(|branch, _| exists(*branch));
    }

    /// When to call [`Reach::next_host`] next.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        (!self.waiting.is_empty()).then_some(self.next_start)
    }

    /// The host to probe now, if one is due. Its end has to be reported with [`Reach::found`].
    pub fn next_host(&mut self, now: Monotonic) -> Option<HostTarget> {
        while now >= self.next_start {
            let target = self.waiting.pop_front()?;
            let lasts = |branch: &StalledBranch| self.stalls.contains_key(branch);
            if self.hosts.get(&target).is_some_and(|explains| explains.iter().any(lasts)) {
                self.next_start = now + APART;
                return Some(target);
            }
            self.hosts.remove(&target);
        }
        None
    }

    /// A host was probed: the stalls that this explains. With `None`, nothing was found out, and a stall that is reported again is probed
    /// anew.
    pub fn found(&mut self, target: &HostTarget, reach: Option<HostReach>) -> Vec<StalledBranch> {
        let explains = self.hosts.remove(target).unwrap_or_default();
        let Some(reach) = reach else {
            explains.iter().for_each(|branch| _ = self.stalls.remove(branch));
            return Vec::new();
        };
        let lasting = explains.into_iter().filter(|branch| match self.stalls.get_mut(branch) {
            Some(known) => {
                *known = Some(reach);
                true
            }
            None => false,
        });
        lasting.collect()
    }
}

/// What makes an answer one to a request of this probe; unpredictable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoSecret {
    /// Identifier of the requests.
    pub identifier: u16,
    /// First octets of their data.
    pub token: u64,
}

/// A request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoRequest {
    /// Its sequence number.
    pub sequence: u16,
    /// Its octets, from the IPv6 header on.
    pub bytes: u16,
}

/// An Echo Reply, from any sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoAnswer {
    /// Source address.
    pub source: Ipv6Addr,
    /// Identifier and first octets of the data.
    pub secret: EchoSecret,
    /// Sequence number.
    pub sequence: u16,
    /// Octets, from the IPv6 header on.
    pub bytes: usize,
}

/// The requests to one host.
///
/// ```text
///                  large answered                            answered
/// small and large ----------------> found     one repeated ------------> found
///                |  time is up                   ^        |  time is up
///                +-------------------------------+        +------------> found
///                   the large one if the small one was answered, else the small one
/// ```
#[derive(Clone, Debug)]
pub struct HostProbe {
    host: Ipv6Addr,
    secret: EchoSecret,
    large: u16,
    /// Octets of each request that is due, in the order of their sequence numbers, and whether it has a reply.
    requests: Vec<(u16, bool)>,
    /// Those that were sent.
    sent: usize,
    until: Monotonic,
    has_ended: bool,
}

impl HostProbe {
    /// Starts at `now`.
    pub fn new(target: &HostTarget, secret: EchoSecret, now: Monotonic) -> Self {
        Self {
            host: target.host,
            secret,
            large: target.large,
            requests: vec![(SMALL, false), (target.large, false)],
            sent: 0,
            until: now + ANSWER_WITHIN,
            has_ended: false,
        }
    }

    /// The next request to send.
    pub fn next_request(&mut self) -> Option<EchoRequest> {
        let (bytes, _) = *self.requests.get(self.sent)?;
        let sequence = u16::try_from(self.sent).unwrap_or(u16::MAX);
        self.sent += 1;
        Some(EchoRequest { sequence, bytes })
    }

    /// An Echo Reply arrived. One that is no answer of the host to a request that was sent, octet for octet as far as they are compared,
    /// changes nothing.
    pub fn handle_answer(&mut self, answer: &EchoAnswer) {
        if answer.source != self.host || answer.secret != self.secret {
            return;
        }
        let sent = self.requests.iter_mut().take(self.sent);
        let Some((bytes, answered)) = sent.into_iter().nth(answer.sequence.into()) else { return };
        if answer.bytes != usize::from(*bytes) {
            return;
        }
        *answered = true;
        let is_data = self.large == *bytes;
        let all = self.requests.iter().all(|(_, answered)| *answered);
        self.has_ended |= is_data || all;
    }

    /// Repeats a request or ends, if the time for answers is up. Answers that have arrived must be handled first.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        if self.has_ended || now < self.until {
            return;
        }
        match self.requests[..] {
            [(_, small), _] => {
                self.requests.push((if small { self.large } else { SMALL }, false));
                self.until = now + ANSWER_WITHIN;
            }
            _ => self.has_ended = true,
        }
    }

    /// When to call [`HostProbe::handle_timeout`] next.
    pub fn poll_timeout(&self) -> Monotonic {
        self.until
    }

    /// What was found; `None` as long as the probe lasts.
    pub fn found(&self) -> Option<HostReach> {
        let tally = |bytes: u16| {
            let of_size = self.requests.iter().take(self.sent).filter(|(size, _)| *size == bytes);
            let replies = of_size.clone().filter(|(_, answered)| *answered).count();
            EchoTally { bytes, requests: of_size.count() as u8, replies: replies as u8 }
        };
        let reach = HostReach { small: tally(SMALL), large: tally(self.large) };
        self.has_ended.then_some(reach)
    }
}
