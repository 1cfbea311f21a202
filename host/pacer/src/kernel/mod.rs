// SPDX-License-Identifier: Apache-2.0
//! Pacing in the kernel: by departure times and fq, by HTB classes, or not at all. The previous state of the
//! interface is restored at the end.

mod htb;
mod interface;
mod netlink;
mod options;
mod root;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::time::Duration;

use anyhow::Context;
use canopy_bpf::pacer::types;
use canopy_control::pb::PacingCause as Cause;
use canopy_control::pb::PacingMeans;
use canopy_model::ids::Qpn;
use canopy_units::{Monotonic, Rate};

use crate::bpf::{Bpf, Mode};
use crate::clock::monotonic;
use crate::engine::{Change, Flow, Live, Origin};
use htb::Htb;
pub(crate) use interface::interface;
use netlink::Netlink;

use root::Root;

/// Lease: the programs pace for this time after the daemon last renewed it.
const LEASE: Duration = Duration::from_secs(5);
/// Notifications per second from nodes and peers, and from all other senders together.
const LIMIT_KNOWN: u64 = 20_000;
const LIMIT_UNKNOWN: u64 = 1_000;

/// The pacing method that the operator requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wanted {
    /// EDT where the kernel has fq, HTB otherwise.
    Auto,
    /// Departure times and fq.
    Edt,
    /// HTB classes.
    Htb,
    /// The kernel does not pace; the hook and the watching clients do.
    None,
}

enum Means {
    Edt(Root),
    Htb(Root, Htb),
    None,
}

/// The interface that is paced.
pub(crate) struct Kernel {
    bpf: Bpf,
    means: Means,
    netlink: Netlink,
    ifindex: u32,
    /// True if there was no clsact qdisc before.
    clsact_is_ours: bool,
    /// Flows with an entry in `pace_of`.
    paced: BTreeSet<Flow>,
    /// Peers, with the queue pairs that they answer.
    peers: BTreeMap<Ipv6Addr, BTreeSet<Qpn>>,
    nodes: BTreeSet<Ipv6Addr>,
}

/// The interface to pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) ifindex: u32,
    pub(crate) mtu: u32,
    pub(crate) line: Rate,
}

impl Kernel {
    /// Installs the qdiscs, then the programs.
    pub(crate) async fn open(mut bpf: Bpf, path: Path, wanted: Wanted, replace: bool) -> anyhow::Result<Self> {
        let mut netlink = Netlink::open()?;
        let clsact_is_ours = !netlink.has_clsact(path.ifindex).await?;
        let means = install(&mut netlink, path, wanted, replace).await?;
        if let Err(error) = bpf.attach() {
            bpf.detach();
            if let Means::Edt(root) | Means::Htb(root, _) = means {
                root.restore(&mut netlink).await;
            }
            return Err(error);
        }
        let (paced, peers, nodes, ifindex) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new(), path.ifindex);
        let kernel = Self { bpf, means, netlink, ifindex, clsact_is_ours, paced, peers, nodes };
        kernel.beat()?;
        Ok(kernel)
    }

    pub(crate) fn bpf(&self) -> &Bpf {
        &self.bpf
    }

    pub(crate) fn means(&self) -> PacingMeans {
        match self.means {
            Means::Edt(_) => PacingMeans::Edt,
            Means::Htb(..) => PacingMeans::Htb,
            Means::None => PacingMeans::None,
        }
    }

    /// Renews the lease of the programs.
    pub(crate) fn beat(&self) -> anyhow::Result<()> {
        let mode = match self.means {
            Means::Edt(_) => Mode::PACE_EDT,
            Means::Htb(..) => Mode::PACE_HTB,
            Means::None => Mode::PACE_NOT,
        };
        let alive_until_ns = (monotonic() + LEASE).nanos();
        let (limit_known, limit_unknown, mode) = (LIMIT_KNOWN, LIMIT_UNKNOWN, mode.0);
        self.bpf.control(&types::pacer_control { alive_until_ns, limit_known, limit_unknown, mode, pad: 0 })
    }

    /// Removes HTB classes that are no longer used once they have drained.
    pub(crate) async fn tidy(&mut self) {
        if let Means::Htb(_, htb) = &mut self.means {
            htb.tidy(&mut self.netlink).await;
        }
    }

    /// Exempts these nodes, and every peer, from the limit of unknown senders.
    pub(crate) fn set_nodes(&mut self, nodes: &BTreeSet<Ipv6Addr>) -> anyhow::Result<()> {
        for gone in self.nodes.difference(nodes).filter(|node| !self.peers.contains_key(node)) {
            self.bpf.know_sender(*gone, false)?;
        }
        for new in nodes.difference(&self.nodes) {
            self.bpf.know_sender(*new, true)?;
        }
        self.nodes.clone_from(nodes);
        Ok(())
    }

    /// Applies a change.
    pub(crate) async fn apply(&mut self, change: &Change) -> anyhow::Result<()> {
        let (qpn, live) = (change.qpn, &change.live);
        let local = Flow { qpn: qpn.get(), ..live.flow };
        match change.cause {
            Cause::Open => {
                self.bpf.bind(local, live.flow.qpn)?;
                // Present already if it is opened again.
                self.peers.entry(live.flow.peer).or_default().insert(qpn);
                self.bpf.know_sender(live.flow.peer, true)?;
                self.pace(qpn, live).await
            }
            Cause::Close => {
                self.bpf.unbind(local)?;
                let peer = live.flow.peer;
                let left = self.peers.get_mut(&peer).is_some_and(|qps| qps.remove(&qpn) && !qps.is_empty());
                if !left {
                    self.peers.remove(&peer);
                    if !self.nodes.contains(&peer) {
                        self.bpf.know_sender(peer, false)?;
                    }
                }
                self.paced.remove(&live.flow);
                self.bpf.unpace(live.flow)?;
                match &mut self.means {
                    Means::Htb(_, htb) => htb.release(&mut self.netlink, qpn).await,
                    _ => Ok(()),
                }
            }
            _ => self.pace(qpn, live).await,
        }
    }

    async fn pace(&mut self, qpn: Qpn, live: &Live) -> anyhow::Result<()> {
        let free = live.command.rate >= live.spec.line && live.command.paused_until.is_none();
        // A flow that was ever slowed down keeps its queue, or its packets would overtake each other. A registered
        // one has its own HTB class from the start: packets queued in the common class would leave at line rate.
        let own = matches!(self.means, Means::Htb(..)) && live.origin == Origin::Registered;
        if matches!(self.means, Means::None) || free && !own && !self.paced.contains(&live.flow) {
            return Ok(());
        }
        let class_id = match &mut self.means {
            Means::Htb(_, htb) => {
                htb.set(&mut self.netlink, qpn, live.command).await.with_context(|| format!("pacing QP {qpn}"))?
            }
            _ => 0,
        };
        let octets_per_s = (live.command.rate.bps() / 8).max(1);
        let pause_until_ns = live.command.paused_until.map_or(0, Monotonic::nanos);
        self.bpf.pace(live.flow, &types::pacer_pace { octets_per_s, pause_until_ns, class_id, pad: 0 })?;
        self.paced.insert(live.flow);
        Ok(())
    }

    /// Restores the interface.
    pub(crate) async fn close(mut self) {
        self.bpf.detach();
        if let Means::Htb(_, htb) = &mut self.means {
            htb.flush(&mut self.netlink).await;
        }
        if let Means::Edt(root) | Means::Htb(root, _) = self.means {
            root.restore(&mut self.netlink).await;
        }
        if self.clsact_is_ours
            && let Err(error) = self.netlink.remove_unused_clsact(self.ifindex).await
        {
            tracing::warn!(error = format!("{error:#}"), "the clsact qdisc cannot be removed");
        }
    }
}

async fn install(netlink: &mut Netlink, path: Path, wanted: Wanted, replace: bool) -> anyhow::Result<Means> {
    if matches!(wanted, Wanted::Auto | Wanted::Edt) {
        match Root::fq(netlink, path.ifindex, replace).await {
            Ok(root) => return Ok(Means::Edt(root)),
            Err(root::Failure::NoSuchKind) if wanted == Wanted::Auto => {}
            Err(failure) => return Err(failure.into_error("fq")),
        }
    }
    if wanted == Wanted::None {
        return Ok(Means::None);
    }
    let root = Root::htb(netlink, path.ifindex, replace).await.map_err(|failure| failure.into_error("htb"))?;
    match Htb::new(netlink, path).await {
        Ok(htb) => Ok(Means::Htb(root, htb)),
        Err(error) => {
            root.restore(netlink).await;
            Err(error)
        }
    }
}
