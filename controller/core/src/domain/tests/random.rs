// SPDX-License-Identifier: Apache-2.0
//! Random networks and random commands, valid and invalid: after each, packets are walked through the nodes' specs.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;

use canopy_model::group::{EncodingChoice, Replication};
use canopy_model::ids::{GroupId, NodeId, PortIndex};
use canopy_model::member::LateStart;
use canopy_model::node_spec::{Branch, BranchKind, GroupProgram, NodeSpec, Peer};
use proptest::prelude::*;

use super::*;
use crate::content::Joined;
use crate::domain::NameFilter;
use crate::plan::GroupPlan;
use crate::programs::Ground;
use crate::receivers_by_edge::{ReceiversByEdge, TreeEdge};
use crate::resource::Group;
use crate::status::uses_port;
use crate::testing::{host, link, random_graph};
use crate::topology::NodeIx;

const GROUPS: usize = 3;
const HOSTS: usize = 8;

#[derive(Clone, Debug)]
enum Step {
    Group(usize, u8),
    DeleteGroup(usize),
    Join(usize, usize, bool, bool, u8),
    Leave(usize, usize),
    Topology(Vec<usize>, Vec<(usize, usize)>),
    /// Which links to drain, by bit.
    Drain(u16),
    /// A node, and which of its ports have no carrier, by bit.
    Down(usize, u16),
    /// Every node confirms first.
    FinishMove(usize),
    GiveUpMove(usize),
    RetryMove(usize),
    /// Every node confirms first.
    Open(usize),
    /// A late receiver of the group starts, with this shift.
    Start(usize, u8),
    /// The group has so many changes, and no node confirms them.
    Age(usize, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (g, h) = (0..GROUPS, 0..HOSTS + 1);
    prop::collection::vec(
        prop_oneof![
            2 => (g.clone(), any::<u8>()).prop_map(|(g, x)| Step::Group(g, x)),
            1 => g.clone().prop_map(Step::DeleteGroup),
            8 => (g.clone(), h.clone(), prop::bool::weighted(0.25), any::<bool>(), any::<u8>()).prop_map(|(g, h, s, c, x)| Step::Join(g, h, s, c, x)),
            2 => (g.clone(), h).prop_map(|(g, h)| Step::Leave(g, h)),
            1 => network().prop_map(|(parents, extra)| Step::Topology(parents, extra)),
            2 => any::<u16>().prop_map(Step::Drain),
            2 => (0usize..8, any::<u16>()).prop_map(|(n, ports)| Step::Down(n, ports & ports.rotate_left(3))),
            2 => g.clone().prop_map(Step::FinishMove),
            1 => g.clone().prop_map(Step::GiveUpMove),
            1 => g.clone().prop_map(Step::RetryMove),
            3 => g.clone().prop_map(Step::Open),
            2 => (g.clone(), any::<u8>()).prop_map(|(g, x)| Step::Start(g, x)),
            2 => (g, 1_000..5_000u32).prop_map(|(g, epochs)| Step::Age(g, epochs)),
        ],
        1..40,
    )
}

fn network() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>)> {
    (prop::collection::vec(any::<usize>(), 0..8), prop::collection::vec(any::<(usize, usize)>(), 0..8))
}

fn spec((parents, extra): &(Vec<usize>, Vec<(usize, usize)>)) -> TopologySpec {
    let mut t = random_graph(parents, extra);
    for h in 0..HOSTS {
        let name = format!("h{h}");
        t.hosts.push(host(&name, h as u16 + 1));
        t.links.push(link(&format!("n{}/h{h}", h % t.nodes.len()), &format!("{name}/eth0")));
    }
    for (i, l) in t.links.iter_mut().enumerate() {
        l.mtu = [9000, 4300, 6000, 4262][(i + parents.len()) % 4];
    }
    t
}

fn command(d: &Domain, step: &Step) -> Command {
    let name = |g: &usize| format!("g{g}");
    let choice = |x: u8| {
        [EncodingChoice::Auto, EncodingChoice::Auto, EncodingChoice::Provisioned, EncodingChoice::InBand]
            [usize::from(x % 4)]
    };
    match step {
        Step::Group(g, x) => group_with(
            &name(g),
            GroupSpec {
                encoding: choice(*x),
                replication: if x & 4 == 0 { Replication::Srv6 } else { Replication::Multicast },
                path_mtu: [4096, 1024, 1500][usize::from(x / 86)],
                ..GroupSpec::default()
            },
        ),
        Step::DeleteGroup(g) => Command::DeleteGroup { name: name(g) },
        Step::Join(g, h, is_source, create_only, x) => {
            let role = if *is_source { Role::Source } else { Role::Receiver };
            let address = (x % 5 == 0)
                .then(|| Ipv6Addr::new(0x2001, 0xdb8, *h as u16 + u16::from(x % 2), 0, 0, 0, 0, u16::from(*x)));
            let spec = MemberSpec { address, ..member(&format!("h{h}"), role, 2 + u64::from(x % 3)) };
            Command::PutMember { group: name(g), spec, create_only: *create_only, instance: None, lease: None }
        }
        Step::Leave(g, h) => leave(&name(g), &format!("h{h}")),
        Step::Topology(parents, extra) => topology(spec(&(parents.clone(), extra.clone()))),
        Step::Drain(bits) => {
            let mut spec = TopologySpec::clone(&d.state.topology.as_ref().unwrap().network.spec);
            for (i, l) in spec.links.iter_mut().enumerate() {
                l.drained = bits >> (i % 16) & 1 == 1;
            }
            topology(spec)
        }
        Step::Down(n, bits) => {
            let node = format!("n{n}");
            let ports = d.state.node(&node).map(|n| n.spec.base.ports.clone()).unwrap_or_default();
            let down = ports.into_iter().filter(|p| bits >> (p.index.get() % 16) & 1 == 1).map(|p| p.name);
            Command::PortsDown { node, ports: down.collect() }
        }
        Step::FinishMove(g) => Command::FinishMove { group: name(g) },
        Step::GiveUpMove(g) => {
            let since = d.moving(&name(g)).map_or(0, |m| m.since);
            Command::GiveUpMove { group: name(g), since }
        }
        Step::RetryMove(g) => Command::RetryMove { group: name(g) },
        Step::Open(g) => Command::OpenGroup { group: name(g) },
        // Anything that changes nothing.
        Step::Age(..) => Command::PushThresholds,
        Step::Start(g, x) => {
            let members = d.state.groups.get(&name(g)).into_iter().flat_map(|g| g.members.iter());
            let late = members.filter(|m| m.late).map(|m| (m.host.to_string(), m.since)).next();
            let (host, since) = late.unwrap_or_default();
            let start = LateStart { shift: (*x).into(), msn_base: 1 };
            Command::StartMember { group: name(g), host, since, start }
        }
    }
}

fn specs(d: &Domain) -> BTreeMap<String, NodeSpec> {
    d.all_nodes().into_iter().map(|n| (n.name.clone(), d.node_spec(&n.name).unwrap())).collect()
}

fn program(d: &Domain, node: &str, id: GroupId) -> Option<GroupProgram> {
    d.node_spec(node)?.groups.get(&id).cloned()
}

/// The node at the far end of a port, checked to own the next hop.
fn across(d: &Domain, node: &str, port: canopy_model::ids::PortIndex, next_hop: Ipv6Addr) -> String {
    let spec = d.node_spec(node).unwrap();
    match &spec.base.ports.iter().find(|p| p.index == port).unwrap().peer {
        Peer::Node { name, link_local } => {
            assert_eq!(*link_local, next_hop, "{node}: the next hop is not the node at the far end of the port");
            name.clone()
        }
        Peer::Host { name, prefix, .. } => {
            assert!(prefix.contains(&next_hop));
            name.clone()
        }
    }
}

/// Walks one packet down from the headend and feedback up from every receiver, using only the nodes' specs.
fn check_traffic(d: &Domain, name: &str) {
    let view = d.group(name).unwrap();
    let id = view.status.group_id;
    let members: Vec<_> = d.members(name).unwrap();
    let expected: BTreeSet<(String, Ipv6Addr, u32)> = members
        .iter()
        .filter(|m| m.spec.role == Role::Receiver && !m.status.ended)
        .map(|m| (m.spec.host.clone(), m.status.address, m.spec.qpn.get()))
        .collect();
    let with_program: BTreeSet<String> =
        d.all_nodes().into_iter().map(|n| n.name).filter(|n| program(d, n, id).is_some()).collect();
    if view.status.tree.is_empty() {
        assert!(with_program.is_empty(), "programs without a tree");
        return;
    }
    let source = members.iter().find(|m| m.spec.role == Role::Source).unwrap();
    let headends: Vec<&String> = with_program.iter().filter(|n| program(d, n, id).unwrap().headend.is_some()).collect();
    assert_eq!(headends, [&source.status.node]);
    let root = program(d, headends[0], id).unwrap();
    let headend = root.headend.clone().unwrap();
    assert_eq!(across(d, headends[0], headend.source_port, source.status.address), source.spec.host);
    let multicast = view.spec.replication == Replication::Multicast;
    let first = if multicast { root.multicast.unwrap().group } else { root.replication_sid.unwrap() };
    assert_eq!(headend.segments, [root.proxy, first]);
    assert!(headend.tlvs.iter().all(|t| (1..=11).contains(&t.receivers.len())));

    let mut delivered = BTreeSet::new();
    let mut visited = BTreeSet::new();
    let mut todo = vec![(headends[0].clone(), headend.segments[1])];
    while let Some((node, outer_da)) = todo.pop() {
        assert!(visited.insert(node.clone()), "{node} gets two copies");
        let base = d.node_spec(&node).unwrap().base.clone();
        let p = program(d, &node, id).expect("copies go to nodes with a program");
        assert_eq!((p.tree_id, p.designated_qpn, p.proxy), (view.status.tree_id, root.designated_qpn, root.proxy));
        assert!(p.epoch <= view.status.epoch, "{node}: {} of {}", p.epoch, view.status.epoch);
        let nodes = p.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. })).count();
        assert_eq!((p.multicast, p.multicast.is_some()), (root.multicast, multicast));
        if multicast {
            // The kernel's route forwards packets of the parent to every child and to no other port.
            let from = p.multicast_route().map(|r| (r.input, r.outputs));
            let children = p.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. })).map(|b| b.port);
            assert_eq!(from, (nodes > 0).then(|| (p.upstream.port, children.collect())));
            assert_eq!((outer_da, p.replication_sid), (first, None));
        } else if outer_da == base.end_mt {
            assert_eq!((nodes, p.replication_sid), (0, None), "{node} replicates to nodes but is addressed by End.MT");
        } else {
            assert_eq!(Some(outer_da), p.replication_sid, "{node} does not own {outer_da}");
        }
        let mut in_tlvs: BTreeSet<(Ipv6Addr, u32)> = BTreeSet::new();
        for tlv in headend.tlvs.iter().filter(|t| t.edge == base.node_address) {
            in_tlvs.extend(tlv.receivers.iter().map(|(a, q)| (*a, q.get())));
        }
        let mut here = BTreeSet::new();
        for b in &p.branches {
            let far = across(d, &node, b.port, b.next_hop);
            match b.kind {
                BranchKind::Node { sid } => {
                    let child = program(d, &far, id).unwrap();
                    assert!(b.since <= child.epoch && child.epoch <= p.epoch, "{node} does not count {far}");
                    // The child's feedback arrives as this branch expects it, on the same link.
                    assert_eq!(
                        (child.upstream.source_address, child.upstream.destination, child.upstream.dest_qp),
                        (b.address, base.node_address, p.designated_qpn)
                    );
                    assert_eq!(across(d, &far, child.upstream.port, child.upstream.next_hop), node);
                    todo.push((far, sid));
                }
                BranchKind::Receiver { qpn, .. } => {
                    here.insert((b.address, qpn.get()));
                    assert!(delivered.insert((far, b.address, qpn.get())), "a receiver gets two copies");
                }
            }
        }
        if here.is_empty() {
            assert!(in_tlvs.is_empty() && !p.receivers_provisioned);
        } else if p.receivers_provisioned {
            assert!(in_tlvs.is_empty());
        } else {
            assert_eq!(in_tlvs, here, "{node}: TLVs and branches differ");
        }
    }
    assert_eq!(delivered, expected);
    assert_eq!(visited, with_program, "a node has a program but gets no copy");
    assert_eq!(
        (root.upstream.source_address, root.upstream.destination, root.upstream.dest_qp),
        (root.proxy, source.status.address, source.spec.qpn)
    );
}

/// Content of a node's spec, without term and generation.
fn content(s: &NodeSpec) -> String {
    format!("{:?} {:?}", s.base, s.groups)
}

/// A branch of a parent node to a child node, in a program that a slow agent may still run.
#[derive(Clone)]
struct Child {
    /// Of the child's program: its feedback carries it.
    stamp: u32,
    /// Since which epoch the parent counts it, and the epoch of the parent's program.
    counted: (u32, u32),
    behind: BTreeSet<Joined>,
}

impl Child {
    /// As feedback is compared: 14 bits, by sign.
    fn counts(&self, stamp: u32) -> bool {
        let (since, epoch) = self.counted;
        stamp.wrapping_sub(since) & 0x2000 == 0 && epoch.wrapping_sub(stamp) & 0x2000 == 0
    }
}

/// A group's tree as of one command.
struct Past {
    group: GroupId,
    epoch: u32,
    is_open: bool,
    children: BTreeMap<(NodeId, NodeId), Child>,
}

/// What children of a group's trees stood for, in the programs that slow agents may still run.
#[derive(Default)]
struct Covered(Vec<Past>);

impl Covered {
    /// A parent counts feedback of a child's present program, and that of another one only if the child covered the receivers that the
    /// parent takes it for: the present program of a parent with earlier ones of its child, and the other way round.
    fn check(&mut self, w: &World) -> Result<(), TestCaseError> {
        for (name, g) in w.domain.state.groups.iter() {
            let (id, Some(plan)) = (g.allocation.group_id, g.plan()) else { continue };
            let program = |node: NodeId| {
                let at = w.domain.state.nodes.iter().position(|n| n.spec.base.node_id == node).unwrap();
                w.domain.state.program_of(id, at).unwrap().make()
            };
            let child = |((parent, child), behind): (TreeEdge, &[Joined])| {
                let address = w.domain.state.addresses.node_address(child);
                let of = program(parent);
                let since = of.branches.iter().find(|b| b.address == address).unwrap().since;
                let (stamp, counted) = (program(child).epoch, (since, of.epoch));
                ((parent, child), Child { stamp, counted, behind: behind.iter().copied().collect() })
            };
            let behind = ReceiversByEdge::of(w.domain.state.network().unwrap(), &plan.tree, &plan.content);
            let now: BTreeMap<_, _> = behind.iter().map(child).collect();
            let present: BTreeSet<Joined> = now.values().flat_map(|child| child.behind.iter().copied()).collect();
            for (edge, child) in &now {
                let (since, epoch) = child.counted;
                prop_assert!(g.epoch - since < 4_096 && epoch <= g.epoch, "{edge:?}: {since}, {epoch} of {}", g.epoch);
                prop_assert!(
                    child.counts(child.stamp),
                    "{name}: {edge:?} refuses {} in {since}..={epoch}",
                    child.stamp
                );
                for past in self.0.iter().filter(|past| past.group == id) {
                    // A child is known by its address, under each parent.
                    for (_, was) in past.children.iter().filter(|((_, of), _)| *of == edge.1) {
                        // Before the group was open nothing was acknowledged that a receiver lacks which joined later.
                        let is_uncovered =
                            |r: &&Joined| !was.behind.contains(r) && (past.is_open || r.late || r.since <= past.epoch);
                        prop_assert!(
                            !child.counts(was.stamp) || !child.behind.iter().any(|r| is_uncovered(&r)),
                            "{name}: {edge:?} counts {} in {since}..={epoch}, of a program for others",
                            was.stamp
                        );
                    }
                    let Some(was) = past.children.get(edge) else { continue };
                    let mut left = was.behind.difference(&child.behind);
                    prop_assert!(
                        !was.counts(child.stamp) || !left.any(|r| present.contains(r)),
                        "{name}: {edge:?} counts {} in {:?}, which no longer covers a receiver",
                        child.stamp,
                        was.counted
                    );
                }
            }
            self.0.push(Past { group: id, epoch: g.epoch, is_open: g.is_open(), children: now });
        }
        Ok(())
    }

    /// Every node runs its present program.
    fn confirmed(&mut self, w: &World) {
        self.0.retain(|past| w.domain.state.groups.by_id(past.group).is_some_and(|g| g.epoch == past.epoch));
    }
}

/// The group has as many changes as it can without the nodes' confirmation.
fn age(w: &mut World, name: &str, epochs: u32) {
    let Some(g) = w.domain.state.groups.get(name).filter(|g| g.behind.is_none()) else { return };
    let known = g.confirmed.filter(|_| g.is_open()).map(|known| known.epoch);
    let most = known.map_or(u32::MAX, |known| (known + 4_096).saturating_sub(g.epoch));
    // Only the record's epochs are set: what topology changes did is not in it.
    if g.recorded_epoch == g.epoch && (g.plan().is_none() || g.recorded_tree == Some(g.epoch)) {
        w.age(name, epochs.min(most));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_happens_packets_arrive_once_and_a_restart_changes_nothing(first in network(), steps in steps()) {
        check_steps(&first, &steps)?;
    }
}

fn check_steps(first: &(Vec<usize>, Vec<(usize, usize)>), steps: &[Step]) -> Result<(), TestCaseError> {
    let world = if first.0.len().is_multiple_of(2) { World::with } else { World::apart };
    let (mut w, mut covered) = (world(spec(first)), Covered::default());
    for step in steps {
        match step {
            Step::Open(_) | Step::FinishMove(_) => {
                w.confirm();
                covered.confirmed(&w);
            }
            Step::Age(g, epochs) => age(&mut w, &format!("g{g}"), *epochs),
            _ => {}
        }
        let before = specs(&w.domain);
        let image = format!("{:?}", w.domain);
        let command = command(&w.domain, step);
        let asked = w.domain.prepare(command.clone());
        prop_assert_eq!(&format!("{:?}", w.domain), &image, "preparing changed something");
        if asked.is_err() {
            continue;
        }
        let epochs: BTreeMap<String, (GroupId, u32)> =
            w.domain.state.groups.iter().map(|(n, g)| (n.to_owned(), (g.allocation.group_id, g.epoch))).collect();
        let times = |d: &Domain, node: &str, id| d.desired(node).and_then(|desired| desired.groups.get(id));
        let was = w.domain.clone();
        let applied = w.run(command).unwrap();
        let after = specs(&w.domain);
        // Exactly the nodes whose content changed got a new generation and are named.
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let changed = before.get(name).map(content) != after.get(name).map(content);
            prop_assert_eq!(applied.nodes.contains(name), changed, "{}", name);
            if let (Some(b), Some(a)) = (before.get(name), after.get(name)) {
                prop_assert_eq!(a.generation > b.generation, changed);
                prop_assert!(a.generation >= b.generation);
                for (id, old) in b.groups.iter() {
                    if let Some(new) = a.groups.get(id) {
                        let has_other_time = times(&was, name, id) != times(&w.domain, name, id);
                        prop_assert_eq!(has_other_time, new != old, "{}: what is sent is what differs", name);
                        prop_assert!(new.epoch >= old.epoch);
                        // Where a receiver started becomes known in any epoch, also after a move.
                        let started = |b: &Branch| Branch { start: None, lost: false, ..b.clone() };
                        let forwarding = |p: &GroupProgram| {
                            p.branches.iter().filter(|b| !b.standby).map(started).collect::<Vec<_>>()
                        };
                        let (before, now) = (forwarding(old), forwarding(new));
                        // Within an epoch a branch may come before the group is open, or leave; what is counted of the others stays.
                        // The SID of a child changes where that gets or loses children of its own.
                        let counted = |b: &Branch| match b.kind {
                            BranchKind::Receiver { .. } => b.clone(),
                            BranchKind::Node { .. } => {
                                Branch { kind: BranchKind::Node { sid: Ipv6Addr::UNSPECIFIED }, ..b.clone() }
                            }
                        };
                        let of = |all: &[Branch], b: &Branch| all.iter().find(|o| o.address == b.address).map(counted);
                        let is_replaced = |b: &Branch| matches!(b.kind, BranchKind::Receiver { .. }) && !b.at_boundary;
                        let joins = matches!(step, Step::Join(..));
                        let same = now.iter().all(|b| match of(&before, b) {
                            Some(was) => was == counted(b) || (joins && is_replaced(b)),
                            None => joins && !b.at_boundary,
                        });
                        let left = now.len() >= before.len() || matches!(step, Step::Leave(..));
                        prop_assert!(new.epoch > old.epoch || (same && left), "branches changed within an epoch");
                    }
                }
            }
        }
        check_programs(&w.domain)?;
        for (name, g) in w.domain.state.groups.iter() {
            if let Some((id, epoch)) = epochs.get(name) {
                prop_assert!(*id != g.allocation.group_id || g.epoch >= *epoch);
            }
            match g.making() {
                Some(_) => check_both_trees(&w, name)?,
                None => check_traffic(&w.domain, name),
            }
        }
        covered.check(&w)?;
        for host in w.domain.hosts(&NameFilter::default(), None, 1000).items {
            let all = w.domain.state.groups.iter().filter(|(_, g)| g.members.get(&host.name).is_some()).map(|(n, _)| n);
            let found = w.domain.state.groups.of_host(&host.name);
            prop_assert_eq!(found.collect::<Vec<_>>(), all.collect::<Vec<_>>(), "{}", host.name);
        }
        let of_group = |g: &crate::resource::Group| {
            g.ended.values().copied().chain([g.allocation.session.designated_qpn]).collect::<Vec<_>>()
        };
        let qpns: Vec<_> = w.domain.state.groups.iter().flat_map(|(_, g)| of_group(g)).collect();
        prop_assert_eq!(qpns.iter().collect::<BTreeSet<_>>().len(), qpns.len(), "a QPN is in two places");
        prop_assert_eq!(w.domain.state.pools.in_use()[3], qpns.len());
    }
    for node in w.domain.all_nodes() {
        w.run(Command::PortsDown { node: node.name, ports: BTreeSet::new() }).unwrap();
        covered.check(&w)?;
    }
    for name in w.domain.state.groups.iter().map(|(n, _)| n.to_owned()).collect::<Vec<_>>() {
        w.run(Command::RetryMove { group: name.clone() }).unwrap();
        w.confirm();
        w.run(Command::FinishMove { group: name.clone() }).unwrap();
        prop_assert!(w.domain.state.groups.get(&name).unwrap().behind.is_none());
        check_traffic(&w.domain, &name);
    }
    check_restart(&w)
}

/// The programs of a group, made of the whole ones of both trees.
fn staged_programs(group: &Group, ground: Ground<'_>) -> BTreeMap<NodeIx, GroupProgram> {
    let of = |plan: &GroupPlan| -> BTreeMap<NodeIx, GroupProgram> {
        let nodes = plan.tree.nodes().map(|t| t.node).enumerate();
        nodes.map(|(at, node)| (node, ground.programs(plan).at(at))).collect()
    };
    let Some(plan) = group.plan() else { return BTreeMap::new() };
    let mut all = of(plan);
    let Some(next) = group.making().and_then(|making| making.plan.as_deref()) else { return all };
    let is_node = |b: &Branch| matches!(b.kind, BranchKind::Node { .. });
    for (node, mut new) in of(next) {
        if let Some(program) = all.get_mut(&node) {
            let known: Vec<Ipv6Addr> = program.branches.iter().map(|b| b.address).collect();
            new.branches.retain(|b| !known.contains(&b.address));
            program.branches.extend(new.branches.into_iter().map(|b| Branch { standby: true, ..b }));
            program.replication_sid = program.replication_sid.or(new.replication_sid);
            program.alternate_upstream = Some(new.upstream.port).filter(|port| *port != program.upstream.port);
        } else {
            new.branches.iter_mut().for_each(|b| b.standby = is_node(b));
            all.insert(node, new);
        }
    }
    all
}

/// Every node has the programs that the groups' trees give it, and no others: what a change left as it was, is what it was to be.
fn check_programs(d: &Domain) -> Result<(), TestCaseError> {
    let Some(ground) = d.state.ground() else { return Ok(()) };
    let mut wanted = vec![BTreeMap::new(); ground.network.len()];
    for (_, g) in d.state.groups.iter() {
        for (node, program) in staged_programs(g, ground) {
            wanted[node].insert(g.allocation.group_id, program);
        }
    }
    for (at, wanted) in wanted.into_iter().enumerate() {
        let spec = d.state.whole_spec(at);
        let has: BTreeMap<_, _> = spec.groups.iter().map(|(id, p)| (*id, p.clone())).collect();
        prop_assert_eq!(d.state.nodes[at].spec.groups.len(), has.len(), "{}", &spec.base.name);
        prop_assert_eq!(has, wanted, "{}", &spec.base.name);
        for (id, program) in d.state.programs_at(at) {
            let whole = spec.groups.get(&id).unwrap();
            let addresses: Vec<Ipv6Addr> = whole.branches.iter().map(|b| b.address).collect();
            prop_assert_eq!(program.addresses().collect::<Vec<_>>(), addresses);
            prop_assert_eq!(program.branches().collect::<Vec<_>>(), whole.branches.clone());
            let is = (program.epoch(), program.is_headend(), program.source_port(), program.upstream_port());
            let source_port = whole.headend.as_ref().map(|headend| headend.source_port);
            prop_assert_eq!(is, (whole.epoch, whole.headend.is_some(), source_port, whole.upstream.port));
            let has_receivers = whole.branches.iter().any(|b| matches!(b.kind, BranchKind::Receiver { .. }));
            prop_assert_eq!(program.has_receivers(), has_receivers);
            prop_assert_eq!(program.alternate_upstream(), whole.alternate_upstream);
            prop_assert_eq!(program.multicast(), whole.multicast);
            prop_assert_eq!(program.multicast_route(), whole.multicast_route());
            // Where data comes from, and where it goes: as both ends have it.
            let sent = |to: NodeIx, port: PortIndex, by: &GroupProgram| {
                let address = d.state.nodes[to].spec.base.node_address;
                by.branches.iter().any(|b| b.address == address && b.port == port && !b.standby)
            };
            let is_moving = program.alternate_upstream().is_some();
            let waits = whole.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. })).all(|b| b.standby);
            match program.parent() {
                Some((parent, port, of)) => {
                    let by = d.state.program_of(id, parent).unwrap();
                    prop_assert!(!is_moving && of.epoch() == by.epoch() && sent(at, port, &by.make()));
                }
                None => prop_assert!(is_moving || whole.headend.is_some() || waits),
            }
            let children: BTreeSet<NodeIx> = program.children().map(|(child, ..)| child).collect();
            for (child, port, of) in program.children() {
                let its = d.state.program_of(id, child).unwrap();
                prop_assert!(sent(child, port, whole) && of.epoch() == its.epoch());
                prop_assert_eq!(its.parent().map(|(parent, port, _)| (parent, port)), Some((at, port)));
            }
            let stays = |b: &&Branch| {
                let child = d.state.nodes.iter().position(|n| n.spec.base.node_address == b.address).unwrap();
                let program = d.state.program_of(id, child).unwrap();
                let is_child = !b.standby && program.alternate_upstream().is_none();
                is_child != children.contains(&child)
            };
            let nodes = || whole.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. }));
            prop_assert_eq!(nodes().find(stays), None);
        }
    }
    for (link, ends) in ground.network.spec.links.iter().enumerate() {
        let indexed: BTreeSet<GroupId> = d.state.groups.trees().using(link).collect();
        for end in [&ends.a, &ends.b] {
            let (Some(at), true) = (d.state.index(&end.device), ground.network.ends(link).is_some()) else { continue };
            let programs = d.state.programs_at(at).filter(|(_, p)| uses_port(&d.state.nodes[at], p, &end.port));
            let using: BTreeSet<GroupId> = programs.map(|(id, _)| id).collect();
            prop_assert!(using.is_subset(&indexed), "{:?}: {:?}, indexed {:?}", end, using, indexed);
            // While a child changes from one link to another of the same parent, the parent's program has the one in force alone.
            let is_moving = |id: &GroupId| d.state.groups.by_id(*id).is_some_and(|group| group.making().is_some());
            prop_assert!(indexed.difference(&using).all(is_moving), "{:?}: {:?}, indexed {:?}", end, using, indexed);
        }
    }
    Ok(())
}

/// While both trees are in force every node gets a bounded number of copies; feedback follows the present tree, and a
/// node that restarts uses the new tree at once.
fn check_both_trees(w: &World, name: &str) -> Result<(), TestCaseError> {
    let d = &w.domain;
    let (group, view) = (d.state.groups.get(name).unwrap(), d.group(name).unwrap());
    let id = view.status.group_id;
    let root =
        d.all_nodes().into_iter().map(|n| n.name).find(|n| program(d, n, id).is_some_and(|p| p.headend.is_some()));
    let mut todo = vec![(root.unwrap(), None)];
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    while let Some((node, port)) = todo.pop() {
        let p = program(d, &node, id).expect("copies go to nodes with a program");
        if let Some(port) = port {
            prop_assert!(
                p.upstream.port == port || p.alternate_upstream == Some(port),
                "{}: data from a port that it does not accept data from",
                node
            );
        }
        let n = copies.entry(node.clone()).or_default();
        *n += 1;
        prop_assert!(*n <= 4, "{} gets {} copies", node, n);
        for b in p.branches.iter().filter(|b| matches!(b.kind, BranchKind::Node { .. })) {
            let base = d.node_spec(&node).unwrap().base.clone();
            let far = across(d, &node, b.port, b.next_hop);
            let child = program(d, &far, id).unwrap();
            let answers_here = child.upstream.destination == base.node_address;
            let is_new = group.plan().unwrap().tree.nodes().all(|t| d.state.nodes[t.node].spec.base.name != far);
            prop_assert!(!b.standby || !answers_here || is_new, "a staged child of {} sends feedback there", node);
            let at = d.node_spec(&far).unwrap().base.ports.iter().find(|q| {
                matches!(&q.peer, Peer::Node { name, link_local } if *name == node && base.ports.iter().any(|mine| mine.index == b.port && mine.link_local == *link_local))
            }).unwrap().index;
            todo.push((far, Some(at)));
        }
    }
    let with_program = d.all_nodes().into_iter().map(|n| n.name).filter(|n| program(d, n, id).is_some()).count();
    prop_assert_eq!(copies.len(), with_program);
    prop_assert_eq!(group.nodes().count(), with_program);

    let mut finished = w.clone();
    finished.confirm();
    finished.run(Command::FinishMove { group: name.to_owned() }).unwrap();
    check_traffic(&finished.domain, name);
    // A restarted controller continues; one that finds no tree in the records uses the new tree at once.
    let again = w.restarted();
    prop_assert_eq!(again.state.groups.get(name).unwrap().epoch, group.epoch);
    prop_assert!(again.moving(name).is_some());
    for n in d.all_nodes() {
        prop_assert_eq!(program(&again, &n.name, id), program(d, &n.name, id), "{}", n.name);
    }
    let again = w.restarted_by_a_version_without_trees();
    prop_assert_eq!(again.state.groups.get(name).unwrap().epoch, group.epoch + 1);
    // That version's records do not have who is displaced: it takes more late receivers for lost.
    let lost = |of: &GroupProgram| of.branches.iter().filter(|b| b.lost).map(|b| b.address).collect::<BTreeSet<_>>();
    for n in finished.domain.all_nodes() {
        let programs = [&again, &finished.domain].map(|d| program(d, &n.name, id));
        if let [Some(again), Some(finished)] = &programs {
            prop_assert!(lost(again).is_superset(&lost(finished)), "{}", n.name);
        }
        let [again, finished] = programs.map(|p| {
            let mut p = p?;
            p.branches.iter_mut().for_each(|b| b.lost = false);
            Some(p)
        });
        prop_assert_eq!(again, finished, "{}", n.name);
    }
    Ok(())
}

fn check_restart(w: &World) -> Result<(), TestCaseError> {
    let again = w.restarted();
    prop_assert_eq!(again.revision(), w.domain.revision());
    let (old, new) = (specs(&w.domain), specs(&again));
    prop_assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>());
    for (name, spec) in &new {
        prop_assert_eq!(content(spec), content(&old[name]));
        prop_assert!(spec.generation >= old[name].generation);
        prop_assert_eq!(spec.term, 2);
    }
    for (name, g) in w.domain.state.groups.iter() {
        prop_assert_eq!(again.connection(name), w.domain.connection(name));
        prop_assert_eq!(again.state.groups.get(name).unwrap().epoch, g.epoch);
        prop_assert_eq!(&again.state.groups.get(name).unwrap().metadata, &g.metadata);
        prop_assert_eq!(&again.state.groups.get(name).unwrap().members, &g.members);
    }
    prop_assert_eq!(again.state.pools.in_use(), w.domain.state.pools.in_use());
    prop_assert_eq!(again.state.pools.cursors(), w.domain.state.pools.cursors());
    Ok(())
}

/// Edges y and z behind nodes a and b; z can be reached through a too, and through c, whose link is too small. Without its links to a
/// and b the group is infeasible, and then the link to a is back.
#[test]
fn a_group_that_was_infeasible_counts_nothing_that_children_acknowledged_before() {
    let mut spec = TopologySpec::default();
    let names = ["p", "a", "b", "c", "y", "z"];
    spec.nodes.extend(names.iter().zip(1..).map(|(name, id)| crate::testing::node(name, id)));
    let links = ["p/a a/up", "p/b b/up", "p/c c/up", "y/a a/y", "z/a a/z", "z/b b/z", "z/c c/z"];
    spec.links.extend(links.iter().filter_map(|l| l.split_once(' ')).map(|(a, b)| link(a, b)));
    spec.links[6].mtu = 1500;
    for (at, name) in [("p", "hs"), ("y", "hy"), ("z", "hz")] {
        spec.hosts.push(host(name, spec.hosts.len() as u16 + 1));
        spec.links.push(link(&format!("{at}/host"), &format!("{name}/eth0")));
    }
    let (mut w, mut covered) = (World::with(spec), Covered::default());
    let ports = |ports: &[&str]| Command::PortsDown {
        node: "z".into(),
        ports: ports.iter().map(|p| (*p).to_owned()).collect(),
    };
    w.run(ports(&["a"])).unwrap();
    for i in 0..20 {
        let name = format!("g{i}");
        w.run(group(&name)).unwrap();
        w.run(source(&name, "hs")).unwrap();
        w.run(receiver(&name, "hy")).unwrap();
        _ = w.run(receiver(&name, "hz"));
    }
    covered.check(&w).unwrap();
    let live = |w: &World| w.domain.state.groups.iter().filter(|(_, g)| g.plan().is_some()).count();
    let before = live(&w);
    w.run(ports(&["a", "b"])).unwrap();
    covered.check(&w).unwrap();
    assert!(live(&w) + 5 < before, "{} of {before} groups are infeasible", before - live(&w));
    w.run(ports(&["b"])).unwrap();
    assert_eq!(live(&w), 20);
    covered.check(&w).unwrap();
}

/// While a move is being made, the group's record has the epoch of the next tree and the tree in force. A change of the topology that puts
/// another tree into force has that same epoch.
#[test]
fn a_move_at_once_in_the_epoch_that_a_record_already_has_is_not_forgotten() {
    let first = (vec![0; 4], vec![(3747595704980060198, 1538401449228801300), (4292803943912628, 6453145682690157452)]);
    let steps = [
        Step::Group(0, 40),
        Step::Join(0, 0, true, false, 1),
        Step::Drain(1104),
        Step::Join(0, 2, false, false, 31),
        Step::Drain(34370),
        Step::Open(0),
        Step::Topology(vec![], vec![]),
    ];
    check_steps(&first, &steps).unwrap();
}
