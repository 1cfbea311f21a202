// SPDX-License-Identifier: Apache-2.0
//! All intents, allocations, plans and statuses of one domain, in memory.
//!
//! A command passes through [`Domain::prepare`] (checks, plans, and returns the records to write) and [`Domain::apply`]
//! (changes the state). [`Domain::restore`] builds the same domain from the durable records. Work is proportional to
//! what a command touches: a join replans its group, a link that breaks or comes back the groups that it concerns, and a new topology
//! every group.
//!
//! [`Domain`] is the only type that other crates see. Behind it, each of the following depends only on those before it:
//!
//! - `state`: what commands change, with `drains`, `silences`, and `groups` with its indexes `labels`, `host_index`, `tenant_index` and `tree_index`; `unrecorded`: what the record of the topology's links has of groups; `change`: what a command changes, and the only
//!   code that applies it.
//! - `links`: threshold machines and queue reports of link directions, with `losses` and `data_flows`; `recorded_rtts`: which of their
//!   measurements are durable; `withholding`: links that carry
//!   everything but data; `restarts`: agents that are away for a moment; `dead_ports`: which links carry nothing.
//! - `bound`: how far a node may be behind its group's epoch.
//! - `multicast`, `staging`: plans that concern several groups, or two trees of one; `group_change`: the new plan of one
//!   group; `replan`: that of groups over another network; `affected`: of which groups, if only links go out of service and come back.
//! - `tenants`: what tenants have beside their quotas; `group_commands`, `member_commands`, `topology_commands`, `hmac`, `drain_commands`, `silence_commands`: checks of commands, by resource.
//! - `effects`: what a change would do. `restore`: the state from its records. `connection`, `views`, `node_views`, `link_views`, `flow_views`, `host_views`, `path_views`: what APIs show; `fabric_now`: what hosts get; `paging`: a page of it; `queries`: how [`Domain`] is asked for it.
//! - `reports`, `stall`, `late`, `deliveries`, `drops`: what agents send. `symptoms`: signs of problems in all of it.

use std::collections::BTreeSet;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::addressing::AddressPlan;
use canopy_model::congestion::PortCongestion;
use canopy_model::drain::DrainSpec;
use canopy_model::group::GroupSpec;
use canopy_model::ids::GroupId;
use canopy_model::member::{Connection, MemberSpec};
use canopy_model::node_spec::NodeSpec;
use canopy_model::reach::HostReach;
use canopy_model::silence::SilenceSpec;
use canopy_model::status::{ItemKind, NodeStatus};
use canopy_model::telemetry::{GroupTelemetry, LinkLoss, LinkRtt};
use canopy_model::topology::TopologySpec;
use canopy_units::{Monotonic, UnixTime};

use crate::capture::{CapturePlan, MAX_FRAMES};
use crate::command::{Applied, Command};
use crate::desired::DesiredNode;
use crate::drops::Rise;
use crate::effect;
use crate::error::{DomainError, RestoreError};
use crate::health::Symptom;
use crate::hmac::HmacSettings;
use crate::limits::MAX_PAGE;
use crate::metadata::Metadata;
use crate::principal::Written;
use crate::programs::NodePrograms;
use crate::quota::{Quota, Quotas};
use crate::record::{Record, StateRecord};
use crate::resource::{Group, Step};
use crate::secret::Secret;
use crate::tenant::Scope;
use crate::threshold::ThresholdSettings;
use crate::uid::Uid;
use crate::view::{Branches, HmacView, Page, TenantView, WaitedFor};

mod affected;
mod bound;
mod capturing;
mod change;
mod clocks;
mod connection;
mod data_flows;
mod dead_ports;
mod deliveries;
mod drain_commands;
mod drains;
mod drops;
mod effects;
mod fabric_now;
mod far;
mod flow_views;
mod group_change;
mod group_commands;
mod groups;
mod hmac;
mod holding;
mod host_index;
mod host_views;
mod labels;
mod late;
mod leaving;
mod link_views;
mod links;
mod loss_news;
mod losses;
mod map_views;
mod member_commands;
mod multicast;
mod node_views;
mod out_of_service;
mod paging;
mod pair_effects;
mod path_views;
mod queries;
mod recorded_rtts;
mod replan;
mod reports;
mod restarts;
mod restore;
mod retire_commands;
mod silence_commands;
mod silences;
mod staging;
mod stall;
mod state;
mod symptoms;
mod tenant_index;
mod tenants;
#[cfg(test)]
mod tests;
mod topology_commands;
mod topology_draft;
mod tree_index;
mod unrecorded;
mod views;
mod waited_for;
mod withholding;

pub use change::Prepared;
pub use dead_ports::DeadPorts;
pub use late::LateNews;
pub use loss_news::LossNews;
pub use paging::{EXAMINED, GroupFilter, NameFilter};
pub use staging::Move;
pub use stall::{BranchNews, Reaction};
pub use topology_draft::{BuiltTopology, TopologyDraft};

use change::{Effect, LinksApplied};
use drain_commands::DrainCommands;
use group_commands::{GroupCommands, may_open};
use hmac::HmacCommands;
use links::Links;
use member_commands::MemberCommands;
use reports::Reports;
use retire_commands::RetireCommands;
use silence_commands::SilenceCommands;
use stall::Stalls;
use state::State;
use symptoms::Symptoms;
use tenants::QuotaBounds;
use topology_commands::TopologyCommands;

/// One domain: a topology and the groups that run over it.
#[derive(Clone, Debug)]
pub struct Domain {
    state: State,
    links: Links,
}

impl Domain {
    /// Builds the domain that wrote `records` (each with its key, in any order). No records are an empty domain.
    ///
    /// The order of the identifiers that no host may guess follows from `secret`: the same for the whole life of the domain, and drawn at its
    /// first start. Call [`Domain::leap`] when the records are a copy from before the last change.
    ///
    /// Every node's spec gets the highest revision ever committed as its generation, so that none goes back; `term` is
    /// the caller's, higher than that of every leader before. `thresholds` are for links without their own alpha and
    /// K_base; `hmac` is what operators want of the SRH HMAC TLV: [`Command::AdvanceHmac`] takes the keys of the records there. The clock
    /// of link measurements starts at 0. The thresholds of ports are those of before, as measured then.
    ///
    /// A group that this version cannot plan although an earlier one could is not refused: its status contains the reason.
    ///
    /// # Errors
    /// [`RestoreError`] when the plan is impossible, or a record contradicts its key or another record.
    pub fn restore(
        plan: AddressPlan,
        thresholds: ThresholdSettings,
        hmac: HmacSettings,
        secret: Secret,
        term: u64,
        records: impl IntoIterator<Item = (String, Record)>,
    ) -> Result<Domain, RestoreError> {
        let (mut state, rtts) = restore::restore(plan, hmac, secret, term, records)?;
        let links = Links::restore(thresholds, rtts, &mut state);
        Ok(Self { state, links })
    }

    /// Checks `command` against the present state and plans it; nothing changes. Commit the returned writes in one
    /// transaction, then call [`Domain::apply`].
    ///
    /// # Errors
    /// Any [`DomainError`] but `Stale`. Fields are named as in the API (`spec.qpn`); fields of a group that the command
    /// touches indirectly have the group as a prefix (`groups[g1].spec.pathMtu`).
    pub fn prepare(&self, command: Command) -> Result<Prepared, DomainError> {
        self.prepare_as(command, &Written::default())
    }

    /// [`Domain::prepare`] for a change that is `written` by an operator or host: that becomes part of the resource's metadata.
    ///
    /// # Errors
    /// As [`Domain::prepare`].
    pub fn prepare_as(&self, command: Command, written: &Written) -> Result<Prepared, DomainError> {
        self.prepare_within(command, written, QuotaBounds::WhatIsAdded, None)
    }

    /// The same with the topology of the command as it was built from [`Domain::draft_topology`]; it is built again if anything was committed
    /// since then.
    ///
    /// # Errors
    /// As [`Domain::prepare`].
    pub fn prepare_built(
        &self,
        command: Command,
        written: &Written,
        built: Option<BuiltTopology>,
    ) -> Result<Prepared, DomainError> {
        self.prepare_within(command, written, QuotaBounds::WhatIsAdded, built)
    }

    /// What a topology is built from, apart from the domain: for a large one that is most of the work of [`Domain::prepare`]. `None` if it is
    /// the one that is declared.
    pub fn draft_topology(&self, spec: &Arc<TopologySpec>) -> Option<TopologyDraft> {
        let is_declared = self.declared_topology().is_some_and(|(_, declared)| declared == spec);
        (!is_declared).then(|| TopologyDraft::new(&self.state, Arc::clone(spec)))
    }

    /// The same for what a rollback puts back: it was there before, so that no quota refuses it.
    ///
    /// # Errors
    /// As [`Domain::prepare`].
    pub fn prepare_back(&self, command: Command, written: &Written) -> Result<Prepared, DomainError> {
        self.prepare_within(command, written, QuotaBounds::NotWhatIsPutBack, None)
    }

    fn prepare_within(
        &self,
        command: Command,
        written: &Written,
        bounds: QuotaBounds,
        built: Option<BuiltTopology>,
    ) -> Result<Prepared, DomainError> {
        let groups = GroupCommands(&self.state, bounds);
        let members = MemberCommands(&self.state, bounds);
        let topology = TopologyCommands(&self.state);
        let retirements = RetireCommands(&self.state);
        match command {
            Command::PutTopology { labels, spec, if_match } => topology.put(labels, spec, if_match, written, built),
            Command::DeleteTopology => topology.delete(),
            Command::PutDrain { name, labels, spec, if_match, create_only } => {
                DrainCommands(&self.state).put(name, labels, spec, if_match, create_only, written)
            }
            Command::DeleteDrain { name } => DrainCommands(&self.state).delete(name),
            Command::PutSilence { name, labels, spec, create_only } => {
                SilenceCommands(&self.state).put(name, labels, spec, create_only, written)
            }
            Command::DeleteSilence { name } => SilenceCommands(&self.state).delete(name),
            Command::Retire { node, spec } => retirements.begin(node, spec, written),
            Command::CancelRetirement { node } => retirements.cancel(node),
            Command::AdvanceRetirements => retirements.advance(written),
            Command::NodeCleanedUp { node, report } => retirements.cleaned_up(&node, report, written),
            Command::NodeRevoked { node, retirement } => retirements.revoked(&node, retirement, written),
            Command::PortsDown { node, ports } => topology.ports_down(&node, ports),
            Command::PutGroup { name, tenant, labels, spec, if_match, create_only } => {
                groups.put((name, tenant), labels, spec, if_match, create_only, written)
            }
            Command::DeleteGroup { name } => groups.delete(name),
            Command::ContinueDeletion { group } => groups.continue_deletion(group),
            Command::FailGroup { name, host, since, reason } => groups.fail(name, &host, since, reason),
            Command::FinishMove { group } => groups.finish_move(group),
            Command::GiveUpMove { group, since } => groups.give_up_move(group, since),
            Command::RetryMove { group } => groups.retry_move(group),
            Command::OpenGroup { group } => groups.open(group),
            Command::PutMember { group, spec, create_only, instance, lease } => {
                members.put(&group, spec, create_only, instance, lease, written)
            }
            Command::DeleteMember { group, host } => members.delete(&group, &host, None),
            Command::EvictMember { group, host, since, reason } => members.evict(&group, &host, since, reason),
            Command::AnswerMember { group, host, since } => members.answer(&group, &host, since),
            Command::StartMember { group, host, since, start } => members.start(&group, &host, since, start),
            Command::PushThresholds => Ok(self.links.prepare_push(&self.state)),
            Command::RotateHmac => HmacCommands(&self.state).rotate(),
            Command::AdvanceHmac => Ok(HmacCommands(&self.state).advance()),
        }
    }

    /// The topology as it is declared; nothing of its state.
    pub fn declared_topology(&self) -> Option<(&Metadata, &Arc<TopologySpec>)> {
        self.state.topology.as_ref().map(|t| (&t.metadata, &t.network.spec))
    }

    /// A drain as it is declared.
    pub fn declared_drain(&self, name: &str) -> Option<(&Metadata, &DrainSpec)> {
        self.state.drains.get(name).map(|d| (&d.metadata, &d.spec))
    }

    /// A silence as it is declared.
    pub fn declared_silence(&self, name: &str) -> Option<(&Metadata, &SilenceSpec)> {
        self.state.silences.get(name).map(|s| (&s.metadata, &s.spec))
    }

    /// All silences as they are declared, in name order.
    pub fn declared_silences(&self) -> impl Iterator<Item = (&str, &SilenceSpec)> {
        self.state.silences.all().map(|s| (s.metadata.name.as_str(), &s.spec))
    }

    /// A group as it is declared.
    pub fn declared_group(&self, name: &str) -> Option<(&Metadata, &GroupSpec)> {
        self.state.groups.get(name).map(|g| (&g.metadata, &g.spec))
    }

    /// The tenant of a group; `None`: there is no such group.
    pub fn tenant_of(&self, group: &str) -> Option<&str> {
        self.state.groups.get(group).map(|g| g.metadata.tenant.as_str())
    }

    /// The same of the one group of this name; `None` of any other.
    pub fn tenant_of_one(&self, group: &str, uid: Option<Uid>) -> Option<&str> {
        let metadata = &self.state.groups.get(group)?.metadata;
        (Some(metadata.uid) == uid).then_some(metadata.tenant.as_str())
    }

    /// How much tenants may have from now on. What they have stays, also above it.
    pub fn limit_tenants(&mut self, quotas: Quotas) {
        self.state.quotas = quotas;
    }

    /// How much a tenant may have.
    pub fn quota(&self, tenant: &str) -> Quota {
        self.state.quotas.of(tenant)
    }

    /// One page of the tenants that a scope has, in name order, behind the name `after`: what they have beside what they may have.
    pub fn tenants(&self, scope: &Scope, after: Option<&str>, limit: usize) -> Page<TenantView> {
        tenants::page(&self.state, scope, after, limit.clamp(1, MAX_PAGE))
    }

    /// The first group, in name order, that is being deleted.
    pub fn next_deletion(&self) -> Option<&str> {
        self.state.groups.deleting().next()
    }

    /// Whether a node's agent is connected, and the minor version of the contract with it once it has reported; `None` for an unknown
    /// node.
    pub fn agent_of(&self, node: &str) -> Option<(bool, Option<u32>)> {
        let node = self.state.node(node)?;
        Some((node.connected, node.status.as_ref().map(|status| status.minor_version)))
    }

    /// Whether a group has members.
    pub fn has_members(&self, group: &str) -> bool {
        self.state.groups.get(group).is_some_and(|g| !g.members.is_empty())
    }

    /// A membership as it is declared.
    pub fn declared_member(&self, group: &str, host: &str) -> Option<(Metadata, MemberSpec)> {
        let group = self.state.groups.get(group)?;
        group.members.get(host).map(|m| (m.metadata(&group.metadata.tenant), m.spec()))
    }

    /// What applying a prepared command would do to nodes, groups and paths, the worst first. As long as preparing it
    /// took, and some tenths of a second at most for paths.
    pub fn effects(&self, prepared: &Prepared) -> Vec<effect::Effect> {
        effects::effects(&self.state, &prepared.effect)
    }

    /// The uid of the resource that the next change creates, if it creates one.
    pub fn next_uid(&self) -> Uid {
        self.state.new_uid()
    }

    /// Applies a prepared command, at `now` on the clock of [`Domain::link_rtts`]. Its writes must be durable before
    /// this call.
    ///
    /// # Errors
    /// `Stale` when another command was applied since it was prepared; nothing changes then.
    pub fn apply(&mut self, prepared: Prepared, now: Monotonic) -> Result<Applied, DomainError> {
        let Prepared { base_revision, outcome, generation, effect, .. } = prepared;
        self.state.begin(base_revision, &effect)?;
        let (nodes, groups) = match effect {
            Effect::None => Default::default(),
            Effect::Group(effect) => self.state.apply_group(*effect),
            Effect::Topology(effect) => {
                let changed = self.state.apply_topology(*effect);
                self.links.tune(&self.state, now);
                changed
            }
            Effect::Links(effect) => {
                let LinksApplied { nodes, groups, ports } = self.state.apply_links(*effect, now);
                self.links.avoid(&self.state, ports);
                (nodes, groups)
            }
            Effect::Drains { drains, retirements } => {
                self.state.drains = drains;
                let nodes = retirements.map(|retirements| self.state.apply_retirements(retirements, now));
                (nodes.unwrap_or_default(), Vec::new())
            }
            Effect::Silence(effect) => {
                self.state.apply_silence(effect);
                Default::default()
            }
            Effect::Retirements(retirements) => (self.state.apply_retirements(retirements, now), Vec::new()),
            Effect::Thresholds(effects) => {
                let nodes = effects.nodes.into_iter().map(|effect| self.state.apply_thresholds(effect)).collect();
                self.links.pushed(&self.state, effects.recorded);
                (nodes, Vec::new())
            }
            Effect::Hmac(keys) => (self.state.apply_hmac(keys), Vec::new()),
        };
        Ok(Applied { outcome, generation, nodes, groups })
    }

    /// Passes over the numbers that may have been given after the records were copied: up to 2^20 of each kind. Returns the record
    /// to write before any command is applied.
    #[must_use = "a leap that is not durable is undone by the next restart"]
    pub fn leap(&mut self) -> Record {
        self.state.pools.leap();
        Record::State(StateRecord { revision: self.state.revision, cursors: self.state.pools.cursors() })
    }

    /// Every node's spec carries `term` from now on, which is higher than the present one. Returns the nodes.
    pub fn raise_term(&mut self, term: u64) -> Vec<String> {
        self.state.raise_term(term)
    }

    /// Takes a node's report. Returns the names of the groups whose phase, reason or conditions changed.
    ///
    /// # Errors
    /// `NotFound` for a node that the topology does not have; `Invalid` for more errors than a node may report.
    pub fn report(&mut self, status: NodeStatus) -> Result<Vec<String>, DomainError> {
        let groups = Reports(&mut self.state).status(status)?;
        hmac::wait_for_another(&mut self.state);
        leaving::wait_for_another(&mut self.state);
        Ok(groups)
    }

    /// Notes that a node's agent is connected. Returns the names of the groups whose phase, reason or conditions changed; a node that the
    /// topology does not have is ignored.
    pub fn agent_connected(&mut self, node: &str) -> Vec<String> {
        Reports(&mut self.state).connected(node)
    }

    /// Notes that a node's agent is no longer connected, from `now` on: it restarts, until it is connected or
    /// [`Domain::expire_restarts`] returns the node. Returns as above.
    pub fn agent_gone(&mut self, node: &str, now: Monotonic) -> Vec<String> {
        self.links.forget_queues(node);
        Reports(&mut self.state).gone(node, now)
    }

    /// Notes that a node's agent is about to end and is back `within` this long; `None`: that it is not about to end.
    pub fn agent_announces(&mut self, node: &str, within: Option<Duration>) {
        restarts::announce(&mut self.state, node, within);
    }

    /// Ends restarts of agents whose term has ended at `now`, and doubts those whose nodes do not forward. Returns these nodes: from now on
    /// that they do not answer counts.
    pub fn expire_restarts(&mut self, now: Monotonic) -> Vec<String> {
        restarts::expire(&mut self.state, now)
    }

    /// Names of the nodes that have a link to this one.
    pub fn neighbours(&self, node: &str) -> Vec<String> {
        restarts::neighbours(&self.state, node)
    }

    /// Processes a branch state that `node` reported. A report on a branch that the node no longer has is ignored.
    pub fn branch_news(&mut self, node: &str, id: GroupId, branch: Ipv6Addr, news: BranchNews) -> Reaction {
        Stalls(&mut self.state).news(node, id, branch, news)
    }

    /// Processes what the host of a stalled receiver answered to `node`. Returns the name of the group if the stall is known: its symptoms
    /// have changed.
    pub fn host_probed(&mut self, node: &str, id: GroupId, branch: Ipv6Addr, reach: HostReach) -> Option<String> {
        Stalls(&mut self.state).host_probed(node, id, branch, reach)
    }

    /// What the policies of their groups require for all stalls that `node` has reported and that last, also where a command for them
    /// failed before, or the policy was another one then.
    pub fn due_policies(&self, node: &str) -> Vec<Command> {
        stall::Stalls::due(&self.state, node)
    }

    /// What follows from the state of a late receiver, a branch of `node`, in its present program: where it started becomes durable, and
    /// one whose queue pair was not reset is removed. `None`: it is known.
    pub fn late_receiver(&self, node: &str, id: GroupId, branch: Ipv6Addr, news: LateNews) -> Option<Command> {
        late::news(&self.state, node, id, branch, news)
    }

    /// Whether `node` has reported that the queue pair of this branch is in error.
    pub fn is_fatal(&self, node: &str, id: GroupId, branch: Ipv6Addr) -> bool {
        let node = self.state.index(node).map(|at| &self.state.nodes[at]);
        node.and_then(|n| n.stalls.get(&(id, branch))).is_some_and(|stall| stall.fatal)
    }

    /// Whether every node has confirmed its program of the source's session and the headend takes no data yet: then
    /// [`Command::OpenGroup`] opens the group.
    pub fn may_open(&self, group: &str) -> bool {
        self.state.groups.get(group).is_some_and(|g| may_open(&self.state, g))
    }

    /// Processes the measurements of the agent of `node`, at `now` on any monotonic clock. Unknown
    /// ports are ignored.
    pub fn link_rtts(&mut self, node: &str, rtts: &[LinkRtt], now: Monotonic) {
        self.links.measured(&self.state, node, rtts, now);
    }

    /// Processes what became of the Echo Requests of the agent of `node`, at `now` on the same clock. Returns the links that lose packets
    /// from now on, and those that no longer do (decisions 3.14). Unknown ports are ignored.
    pub fn link_losses(&mut self, node: &str, losses: &[LinkLoss], now: Monotonic) -> Vec<LossNews> {
        let verdicts = self.links.lost(&self.state, node, losses, now);
        verdicts.into_iter().map(|verdict| loss_news::apply(&mut self.state, verdict)).collect()
    }

    /// A stream of telemetry of a node begins, at `now` on the clock of its samples.
    pub fn telemetry_begins(&mut self, node: &str, now: Monotonic) {
        self.links.stream_begins(&self.state, node, now);
    }

    /// Processes what a node counted of its groups' data, at `now` on the same clock, behind the losses of the same sample. Only groups of
    /// which the node has a program of this epoch count. Returns the nodes whose [`Domain::dead_ports`] are other ones now.
    pub fn data_samples<'a>(
        &mut self,
        node: &str,
        samples: impl Iterator<Item = &'a GroupTelemetry>,
        others_at_rest: bool,
        now: Monotonic,
    ) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        for silenced in self.links.data(&self.state, node, samples, others_at_rest, now) {
            let sender = silenced.from.device.clone();
            if withholding::begin(&mut self.state, silenced, now) {
                changed.insert(sender);
            }
        }
        if withholding::end(&mut self.state, node, now) {
            changed.insert(node.to_owned());
        }
        changed
    }

    /// Processes the progress of the groups at `node`, at `now` on the same clock and `wall` on the wall clock. Returns the groups that
    /// stall from now on, or wait for another receiver, or no longer do.
    pub fn progress<'a>(
        &mut self,
        node: &str,
        samples: impl Iterator<Item = &'a GroupTelemetry> + Clone,
        now: Monotonic,
        wall: UnixTime,
    ) -> Vec<String> {
        let mut changed = waited_for::add(&mut self.state, node, samples.clone(), now);
        changed.extend(deliveries::add(&mut self.state, node, samples, now, wall));
        changed
    }

    /// For which receivers the source of a group waits, at `now`; for none if it has no tree. `None`: there is no such group.
    pub fn waited_for(&self, group: &str, now: Monotonic) -> Option<WaitedFor> {
        let group = self.state.groups.get(group)?;
        Some(waited_for::shares(&self.state, group, now).unwrap_or_default())
    }

    /// The branches to a group's receivers; none if it has no tree. `None`: there is no such group.
    pub fn branches(&self, group: &str) -> Option<Branches> {
        let group = self.state.groups.get(group)?;
        Some(waited_for::branches(&self.state, group).unwrap_or_default())
    }

    /// Where a packet of a group is to be seen, and which nodes can capture it; `Some(None)` if it has no tree. `None`: there is no such
    /// group.
    pub fn capture_plan(&self, group: &str) -> Option<Option<CapturePlan>> {
        Some(capturing::plan(&self.state, self.state.groups.get(group)?, MAX_FRAMES))
    }

    /// Notes that telemetry of `node` arrived at `now`, or that its agent connected. Returns the groups that are observed again.
    pub fn telemetry_received(&mut self, node: &str, now: Monotonic) -> Vec<String> {
        deliveries::received(&mut self.state, node, now)
    }

    /// Marks nodes from which no telemetry arrives any more, at `now`. Returns them, and the groups that are not observed from now on.
    pub fn mark_silent_nodes(&mut self, now: Monotonic) -> (Vec<String>, Vec<String>) {
        deliveries::mark_silent(&mut self.state, now)
    }

    /// Notes drop counters of `node` that rose, at `now`. Returns whether signs of problems may be others now: some counters rise, or did.
    pub fn drops_rose(&mut self, node: &str, rises: Vec<Rise>, now: Monotonic) -> bool {
        drops::rose(&mut self.state, node, rises, now)
    }

    /// Signs of problems of a node, its ports and its links, at `now`.
    pub fn node_symptoms(&self, node: &str, now: Monotonic) -> Vec<Symptom> {
        Symptoms { state: &self.state, links: &self.links, now }
            .node(node)
            .into_iter()
            .map(|symptom| self.of_group(symptom))
            .collect()
    }

    /// Signs of problems of a group and its members, at `now`.
    pub fn group_symptoms(&self, group: &str, now: Monotonic) -> Vec<Symptom> {
        Symptoms { state: &self.state, links: &self.links, now }
            .group(group)
            .into_iter()
            .map(|symptom| self.of_group(symptom))
            .collect()
    }

    /// The same symptom with which group of its name it is about.
    fn of_group(&self, symptom: Symptom) -> Symptom {
        let name = symptom.key.object.group();
        let group = name.and_then(|name| Some(self.state.groups.get(name)?.metadata.uid));
        Symptom { group, ..symptom }
    }

    /// Why the link of this port is taken for one on which no data arrives, for operators; `None` if it is not.
    pub fn withholds(&self, node: &str, port: &str) -> Option<&str> {
        let found = self.state.node(node)?.withholding.get(port).filter(|w| w.until.is_some());
        found.map(|w| w.detail.as_str())
    }

    /// Whether it was until a moment before `now`, and is tried again.
    pub fn is_tried_again(&self, node: &str, port: &str, now: Monotonic) -> bool {
        let known = self.state.node(node).and_then(|n| n.withholding.get(port));
        known.is_some_and(|w| withholding::is_tried_again(w, now))
    }

    /// Stores the queues that the agent of `node` reported, at `now` on the same clock. The report replaces the
    /// previous one: a port that is not in it has no queue state. Ignored: reports of nodes whose agent is not
    /// connected, ports that the node does not have, and flows beyond the first
    /// [`MAX_REPORTED_FLOWS`](canopy_model::congestion::MAX_REPORTED_FLOWS) of the node.
    /// `taken` is the agent's clock.
    pub fn queues(&mut self, node: &str, reports: Vec<PortCongestion>, taken: UnixTime, now: Monotonic) {
        self.links.queues(&self.state, node, reports, taken, now);
    }

    /// True when [`Command::PushThresholds`] would change a node's spec, or the record of its measured round-trip times.
    pub fn thresholds_are_due(&self) -> bool {
        self.links.are_due(&self.state)
    }

    /// True when [`Command::AdvanceHmac`] would take the next step of the SRH HMAC TLV's keys: it is wanted, and every node has confirmed
    /// the step before.
    pub fn hmac_is_due(&self) -> bool {
        HmacCommands(&self.state).is_due()
    }

    /// The keys of the SRH HMAC TLV, without their secrets.
    pub fn hmac(&self) -> HmacView {
        HmacCommands(&self.state).view()
    }

    /// The group's move, while its next tree is programmed beside the one in force.
    pub fn moving(&self, group: &str) -> Option<Move> {
        staging::moving(&self.state, group)
    }

    /// The groups whose next tree is programmed beside the one in force.
    pub fn all_moving(&self) -> Vec<String> {
        // Once, when the controller starts.
        let moving = self.state.groups.iter().filter(|(_, group)| group.making().is_some());
        moving.map(|(name, _)| name.to_owned()).collect()
    }

    /// The node because of which the group's move was given up; `None` if it was not.
    pub fn given_up_because_of(&self, group: &str) -> Option<&str> {
        match &self.state.groups.get(group)?.behind.as_ref()?.step {
            Step::GivenUp(given_up) => Some(&given_up.node),
            Step::Making(_) | Step::NoWay(_) => None,
        }
    }

    /// Whether the node reports something else than before.
    pub fn is_news(&self, status: &NodeStatus) -> bool {
        self.state.node(&status.node).is_some_and(|n| n.status.as_ref() != Some(status))
    }

    /// Ports of `node` that are treated as without carrier, and those that its agent last reported without carrier;
    /// `None` if the topology has no such node or its agent has not reported yet.
    pub fn ports_down(&self, node: &str) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
        self.state.ports_down(node)
    }

    /// The same as trees and routes are to follow it, at `now` on the clock of [`Domain::link_rtts`]; `None` as in [`Domain::ports_down`].
    pub fn dead_ports(&self, node: &str, now: Monotonic) -> Option<DeadPorts> {
        dead_ports::of(&self.state, &self.links, node, now)
    }

    /// Whether the agent of `node` reports a link that loses every packet although its carrier is up. Links that withhold data alone are
    /// not among them.
    pub fn reports_silence(&self, node: &str) -> bool {
        let status = self.state.node(node).and_then(|n| n.status.as_ref());
        status.is_some_and(|s| s.errors.iter().any(|e| e.kind == ItemKind::Silence))
    }

    /// Prefixes that SIDs and addresses are allocated from.
    pub fn address_plan(&self) -> &AddressPlan {
        &self.state.addresses
    }

    /// The leader's term that every node's spec carries.
    pub fn term(&self) -> u64 {
        self.state.term
    }

    /// Grows by one with every applied command that changed something; never decreases, even across restarts.
    pub fn revision(&self) -> u64 {
        self.state.revision
    }

    /// What a node is to have, without its programs; `None` if the topology has no such node.
    pub fn desired(&self, node: &str) -> Option<Arc<DesiredNode>> {
        self.state.node(node).map(|n| Arc::clone(&n.spec))
    }

    /// The node's whole desired state, for which every program is made, as tests and simulations read it; `None` if the topology has no such node.
    pub fn node_spec(&self, node: &str) -> Option<NodeSpec> {
        self.state.index(node).map(|at| self.state.whole_spec(at))
    }

    /// The programs that these groups have at a node, in their order, to be made when nothing waits for the domain; `None` if the topology has
    /// no such node.
    pub fn programs(&self, node: &str, groups: impl IntoIterator<Item = GroupId>) -> Option<NodePrograms> {
        let (at, topology) = (self.state.index(node)?, self.state.topology.as_ref()?);
        let groups = groups.into_iter().filter_map(|id| self.state.groups.by_id(id));
        Some(NodePrograms::new(at, &topology.network, &self.state.addresses, groups))
    }

    /// The epoch of the group's program at a node; `None`: it has none.
    pub fn epoch_at(&self, node: &str, group: GroupId) -> Option<u32> {
        self.state.program_of(group, self.state.index(node)?).map(|program| program.epoch())
    }

    /// Whether the node is the group's headend.
    pub fn is_headend(&self, node: &str, group: GroupId) -> bool {
        let headend = self.state.groups.by_id(group).and_then(Group::headend);
        headend.is_some() && headend == self.state.index(node)
    }

    /// Name of the group with this compact identifier, as it appears in telemetry.
    pub fn group_name(&self, id: GroupId) -> Option<&str> {
        self.state.groups.name(id)
    }

    /// The epoch of a group; it increases with every change of its members or tree. `None`: there is no such group.
    pub fn group_epoch(&self, id: GroupId) -> Option<u32> {
        self.state.groups.by_id(id).map(|g| g.epoch)
    }

    /// The compact identifier of a group; `None`: there is no such group.
    pub fn group_id(&self, group: &str) -> Option<GroupId> {
        self.state.groups.get(group).map(|g| g.allocation.group_id)
    }

    /// The remote side that members of `group` configure into their QPs; `None` if there is no such group.
    pub fn connection(&self, group: &str) -> Option<Connection> {
        self.state.groups.get(group).and_then(|g| connection::connection(&self.state.addresses, g))
    }

    /// [`Domain::connection`] for a member; `None` if `host` is none of the present session.
    pub fn connection_of(&self, group: &str, host: &str) -> Option<Connection> {
        let members = self.state.groups.get(group)?;
        members.members.get(host).filter(|m| members.takes_part(m))?;
        self.connection(group)
    }
}
