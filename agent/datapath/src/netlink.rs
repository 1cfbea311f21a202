// SPDX-License-Identifier: Apache-2.0
//! Addresses, routes, neighbours and links through netlink. The agent changes only routes with its own protocol number,
//! managed neighbours, and addresses on its ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use canopy_agent_core::net::{Interface, NetCommand, NetState, RouteKey, Via};
use futures::TryStreamExt;
use ipnet::Ipv6Net;
use netlink_packet_core::DefaultNla;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::{AddressAttribute, AddressFlags};
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourExtFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteLwEnCapType, RouteMessage, RouteMetric, RouteProtocol, RouteSeg6LocalTunnel,
    Seg6LocalAction,
};
use netlink_packet_route::rule::RuleMessage;
use rtnetlink::{Handle, IpVersion, LinkUnspec, RouteMessageBuilder};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use canopy_bpf::{Context, Result};

use crate::neighbours::{self, destination, is_resolved, link_layer_address, managed};
use crate::notices::Notices;
use crate::rules::{self, MAIN, TABLE};

/// Protocol number of our routes (rtnetlink(7): values above RTPROT_STATIC are for daemons).
const PROTOCOL: u8 = 201;
/// Attribute numbers that the netlink crate does not define (include/uapi/linux/seg6_local.h, netlink.h).
const SEG6_LOCAL_FLAVORS: u16 = 11;
const NLA_F_NESTED: u16 = 1 << 15;
/// The bit of RTAX_MTU among the locked metrics of a route.
const LOCK_MTU: u32 = 1 << 2;
/// Where a host has the switches of its network.
pub const SYSCTL_DIR: &str = "/proc/sys/net";

/// A netlink socket for requests and one for notifications.
pub(crate) struct Netlink {
    handle: Handle,
    changes: mpsc::Receiver<()>,
    kept: neighbours::Kept,
    tasks: Vec<AbortHandle>,
    sysctl_dir: PathBuf,
}

impl Drop for Netlink {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// State observed in the kernel.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) state: NetState,
    /// Addresses at which the node itself receives, on any interface, except link-local ones.
    pub(crate) own: BTreeSet<Ipv6Addr>,
    /// Link-layer addresses of desired neighbours with a global address.
    pub(crate) macs: BTreeMap<Ipv6Addr, [u8; 6]>,
    /// Managed neighbours that do not answer.
    pub(crate) unresolved: BTreeSet<(u32, Ipv6Addr)>,
}

impl Netlink {
    /// `sysctl_dir` has the switches of the network, [`SYSCTL_DIR`] but where that is read-only.
    pub(crate) fn open(sysctl_dir: &Path) -> Result<Self> {
        let (connection, handle, _) = rtnetlink::new_connection().context("opening a netlink socket")?;
        let kept = neighbours::Kept::default();
        let mut notices = Notices::open(Arc::clone(&kept)).context("subscribing to netlink notifications")?;
        // Depth 1: a notification only triggers a reconcile, so one pending notification covers all later ones.
        let (tx, changes) = mpsc::channel(1);
        let forward = async move {
            loop {
                match notices.receive().await {
                    Ok(true) => _ = tx.try_send(()),
                    Ok(false) => {}
                    Err(error) => {
                        tracing::error!(%error, "cannot read the kernel's notifications: changes are noticed every 30 s");
                        return;
                    }
                }
            }
        };
        let tasks = vec![tokio::spawn(connection).abort_handle(), tokio::spawn(forward).abort_handle()];
        Ok(Self { handle, changes, kept, tasks, sysctl_dir: sysctl_dir.to_owned() })
    }

    /// Takes a notice of a change that waits to be received; returns whether there was one.
    pub(crate) fn take_notice(&mut self) -> bool {
        self.changes.try_recv().is_ok()
    }

    /// No notice comes any more.
    #[cfg(test)]
    pub(crate) fn lose_notices(&mut self) {
        self.changes = mpsc::channel(1).1;
    }

    /// Whether a notice waits.
    #[cfg(test)]
    pub(crate) fn has_notice(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Completes when the kernel reports a change. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        if self.changes.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Changes of these neighbours are reported from now on, and of no others.
    pub(crate) fn follow(&self, neighbours: &BTreeSet<neighbours::Neighbour>) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone_from(neighbours);
    }

    /// Whether the kernel's IPv6 multicast routing has policy rules: there is always one then.
    pub(crate) async fn has_multicast_rules(&self) -> Result<bool> {
        Ok(!self.rules(rules::MULTICAST).await?.is_empty())
    }

    /// The rules of a family; none if the kernel has no rules for it.
    async fn rules(&self, family: AddressFamily) -> Result<Vec<RuleMessage>> {
        let mut request = self.handle.rule().get(IpVersion::V6);
        request.message_mut().header.family = family;
        match request.execute().try_collect().await {
            Err(rtnetlink::Error::NetlinkError(e)) if is_unknown_family(&e) => Ok(vec![]),
            other => other.context("listing policy rules"),
        }
    }

    /// Interfaces by name.
    pub(crate) async fn interfaces(&self) -> Result<BTreeMap<String, Interface>> {
        let links: Vec<_> = self.handle.link().get().execute().try_collect().await.context("listing interfaces")?;
        let mut out = BTreeMap::new();
        for l in links {
            let (mut name, mut mtu, mut master, mut link, mut stacked) = (None, 0, None, None, false);
            for a in &l.attributes {
                match a {
                    LinkAttribute::IfName(n) => name = Some(n.clone()),
                    LinkAttribute::Mtu(m) => mtu = *m,
                    LinkAttribute::Controller(index) => master = Some(*index),
                    LinkAttribute::Link(index) => link = Some(*index),
                    LinkAttribute::LinkInfo(info) => stacked = info.iter().any(is_stacked),
                    _ => {}
                }
            }
            let flags = l.header.flags;
            if let Some(name) = name {
                out.insert(
                    name,
                    Interface {
                        index: l.header.index,
                        mtu,
                        up: flags.contains(LinkFlags::Up),
                        carrier: flags.contains(LinkFlags::LowerUp),
                        master,
                        // Others, veth for example, have a link that is not below them.
                        lower: link.filter(|_| stacked),
                    },
                );
            }
        }
        Ok(out)
    }

    /// Observes the agent's part of the kernel's state on `ports`; other addresses on `lo` are ignored.
    pub(crate) async fn observe(
        &self,
        interfaces: &BTreeMap<String, Interface>,
        ports: &BTreeSet<u32>,
        desired: &NetState,
    ) -> Result<Observed> {
        let mut o = Observed::default();
        o.state.up = interfaces.values().filter(|i| i.up).map(|i| i.index).collect();
        let addresses: Vec<_> =
            self.handle.address().get().execute().try_collect().await.context("listing addresses")?;
        for a in addresses {
            let ip = a.attributes.iter().find_map(|x| match x {
                AddressAttribute::Address(IpAddr::V6(ip)) => Some(*ip),
                _ => None,
            });
            let Some(ip) = ip else { continue };
            let Ok(net) = Ipv6Net::new(ip, a.header.prefix_len) else { continue };
            if !ip.is_unicast_link_local() {
                // A router also receives at the prefix itself (RFC 4291 section 2.6.1).
                o.own.extend([ip, net.network()]);
            }
            let entry = (a.header.index, net);
            if ports.contains(&a.header.index) || desired.addresses.contains(&entry) {
                o.state.addresses.insert(entry);
            }
        }
        let query = RouteMessageBuilder::<Ipv6Addr>::new().build();
        let routes: Vec<_> = self.handle.route().get(query).execute().try_collect().await.context("listing routes")?;
        let ours = routes.iter().filter(|r| r.header.protocol == RouteProtocol::from(PROTOCOL));
        let (fabric, strays): (Vec<_>, Vec<_>) = ours.partition(|r| table_of(r) == TABLE);
        o.state.routes = fabric.into_iter().filter_map(|r| Some((route_of(r)?, locked_mtu(r)))).collect();
        o.state.strays = strays.into_iter().filter_map(route_of).collect();
        for family in [AddressFamily::Inet6, rules::MULTICAST] {
            o.state.rules.extend(self.rules(family).await?.iter().filter_map(rules::rule_of));
        }
        for name in &desired.forwarding {
            if self.forwards(name)? {
                o.state.forwarding.insert(name.clone());
            }
        }
        let neighbours: Vec<_> = self
            .handle
            .neighbours()
            .get()
            .set_address_family(AddressFamily::Inet6)
            .execute()
            .try_collect()
            .await
            .context("listing neighbours")?;
        for n in &neighbours {
            let Some((ip, mac)) = destination(n).zip(link_layer_address(n)) else { continue };
            if !ip.is_unicast_link_local() && desired.neighbours.contains(&(n.header.ifindex, ip)) {
                o.macs.insert(ip, mac);
            }
        }
        for n in neighbours.iter().filter(|n| managed(n)) {
            if let Some(ip) = destination(n) {
                let entry = (n.header.ifindex, ip);
                o.state.neighbours.insert(entry);
                if !is_resolved(n.header.state) {
                    o.unresolved.insert(entry);
                }
            }
        }
        Ok(o)
    }

    /// Executes one netlink command; attaching and detaching programs is not one.
    pub(crate) async fn execute(&self, command: &NetCommand) -> Result<()> {
        match *command {
            NetCommand::Up(i) => self
                .handle
                .link()
                .set(LinkUnspec::new_with_index(i).up().build())
                .execute()
                .await
                .with_context(|| format!("setting interface {i} up")),
            NetCommand::AddAddress(i, a) => {
                let mut request = self.handle.address().add(i, IpAddr::V6(a.addr()), a.prefix_len()).replace();
                // Addresses of the plan are unique; duplicate address detection would keep them tentative for a second.
                request.message_mut().attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
                request.execute().await.with_context(|| format!("adding address {a} to interface {i}"))
            }
            NetCommand::RemoveAddress(i, a) => {
                let mut message = netlink_packet_route::address::AddressMessage::default();
                message.header.family = AddressFamily::Inet6;
                message.header.index = i;
                message.header.prefix_len = a.prefix_len();
                message.attributes.push(AddressAttribute::Address(IpAddr::V6(a.addr())));
                self.handle
                    .address()
                    .del(message)
                    .execute()
                    .await
                    .with_context(|| format!("removing address {a} from interface {i}"))
            }
            NetCommand::AddRoute(p, i, g, mtu) => {
                let mut message = route(p, i, g, TABLE);
                message.attributes.push(locked(mtu));
                let added = self.handle.route().add(message).replace().execute().await;
                added.with_context(|| format!("adding route {p} through interface {i}"))
            }
            NetCommand::RemoveRoute(p, i, g) => self.remove_route(route(p, i, g, TABLE), p, i).await,
            NetCommand::RemoveStray(p, i, g) => self.remove_route(route(p, i, g, MAIN), p, i).await,
            NetCommand::AddRule(ref r) => {
                let mut request = self.handle.rule().add().v6();
                *request.message_mut() = rules::message(r);
                request.execute().await.with_context(|| format!("adding policy {}", rules::name(r)))
            }
            NetCommand::RemoveRule(ref r) => {
                let removed = self.handle.rule().del(rules::message(r)).execute().await;
                removed.with_context(|| format!("removing policy {}", rules::name(r)))
            }
            NetCommand::Forward(ref name) => {
                let path = self.forwarding(name);
                fs::write(&path, "1").with_context(|| format!("writing {}", path.display()))
            }
            NetCommand::AddNeighbour(i, a) => {
                let mut request = self.handle.neighbours().add(i, IpAddr::V6(a)).state(NeighbourState::None).replace();
                request.message_mut().attributes.push(NeighbourAttribute::ExtFlags(NeighbourExtFlags::Managed));
                request.execute().await.with_context(|| format!("adding managed neighbour {a} on interface {i}"))
            }
            NetCommand::RemoveNeighbour(i, a) => {
                let mut message = NeighbourMessage::default();
                message.header.family = AddressFamily::Inet6;
                message.header.ifindex = i;
                message.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet6(a)));
                self.handle
                    .neighbours()
                    .del(message)
                    .execute()
                    .await
                    .with_context(|| format!("removing neighbour {a} on interface {i}"))
            }
            NetCommand::Attach(_) | NetCommand::Guard(_) | NetCommand::Detach(_) => Ok(()),
        }
    }

    /// Whether the TC hooks of an interface have filters, of anyone.
    pub(crate) async fn has_filters(&self, index: u32) -> Result<bool> {
        let filters = || self.handle.traffic_filter(index as i32).get();
        for at in [filters().ingress(), filters().egress()] {
            let found: Vec<_> = at.execute().try_collect().await.context("listing filters")?;
            if !found.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn forwarding(&self, name: &str) -> PathBuf {
        self.sysctl_dir.join("ipv6/conf").join(name).join("forwarding")
    }

    /// Whether the kernel forwards IPv6 by a name below net.ipv6.conf; an interface without IPv6 has none.
    fn forwards(&self, name: &str) -> Result<bool> {
        let path = self.forwarding(name);
        match fs::read_to_string(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
            other => Ok(other.with_context(|| format!("reading {}", path.display()))?.trim() == "1"),
        }
    }

    async fn remove_route(&self, route: RouteMessage, prefix: Ipv6Net, ifindex: u32) -> Result<()> {
        let removed = self.handle.route().del(route).execute().await;
        removed.with_context(|| format!("removing route {prefix} through interface {ifindex}"))
    }
}

/// The kernel has no policy rules of the family that was asked for.
fn is_unknown_family(e: &netlink_packet_core::ErrorMessage) -> bool {
    let errno = e.to_io().raw_os_error();
    errno == Some(libc::EAFNOSUPPORT) || errno == Some(libc::EOPNOTSUPP)
}

/// A VLAN, macvlan or ipvlan: its packets arrive on another interface first.
fn is_stacked(info: &LinkInfo) -> bool {
    matches!(info, LinkInfo::Kind(InfoKind::Vlan | InfoKind::MacVlan | InfoKind::IpVlan))
}

fn table_of(r: &RouteMessage) -> u32 {
    let named = r.attributes.iter().find_map(|a| if let RouteAttribute::Table(id) = a { Some(*id) } else { None });
    named.unwrap_or(r.header.table.into())
}

fn route(prefix: Ipv6Net, ifindex: u32, via: Via, table: u32) -> RouteMessage {
    let b = RouteMessageBuilder::<Ipv6Addr>::new()
        .table_id(table)
        .destination_prefix(prefix.addr(), prefix.prefix_len())
        .output_interface(ifindex)
        .protocol(RouteProtocol::from(PROTOCOL));
    match via {
        Via::OnLink => b,
        Via::Gateway(g) => b.gateway(g),
        Via::End => b.encap_seg6local(vec![
            RouteSeg6LocalTunnel::Action(Seg6LocalAction::End),
            RouteSeg6LocalTunnel::Other(DefaultNla::new(SEG6_LOCAL_FLAVORS | NLA_F_NESTED, next_csid())),
        ]),
    }
    .build()
}

/// `flavors next-csid lblen 32 nflen 16`: 32-bit block, 16-bit uSIDs.
fn next_csid() -> Vec<u8> {
    const OPERATION: u16 = 1;
    const LCBLOCK_BITS: u16 = 2;
    const LCNODE_FN_BITS: u16 = 3;
    const NEXT_CSID: u32 = 1 << 4;
    let mut out = Vec::new();
    let mut attribute = |kind: u16, value: &[u8]| {
        out.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
        out.extend_from_slice(&kind.to_ne_bytes());
        out.extend_from_slice(value);
        out.resize(out.len().next_multiple_of(4), 0);
    };
    attribute(OPERATION, &NEXT_CSID.to_ne_bytes());
    attribute(LCBLOCK_BITS, &[32]);
    attribute(LCNODE_FN_BITS, &[16]);
    out
}

/// The MTU of a route, whatever MTU an ICMPv6 error names: the kernel believes it for the next 10 minutes.
fn locked(mtu: u32) -> RouteAttribute {
    RouteAttribute::Metrics(vec![RouteMetric::Lock(LOCK_MTU), RouteMetric::Mtu(mtu)])
}

/// The MTU that a route has locked; 0 if none.
fn locked_mtu(r: &RouteMessage) -> u32 {
    let metrics = r.attributes.iter().find_map(|a| if let RouteAttribute::Metrics(m) = a { Some(m) } else { None });
    let metrics = metrics.map_or(&[][..], Vec::as_slice);
    let is_locked = metrics.iter().any(|m| matches!(m, RouteMetric::Lock(of) if of & LOCK_MTU != 0));
    let mtu = metrics.iter().find_map(|m| if let RouteMetric::Mtu(mtu) = m { Some(*mtu) } else { None });
    mtu.filter(|_| is_locked).unwrap_or(0)
}

fn route_of(r: &RouteMessage) -> Option<RouteKey> {
    let (mut to, mut oif, mut via) = (None, None, Via::OnLink);
    for a in &r.attributes {
        match a {
            RouteAttribute::Destination(RouteAddress::Inet6(a)) => to = Some(*a),
            RouteAttribute::Oif(i) => oif = Some(*i),
            RouteAttribute::Gateway(RouteAddress::Inet6(a)) => via = Via::Gateway(*a),
            RouteAttribute::EncapType(RouteLwEnCapType::Seg6Local) => via = Via::End,
            _ => {}
        }
    }
    Some((Ipv6Net::new(to?, r.header.destination_prefix_length).ok()?, oif?, via))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn switches_are_read_and_written_in_the_given_directory() {
        let dir = tempfile::tempdir().unwrap();
        let switch = dir.path().join("ipv6/conf/all/forwarding");
        fs::create_dir_all(switch.parent().unwrap()).unwrap();
        fs::write(&switch, "0\n").unwrap();
        let netlink = Netlink::open(dir.path()).unwrap();
        assert!(!netlink.forwards("all").unwrap());
        netlink.execute(&NetCommand::Forward("all".into())).await.unwrap();
        assert!(netlink.forwards("all").unwrap());
        assert_eq!(fs::read_to_string(&switch).unwrap(), "1");
        let refused = canopy_bpf::chain(&netlink.execute(&NetCommand::Forward("eth1".into())).await.unwrap_err());
        assert!(refused.contains(dir.path().to_str().unwrap()), "{refused}");
    }
}
