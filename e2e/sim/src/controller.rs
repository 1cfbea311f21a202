// SPDX-License-Identifier: Apache-2.0
//! The controller: `canopy-controller-core`'s domain, its records in memory, and the rules of `canopy-controller-actor`
//! about what follows a command or a report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use canopy_controller_core::hmac::HmacSettings;
use canopy_controller_core::metadata::Labels;
use canopy_controller_core::threshold::ThresholdSettings;
use canopy_controller_core::{Command, Domain, DomainError, LateNews, Record, Secret, Write};
use canopy_model::addressing::AddressPlan;
use canopy_model::group::GroupSpec;
use canopy_model::node_spec::{GroupProgram, NodeSpec};
use canopy_model::status::NodeStatus;
use canopy_model::topology::TopologySpec;
use canopy_units::Monotonic;

/// Name of the group.
pub const GROUP: &str = "g";

/// Most epochs that a node may be behind (decisions 3.15).
const MAX_BEHIND: u32 = 4_096;

fn group_key() -> String {
    format!("group/{GROUP}")
}

/// What the caller has to do after a command.
#[derive(Debug, Default)]
pub struct Effects {
    /// Nodes whose specs are to be sent.
    pub nodes: BTreeSet<String>,
    /// The group has no tree any longer although it has members.
    pub lost_tree: bool,
    /// The tree or its epoch changed because of the topology.
    pub moved: bool,
    /// The group was opened.
    pub opened: bool,
}

/// One controller after the other, on the same records.
pub struct Controller {
    domain: Domain,
    /// JSON by key, as in the store.
    records: BTreeMap<String, String>,
    /// The group was opened.
    pub opened: bool,
}

impl Controller {
    /// A controller without records.
    ///
    /// # Errors
    /// The domain refuses the default address plan.
    pub fn new() -> Result<Self> {
        Ok(Self { domain: restore(1, &BTreeMap::new())?, records: BTreeMap::new(), opened: false })
    }

    /// The term of its present life.
    pub fn term(&self) -> u64 {
        self.domain.term()
    }

    /// The domain.
    pub fn domain(&self) -> &Domain {
        &self.domain
    }

    /// The present spec of a node.
    pub fn spec(&self, node: &str) -> Option<Arc<NodeSpec>> {
        self.domain.node_spec(node).map(Arc::new)
    }

    /// The group's program in a node's spec.
    pub fn program(spec: &NodeSpec) -> Option<&GroupProgram> {
        spec.groups.values().next()
    }

    /// The command that declares a network.
    pub fn put_topology(spec: TopologySpec) -> Command {
        Command::PutTopology { labels: Labels::new(), spec: spec.into(), if_match: None }
    }

    /// The command that declares the group.
    pub fn put_group(spec: GroupSpec) -> Command {
        Command::PutGroup {
            tenant: None,
            name: GROUP.into(),
            labels: Labels::new(),
            spec,
            if_match: None,
            create_only: false,
        }
    }

    /// Sets the epoch of a group that has no members yet, as if it had had that many changes.
    ///
    /// # Errors
    /// There is no group yet.
    pub fn age(&mut self, epoch: u32) -> Result<()> {
        self.set_epoch(epoch)?;
        self.domain = restore(self.term(), &self.records)?;
        Ok(())
    }

    /// As if the group had had as many changes elsewhere as it can have before a node confirms one of them, and the controller
    /// restarted then.
    ///
    /// # Errors
    /// The records contradict each other.
    pub fn age_further(&mut self) -> Result<()> {
        let epoch = self.domain.group(GROUP).map_or(0, |g| g.status.epoch);
        let json: serde_json::Value = serde_json::from_str(self.records.get(&group_key()).context("no group")?)?;
        // Of a group that is not open no node has to confirm anything. Topology changes since the record was written are not in it.
        let known = json["confirmed"]["epoch"].as_u64().map_or(epoch, |known| known as u32);
        if json["epoch"] == epoch && json["tree"]["epoch"] == epoch {
            self.set_epoch(epoch.max(known + MAX_BEHIND))?;
        }
        self.restart()
    }

    fn set_epoch(&mut self, epoch: u32) -> Result<()> {
        let record = self.records.get_mut(&group_key()).context("no group")?;
        let mut json: serde_json::Value = serde_json::from_str(record)?;
        json["epoch"] = epoch.into();
        if let Some(tree) = json.get_mut("tree") {
            tree["epoch"] = epoch.into();
        }
        *record = json.to_string();
        Ok(())
    }

    /// Restarts from the records with the next term. Every node gets its spec again.
    ///
    /// # Errors
    /// The records contradict each other.
    pub fn restart(&mut self) -> Result<()> {
        self.domain = restore(self.term() + 1, &self.records)?;
        self.domain.node_names().iter().for_each(|name| drop(self.domain.agent_connected(name)));
        Ok(())
    }

    /// Carries out `command` durably, and the commands that follow from it.
    ///
    /// # Errors
    /// The domain refuses it; nothing has changed then.
    pub fn execute(&mut self, command: Command, now: u64) -> Result<Effects, DomainError> {
        let rewires = matches!(command, Command::PutTopology { .. } | Command::PortsDown { .. });
        let mut effects = Effects { moved: rewires && self.domain.group(GROUP).is_some(), ..Effects::default() };
        let (before, had_tree) = (self.state(), self.has_tree());
        self.run(command, now, &mut effects)?;
        effects.lost_tree = had_tree && !self.has_tree();
        effects.moved &= self.state() != before;
        self.follow(now, &mut effects)?;
        Ok(effects)
    }

    /// Whether the group has a tree.
    pub fn has_tree(&self) -> bool {
        self.domain.group(GROUP).is_some_and(|g| !g.status.tree.is_empty())
    }

    /// Epoch of the group, and its move.
    fn state(&self) -> (u32, Option<u64>) {
        let epoch = self.domain.group(GROUP).map_or(0, |g| g.status.epoch);
        (epoch, self.domain.moving(GROUP).map(|m| m.since))
    }

    /// Takes a report, and carries out the commands that follow from it.
    ///
    /// # Errors
    /// The domain refuses the report or a command.
    pub fn report(&mut self, status: NodeStatus, now: u64) -> Result<Effects, DomainError> {
        let node = status.node.clone();
        let is_news = self.domain.is_news(&status);
        self.domain.report(status)?;
        let mut effects = Effects::default();
        if let Some((avoided, reported)) = self.domain.ports_down(&node).filter(|(a, r)| a != r) {
            // A port without carrier is avoided at once; whether it is used again at once or later makes no difference here.
            let ports: BTreeSet<String> = if reported.is_subset(&avoided) { reported } else { &avoided | &reported };
            effects = self.execute(Command::PortsDown { node: node.clone(), ports }, now)?;
        }
        let is_given_up = self.domain.given_up_because_of(GROUP) == Some(node.as_str());
        if is_news && (is_given_up || !self.domain.waiting_for_nodes().is_empty()) {
            self.run(Command::RetryMove { group: GROUP.into() }, now, &mut effects)?;
        }
        self.follow(now, &mut effects)?;
        Ok(effects)
    }

    /// An agent is connected or not.
    pub fn connected(&mut self, node: &str, connected: bool, now: u64) {
        if connected {
            self.domain.agent_connected(node);
        } else {
            self.domain.agent_gone(node, Monotonic::from_nanos(now));
        }
    }

    /// The command of the group's stall policy after a node's report that a branch fails, or nothing.
    pub fn branch_news(
        &mut self,
        node: &str,
        branch: std::net::Ipv6Addr,
        news: canopy_controller_core::BranchNews,
    ) -> Option<Command> {
        let id = self.domain.group(GROUP)?.status.group_id;
        self.domain.branch_news(node, id, branch, news).command
    }

    /// The command that follows from the state of a late receiver at its edge, or nothing.
    pub fn late_receiver(&self, node: &str, branch: std::net::Ipv6Addr, news: LateNews) -> Option<Command> {
        let id = self.domain.group(GROUP)?.status.group_id;
        self.domain.late_receiver(node, id, branch, news)
    }

    /// Finishes the group's move once it is made, and opens the group once it can be.
    fn follow(&mut self, now: u64, effects: &mut Effects) -> Result<(), DomainError> {
        if self.domain.moving(GROUP).is_some_and(|m| m.is_made) {
            self.run(Command::FinishMove { group: GROUP.into() }, now, effects)?;
        }
        if self.domain.may_open(GROUP) {
            self.run(Command::OpenGroup { group: GROUP.into() }, now, effects)?;
            (self.opened, effects.opened) = (true, true);
        }
        Ok(())
    }

    fn run(&mut self, command: Command, now: u64, effects: &mut Effects) -> Result<(), DomainError> {
        let prepared = self.domain.prepare(command)?;
        for write in &prepared.writes {
            match write {
                Write::Put(record) => {
                    let json = serde_json::to_string(record).unwrap_or_default();
                    self.records.insert(record.key(), json);
                }
                Write::Delete { key } => _ = self.records.remove(key),
            }
        }
        let applied = self.domain.apply(prepared, Monotonic::from_nanos(now))?;
        effects.nodes.extend(applied.nodes);
        Ok(())
    }
}

fn restore(term: u64, records: &BTreeMap<String, String>) -> Result<Domain> {
    let read = |(key, json): (&String, &String)| {
        let record = Record::read(key, &mut serde_json::Deserializer::from_str(json))?;
        Ok((key.clone(), record.with_context(|| format!("record {key}"))?))
    };
    let records = records.iter().map(read).collect::<Result<Vec<_>>>()?;
    let secret = Secret::new([0; 32]);
    Domain::restore(
        AddressPlan::default(),
        ThresholdSettings::default(),
        HmacSettings::default(),
        secret,
        term,
        records,
    )
    .map_err(|e| anyhow!(e))
}
