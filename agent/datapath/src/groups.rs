// SPDX-License-Identifier: Apache-2.0
//! The groups in the kernel's maps: the difference between what the programs want and what the maps have is applied and read back.
//!
//! A spec whose programs changed costs what those programs cost. An audit reads every map once, so that drift is found whatever caused it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_agent_core::Scope;
use canopy_bpf::node::types::{self, canopy_drop as Reason, canopy_group_flag as Flag};
use canopy_bpf::node::{Control, Node};
use canopy_bpf::{Result, chain};
use canopy_model::ids::GroupId;
use canopy_model::member::LateStart;
use canopy_model::node_spec::{GroupProgram, NodeSpec};
use canopy_model::programs::Programs;
use canopy_model::srh_hmac::SrhHmac;
use canopy_model::status::{ItemError, ItemKind};

use crate::observe::{self, Held, is};
use crate::probe::{self, Schedule};
use crate::raw_socket::RawSocket;
use crate::render::{self, Entries, Join, Ports, Rendered, Slots, same};

/// Length of an upstream ACK frame, the longest frame that the control program writes.
const ACK_FRAME: usize = 82;
/// How long a node repeats its last feedback after it has adopted a new epoch (decisions 3.9): its parent drops feedback of a newer
/// epoch than its own.
const REPEAT_FOR: Duration = Duration::from_secs(2);

/// The groups of this node.
pub(crate) struct Groups {
    bpf: Arc<Node>,
    /// What was applied and read back, by group; without the groups whose last change failed.
    applied: BTreeMap<u32, Applied>,
    /// `applied` is what the maps have, but for groups that failed: every map was read, and what changed since then was applied.
    audited: bool,
    /// Multicast addresses of `applied`.
    multicasts: BTreeMap<Ipv6Addr, u32>,
    /// Groups that are not as the last reconcile wanted them. They are tried again when everything is compared, or with another program.
    failed: BTreeMap<u32, ItemError>,
    /// Those of them that stayed as they were, because their programs cannot be rendered.
    kept: BTreeSet<u32>,
    /// The programs of the last reconcile, if `audited`.
    programs: Programs,
    /// Ports of the last reconcile: another interface index changes every group that uses the port.
    ports: Ports,
    /// Keys of the last reconcile: every group's entries follow from them.
    hmac: Option<SrhHmac>,
    /// Nothing was pinned: the next PSN of every branch is unknown, also of those that joined at a boundary.
    cold: bool,
    /// The maps are marked to have the state of every group: an agent that is restarted before that is cold again.
    is_warm: bool,
    /// Groups that were not applied when the node was cold: it still is for them.
    cold_groups: BTreeSet<u32>,
    /// Groups in which a branch may wait for a message or for its queue pair, and when those are probed.
    waiting: BTreeMap<u32, Schedule>,
    /// For probes; opened when the first one is due.
    socket: Option<RawSocket>,
    /// Groups whose epoch was adopted recently, and until when their last feedback is repeated.
    repeats: BTreeMap<u32, Instant>,
    /// Groups to which something was done since [`Groups::take_touched`].
    touched: BTreeSet<u32>,
    /// How long what was written has been read back since this was zero.
    pub(crate) read_back: Duration,
}

struct Applied {
    program: GroupProgram,
    entries: Entries,
}

/// A group to bring from what the maps have to what its program wants; `None` = it is gone.
struct Change {
    id: u32,
    was: Held,
    want: Option<(GroupProgram, Rendered)>,
    /// Something was or will be written.
    writes: bool,
}

/// What a reconcile will do to the groups.
#[derive(Default)]
pub(crate) struct Plan {
    changes: Vec<Change>,
    /// Groups that stay as they are, because their programs cannot be rendered.
    pub(crate) kept: BTreeSet<u32>,
    /// Multicast addresses of the groups in the maps: the record of which kernel routes are ours.
    pub(crate) multicasts: BTreeMap<Ipv6Addr, u32>,
    /// What cannot be rendered; beside what failed before, unless `all` groups are compared.
    errors: Vec<ItemError>,
    all: bool,
    ports: Ports,
}

impl Groups {
    pub(crate) fn new(bpf: Arc<Node>, cold: bool) -> Self {
        Self {
            bpf,
            applied: BTreeMap::new(),
            audited: false,
            multicasts: BTreeMap::new(),
            failed: BTreeMap::new(),
            kept: BTreeSet::new(),
            programs: Programs::default(),
            ports: Ports::new(),
            hmac: None,
            cold,
            is_warm: false,
            cold_groups: BTreeSet::new(),
            waiting: BTreeMap::new(),
            socket: None,
            repeats: BTreeMap::new(),
            touched: BTreeSet::new(),
            read_back: Duration::ZERO,
        }
    }

    /// Compares the programs of `spec` that changed with what was applied; all of them with what the maps have if `scope` is everything, or if
    /// it is not known what the maps have.
    pub(crate) fn plan(&mut self, spec: &NodeSpec, ports: Ports, scope: Scope) -> Result<Plan> {
        // A step of a key rotation changes all groups of the node, of which there are at most 16,384.
        let mut all = scope == Scope::All || !self.audited || self.ports != ports || self.hmac != spec.base.hmac;
        let changed: BTreeSet<u32> = match all {
            true => BTreeSet::new(),
            false => spec.groups.changed_since(&self.programs).map(|(id, _)| id.get()).collect(),
        };
        // What the maps have of a group that failed is not known.
        all |= changed.iter().any(|id| self.failed.contains_key(id));
        let mut plan = Plan { all, ..Plan::default() };
        if !all {
            plan.kept.clone_from(&self.kept);
        }
        let held = if all {
            let mut held = observe::all(&self.bpf)?;
            for id in spec.groups.keys() {
                held.entry(id.get()).or_default();
            }
            held
        } else {
            let mut held = BTreeMap::new();
            for id in changed {
                let entries = self.applied.get(&id).map(|a| a.entries.clone()).unwrap_or_default();
                held.insert(id, observe::state_of(&self.bpf, id, entries)?);
            }
            held
        };
        let addresses = |(id, h): (&u32, &Held)| h.entries.multicasts.iter().map(|a| (*a, *id)).collect::<Vec<_>>();
        plan.multicasts = self.multicasts.clone();
        plan.multicasts.extend(held.iter().flat_map(addresses));
        for (id, was) in held {
            let program = GroupId::new("group", id.into()).ok().and_then(|id| spec.groups.get(&id));
            let Some(program) = program else {
                plan.changes.push(Change { id, was, want: None, writes: true });
                continue;
            };
            match render::render(&spec.base, program, &ports, &was.entries.slots()) {
                Ok(rendered) => {
                    let writes = !is_applied(&was, &rendered);
                    let unchanged = !writes && self.applied.get(&id).is_some_and(|a| a.program == *program);
                    if !unchanged {
                        plan.changes.push(Change { id, was, want: Some((program.clone(), rendered)), writes });
                    } else if was.state.is_some_and(|s| anything_waits(&s)) {
                        self.waiting.entry(id).or_insert_with(|| Schedule::starting(Instant::now()));
                    }
                }
                Err(detail) => {
                    // The group stays in its last state: branches on existing interfaces continue to forward.
                    plan.kept.insert(id);
                    plan.errors.push(error(program, detail));
                }
            }
        }
        plan.ports = ports;
        Ok(plan)
    }

    /// Carries out a plan and reads back what it wrote. Returns what is not as wanted.
    pub(crate) fn apply(&mut self, spec: &NodeSpec, plan: Plan) -> Result<Vec<ItemError>> {
        let Plan { changes, mut errors, ports, kept, all, .. } = plan;
        // Until the end: what the maps have after a failure is unknown.
        self.audited = false;
        self.touched.extend(changes.iter().map(|change| change.id));
        for change in &changes {
            for address in self.applied.remove(&change.id).iter().flat_map(|a| &a.entries.multicasts) {
                self.multicasts.remove(address);
            }
            self.retire(change)?;
        }
        for change in changes {
            let Some((program, rendered)) = &change.want else {
                self.sweep(&change, &Entries::default())?;
                self.repeats.remove(&change.id);
                self.waiting.remove(&change.id);
                self.cold_groups.remove(&change.id);
                continue;
            };
            let done = if change.writes { self.write(&change, rendered) } else { Ok(None) };
            match done {
                Ok(None) => {
                    self.cold_groups.remove(&change.id);
                    let (program, entries) = (program.clone(), rendered.entries.clone());
                    self.multicasts.extend(entries.multicasts.iter().map(|address| (*address, change.id)));
                    self.applied.insert(change.id, Applied { program, entries });
                }
                Ok(Some(map)) => {
                    let detail = format!("map {map} does not read back as written for group {}", program.name);
                    errors.push(error(program, detail));
                }
                Err(e) => {
                    if self.cold {
                        self.cold_groups.insert(change.id);
                    }
                    errors.push(error(program, format!("group {} is not applied: {}", program.name, chain(&e))));
                }
            }
            self.waiting.insert(change.id, Schedule::starting(Instant::now()));
        }
        if std::mem::take(&mut self.cold) {
            self.cold_groups.extend(&kept);
        }
        if !self.is_warm && self.cold_groups.is_empty() {
            self.bpf.mark_warm()?;
            self.is_warm = true;
        }
        if all {
            self.failed.clear();
        }
        self.failed.extend(errors.into_iter().filter_map(|error| Some((error.group?.get(), error))));
        self.kept = kept;
        self.audited = true;
        self.programs = spec.groups.clone();
        self.ports = ports;
        self.hmac.clone_from(&spec.base.hmac);
        Ok(self.failed.values().cloned().collect())
    }

    /// Deletes entry points that lead to the group no more, and the state of a group that is gone or has another session.
    fn retire(&self, change: &Change) -> Result<()> {
        let (bpf, was) = (&self.bpf, &change.was.entries);
        let none = Entries::default();
        let want = change.want.as_ref().map_or(&none, |(_, rendered)| &rendered.entries);
        for address in was.proxies.keys().filter(|a| !want.proxies.contains_key(*a)) {
            bpf.proxies().delete(&(*address).into())?;
        }
        for qpn in was.qpns.difference(&want.qpns) {
            bpf.qpns().delete(qpn)?;
        }
        for tree in was.trees.difference(&want.trees) {
            bpf.trees().delete(tree)?;
        }
        for address in was.multicasts.difference(&want.multicasts) {
            bpf.multicasts().delete(&(*address).into())?;
        }
        if restarts(change) {
            bpf.groups().delete(&change.id)?;
            bpf.cnps().delete(&change.id)?;
            bpf.states().delete(&change.id)?;
        }
        Ok(())
    }

    /// Writes one group: its branches, its state, new branches, its configuration, then its entry points; removes what is left over.
    /// Returns the first map that does not read back as written.
    ///
    /// The written configuration makes the node send feedback with the new epoch. Before that every branch of the epoch must be
    /// counted (decisions 3.9), and a leaving branch must still hold back the minimum.
    fn write(&mut self, change: &Change, rendered: &Rendered) -> Result<Option<&'static str>> {
        let (id, bpf) = (change.id, Arc::clone(&self.bpf));
        let (was, want) = (&change.was, &rendered.entries);
        let Some(conf) = &want.group else { return Ok(None) };
        let fresh = restarts(change);
        if let Some(state) = was.state.as_deref().filter(|_| !fresh) {
            self.leave_formers(id, state, &rendered.joins)?;
        }
        for (slot, branch) in &want.branches {
            if !is(was.entries.branches.get(slot), Some(branch)) {
                bpf.branches().put(&slot_key(id, *slot), branch)?;
            }
        }
        for (address, peer) in &want.peers {
            if !is(was.entries.peers.get(address), Some(peer)) {
                bpf.peers().put(&peer_key(id, *address), peer)?;
            }
        }
        if let Some(outer) = want.outer.as_deref()
            && !is(was.entries.outer.as_deref(), Some(outer))
        {
            bpf.outers().put(&id, outer)?;
        }
        // Before the flag that makes the programs read it.
        if let Some(hmac) = &want.hmac
            && !is(was.entries.hmac.as_ref(), Some(hmac))
        {
            bpf.hmacs().put(&id, hmac)?;
        }
        let known = was.entries.group.filter(|_| !fresh);
        let mut state = was.state.as_deref().copied().filter(|_| !fresh);
        if state.is_none() {
            // No data has passed a headend that is closed; nor another node that has the state of every group that it had.
            let lost = match conf.flags & Flag::GROUP_HEADEND.0 {
                0 => self.is_cold(id),
                _ => conf.flags & Flag::GROUP_CLOSED.0 == 0,
            };
            bpf.states().put(&id, &fresh_state(lost))?;
        }
        if !was.has_cnps || fresh {
            bpf.cnps().put(&id, &types::canopy_cnp::default())?;
        }
        if known.is_none() {
            // The control program requires the entry; no entry point refers to it yet.
            bpf.groups().put(&id, conf)?;
        }
        self.join(id, state.as_ref(), &rendered.joins)?;
        if known.is_some_and(|known| !same(&known, conf)) {
            bpf.groups().put(&id, conf)?;
        }
        state = bpf.states().get(&id)?;
        let slots = want.slots();
        for (address, slot) in was.entries.slots() {
            let counts = state.is_some_and(|s| is_in(&s, slot));
            if !slots.contains_key(&address) || (has(&conf.standby, slot) && counts) {
                bpf.control(id, Control::Remove { slot }, &[0; ACK_FRAME])?;
            }
        }
        if adopts(known.as_ref(), conf) && state.is_some_and(|s| s.high != 0) {
            self.repeats.insert(id, Instant::now() + REPEAT_FOR);
        }
        for (address, proxy) in &want.proxies {
            if !is(was.entries.proxies.get(address), Some(proxy)) {
                bpf.proxies().put(&(*address).into(), proxy)?;
            }
        }
        for qpn in want.qpns.difference(&was.entries.qpns) {
            bpf.qpns().put(qpn, &id)?;
        }
        for tree in want.trees.difference(&was.entries.trees) {
            bpf.trees().put(tree, &id)?;
        }
        for address in want.multicasts.difference(&was.entries.multicasts) {
            bpf.multicasts().put(&(*address).into(), &id)?;
        }
        self.sweep(change, want)?;
        let counted = bpf.states().get(&id)?.is_some_and(|s| counts_all(&s, &rendered.joins));
        let reading = Instant::now();
        let different = observe::differences(&bpf, id, want)?.first().copied();
        self.read_back += reading.elapsed();
        Ok(different.or((!counted).then_some("states")))
    }

    /// Ends the branches of receivers that left, where another membership has their address: before its queue pair gets packets, which
    /// would have the PSN shift of the former one.
    fn leave_formers(&self, id: u32, state: &types::canopy_state, joins: &BTreeMap<u32, Join>) -> Result<()> {
        for (&slot, join) in joins {
            let since = state.since[slot as usize % state.since.len()];
            if join.receiver && is_in(state, slot) && since != join.since {
                self.bpf.control(id, Control::Remove { slot }, &[0; ACK_FRAME])?;
            }
        }
        Ok(())
    }

    /// Joins new branches, and branches behind which receivers moved.
    fn join(&self, id: u32, state: Option<&types::canopy_state>, joins: &BTreeMap<u32, Join>) -> Result<()> {
        for (&slot, &Join { at_boundary, receiver, since, start, lost }) in joins {
            let there = state.filter(|s| is_in(s, slot));
            if there.is_some_and(|s| s.since[slot as usize % s.since.len()] == since) {
                continue;
            }
            // A child node that is active already continues with its next feedback, whatever receivers moved behind it.
            let counts = there.is_some_and(|s| has(&s.active, slot));
            let cold = self.is_cold(id);
            // A receiver proves with its queue pair that it may start, and continues where it started (decisions 3.13).
            let at_boundary = at_boundary && if receiver { start.is_none() } else { !cold && !counts };
            let LateStart { shift, msn_base } = start.unwrap_or_default();
            let lost = (cold || lost) && at_boundary;
            let join = Control::Join { slot, at_boundary, receiver, since, lost, shift, msn_base };
            self.bpf.control(id, join, &[0; ACK_FRAME])?;
        }
        Ok(())
    }

    /// Whether the node may have lost the state of the group.
    fn is_cold(&self, id: u32) -> bool {
        self.cold || self.cold_groups.contains(&id)
    }

    /// Removes entries of the group that `want` has no more, and everything else of a group that is gone.
    fn sweep(&self, change: &Change, want: &Entries) -> Result<()> {
        let (bpf, id, was) = (&self.bpf, change.id, &change.was);
        for address in was.entries.peers.keys().filter(|a| !want.peers.contains_key(*a)) {
            bpf.peers().delete(&peer_key(id, *address))?;
        }
        for slot in was.entries.branches.keys().filter(|slot| !want.branches.contains_key(slot)) {
            bpf.branches().delete(&slot_key(id, *slot))?;
        }
        if was.entries.outer.is_some() && want.outer.is_none() {
            bpf.outers().delete(&id)?;
        }
        if was.entries.hmac.is_some() && want.hmac.is_none() {
            bpf.hmacs().delete(&id)?;
        }
        if want.group.is_none() {
            bpf.states().delete(&id)?;
            bpf.cnps().delete(&id)?;
            for reason in 0..Reason::DROP_REASONS.0 {
                bpf.drops().delete(&types::canopy_drop_key { group_id: id, reason })?;
            }
        }
        Ok(())
    }

    /// Address and port of the branch in a slot.
    pub(crate) fn peer(&self, group: u32, slot: u32) -> Option<(Ipv6Addr, u32)> {
        let peers = &self.applied.get(&group)?.entries.peers;
        peers.iter().find(|(_, peer)| peer.slot == slot).map(|(address, peer)| (*address, peer.ifindex))
    }

    /// The addresses and slots of a group's branches; `None` if it is not known what the maps have of it.
    pub(crate) fn branches(&self, group: u32) -> Option<Slots> {
        self.applied.get(&group).map(|applied| applied.entries.slots())
    }

    /// The program of a group, if it was applied.
    pub(crate) fn program(&self, group: u32) -> Option<&GroupProgram> {
        self.applied.get(&group).map(|applied| &applied.program)
    }

    /// Groups to which something was done since the last call.
    pub(crate) fn take_touched(&mut self) -> BTreeSet<u32> {
        std::mem::take(&mut self.touched)
    }

    /// Whether [`Groups::attend_waiting`] has anything to do.
    pub(crate) fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Probes the queue pairs of late receivers, and acknowledges data for groups in which every branch waits (shared.h
    /// CONTROL_PENDING_ONLY). Polls the groups that changed until no branch waits.
    pub(crate) fn attend_waiting(&mut self) {
        let now = Instant::now();
        let Self { bpf, waiting, socket, applied, .. } = self;
        waiting.retain(|id, schedule| {
            let state = bpf.states().get(id).ok().flatten();
            let Some(state) = state.filter(anything_waits) else { return false };
            if is_empty(&state.active)
                && let Err(e) = bpf.control(*id, Control::PendingOnly, &[0; ACK_FRAME])
            {
                tracing::warn!(
                    group = id,
                    error = chain(&e),
                    "cannot acknowledge data for a group in which every branch waits"
                );
            }
            if let Some(of) = applied.get(id).filter(|_| !is_empty(&state.probing) && schedule.is_due(now)) {
                let slots = of.entries.slots();
                let probed = slots.iter().filter(|(_, slot)| has(&state.probing, **slot)).map(|(address, _)| *address);
                if let Err(e) = probe::send(socket, &of.program, probed) {
                    tracing::warn!(
                        group = of.program.name,
                        error = chain(&e),
                        "cannot probe the queue pairs of late receivers"
                    );
                }
            }
            true
        });
    }

    /// Whether the last feedback of any group is being repeated.
    pub(crate) fn repeats(&self) -> bool {
        !self.repeats.is_empty()
    }

    /// Repeats the last feedback of groups whose epoch was adopted less than [`REPEAT_FOR`] ago. A failure is logged and retried at
    /// the next interval.
    pub(crate) fn repeat_feedback(&mut self) {
        let Self { bpf, repeats, .. } = self;
        let now = Instant::now();
        repeats.retain(|_, until| *until > now);
        for id in repeats.keys() {
            if let Err(e) = bpf.control(*id, Control::Repeat, &[0; ACK_FRAME]) {
                tracing::warn!(group = id, error = chain(&e), "cannot repeat the last feedback to the parent node");
            }
        }
    }
}

fn error(g: &GroupProgram, detail: String) -> ItemError {
    ItemError { kind: ItemKind::Group, name: g.name.clone(), group: Some(g.group_id), detail }
}

/// Whether the maps have exactly what is wanted, and every wanted branch counts.
fn is_applied(was: &Held, want: &Rendered) -> bool {
    let (a, b) = (&was.entries, &want.entries);
    let all = |same: bool, lengths: (usize, usize)| same && lengths.0 == lengths.1;
    is(a.group.as_ref(), b.group.as_ref())
        && all(b.proxies.iter().all(|(k, v)| is(a.proxies.get(k), Some(v))), (a.proxies.len(), b.proxies.len()))
        && a.qpns == b.qpns
        && a.trees == b.trees
        && a.multicasts == b.multicasts
        && is(a.outer.as_deref(), b.outer.as_deref())
        && is(a.hmac.as_ref(), b.hmac.as_ref())
        && all(b.branches.iter().all(|(k, v)| is(a.branches.get(k), Some(v))), (a.branches.len(), b.branches.len()))
        && all(b.peers.iter().all(|(k, v)| is(a.peers.get(k), Some(v))), (a.peers.len(), b.peers.len()))
        && was.has_cnps
        && was.state.as_deref().is_some_and(|s| counts_all(s, &want.joins) && standby_rests(s, b))
}

/// Whether every branch counts, or will from the next message on, since the epoch in which it joined.
fn counts_all(s: &types::canopy_state, joins: &BTreeMap<u32, Join>) -> bool {
    let counts = |slot: u32, since: u32| is_in(s, slot) && s.since[slot as usize % s.since.len()] == since;
    joins.iter().all(|(slot, join)| counts(*slot, join.since))
}

/// Whether no standby branch counts.
fn standby_rests(s: &types::canopy_state, want: &Entries) -> bool {
    want.group.is_none_or(|conf| !want.branches.keys().any(|slot| has(&conf.standby, *slot) && is_in(s, *slot)))
}

/// Whether a known group starts over, or is gone. With another start PSN or source QP the group's state starts again: a source that
/// left and rejoined with another QP can be a single change of the spec.
fn restarts(change: &Change) -> bool {
    let session = |g: &types::canopy_group| (g.start, g.dqpn, g.source_qpn, g.source.hi, g.source.lo);
    let want = change.want.as_ref().and_then(|(_, rendered)| rendered.entries.group.as_ref());
    match (&change.was.entries.group, want) {
        (Some(was), Some(want)) => session(was) != session(want),
        (was, want) => was.is_some() && want.is_none(),
    }
}

/// Whether the group's feedback goes to another node, which has not seen it in this epoch. A headend sends feedback to the source,
/// which has no epochs.
fn adopts(was: Option<&types::canopy_group>, conf: &types::canopy_group) -> bool {
    let parent = |g: &types::canopy_group| (g.epoch, g.up_da.hi, g.up_da.lo);
    conf.flags & Flag::GROUP_HEADEND.0 == 0 && was.is_none_or(|was| parent(was) != parent(conf))
}

/// State of a group before its first data packet, which sets its PSN; nothing is acknowledged until every branch is confirmed
/// (decisions 3.3, 3.9). `lost`: data may have passed nevertheless.
fn fresh_state(lost: bool) -> types::canopy_state {
    let empty = types::canopy_min { key: u64::MAX, msn: u64::MAX, credits: u64::MAX };
    types::canopy_state { lost: lost.into(), tree: [empty; 256], ..types::canopy_state::default() }
}

fn slot_key(group_id: u32, slot: u32) -> types::canopy_slot_key {
    types::canopy_slot_key { group_id, slot }
}

fn peer_key(group_id: u32, address: Ipv6Addr) -> types::canopy_peer_key {
    types::canopy_peer_key { group_id, pad: 0, address: address.into() }
}

/// Whether a branch has the slot: it counts, waits for a message, or is probed.
fn is_in(s: &types::canopy_state, slot: u32) -> bool {
    has(&s.active, slot) || has(&s.pending, slot) || has(&s.probing, slot)
}

/// Whether any branch gets no data yet.
fn anything_waits(s: &types::canopy_state) -> bool {
    !is_empty(&s.pending) || !is_empty(&s.probing)
}

fn is_empty(slots: &types::canopy_slots) -> bool {
    slots.word == [0; 2]
}

fn has(slots: &types::canopy_slots, slot: u32) -> bool {
    slots.word[slot as usize / 64] >> (slot % 64) & 1 == 1
}
