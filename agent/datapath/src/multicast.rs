// SPDX-License-Identifier: Apache-2.0
//! Multicast routing in a reconcile: removals before the change of the programs' state, additions after it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_agent_core::mroute::{self, Command, Desired, Flow, Mif, Observed};
use canopy_agent_core::net::Interface;
use canopy_agent_core::rules::Machine;
use canopy_model::node_spec::NodeSpec;
use canopy_model::status::{ItemError, ItemKind};

use crate::mroute::{Socket, TAKEN, is_on, is_supported, observe};
use crate::mroute_holder::MrouteHolder;
use canopy_bpf::node::Node;
use canopy_bpf::{Result, chain};

/// The multicast interfaces that the agent made, in a map that outlives it: any other program may have made the rest.
struct Made<'a>(&'a Node);

impl Made<'_> {
    /// Those that still are what the agent made; the record of others is removed.
    fn among(&self, interfaces: &BTreeMap<Mif, u32>) -> Result<BTreeSet<Mif>> {
        let mut made = BTreeSet::new();
        for (mif, index) in self.0.mifs().entries()? {
            match Mif::try_from(mif).ok().filter(|m| interfaces.get(m) == Some(&index)) {
                Some(mif) => _ = made.insert(mif),
                None => self.0.mifs().delete(&mif)?,
            }
        }
        Ok(made)
    }

    /// Executes a command. An interface is recorded before it is made: a record without it is removed later.
    fn execute(&self, socket: &Socket, command: &Command, mifs: &mut BTreeMap<Mif, u32>) -> Result<()> {
        if let Command::AddInterface(mif, index) = command {
            self.0.mifs().put(&u32::from(*mif), index)?;
        }
        socket.execute(command, mifs)
    }
}

/// The multicast part of a reconcile, between its two halves.
pub(crate) struct MulticastUpdate<'a> {
    made: Made<'a>,
    spec: &'a NodeSpec,
    interfaces: &'a BTreeMap<String, Interface>,
    desired: Desired,
    errors: Vec<ItemError>,
    /// No route is desired, and none was ever added.
    idle: bool,
}

impl<'a> MulticastUpdate<'a> {
    /// Removes undesired routes and interfaces. `recorded` are the multicast addresses of groups in the programs' maps, `kept` the
    /// groups that stay unchanged. Without policy rules of multicast routing no route is desired: it would forward packets that the
    /// boundary has not checked.
    pub(crate) fn before(
        bpf: &'a Node,
        holder: &mut MrouteHolder,
        spec: &'a NodeSpec,
        interfaces: &'a BTreeMap<String, Interface>,
        recorded: &BTreeMap<Ipv6Addr, u32>,
        kept: &BTreeSet<u32>,
        machine: Machine,
    ) -> Result<Self> {
        let (desired, errors) = mroute::desired(spec, interfaces, recorded, kept);
        let held = holder.watch();
        let idle = desired.routes.is_empty() && recorded.is_empty() && !held;
        let mut update = Self { made: Made(bpf), spec, interfaces, desired, errors, idle };
        if update.idle {
            return Ok(update);
        }
        if !is_supported() {
            update.fail_all(
                "this kernel has no IPv6 multicast routing: use one with CONFIG_IPV6_MROUTE=y, or replication srv6",
            );
            update.idle = true;
            return Ok(update);
        }
        if !machine.multicast_rules {
            update.fail_all(
                "this kernel has one table of IPv6 multicast routes, which forwards packets that the boundary has not checked: use one with CONFIG_IPV6_MROUTE_MULTIPLE_TABLES=y, or replication srv6",
            );
            update.desired.routes.clear();
        }
        let observed = update.observe(held)?;
        let commands = mroute::plan_before(&update.desired, &observed);
        if !commands.is_empty() {
            let (socket, mut mifs) = (Socket::open()?, observed.interfaces);
            for command in commands {
                update.made.execute(&socket, &command, &mut mifs)?;
            }
        }
        Ok(update)
    }

    /// Adds missing routes and interfaces and reads everything back.
    pub(crate) async fn after(mut self, holder: &mut MrouteHolder) -> Result<Vec<ItemError>> {
        if self.idle {
            return Ok(self.errors);
        }
        let observed = self.observe(holder.watch())?;
        let commands = mroute::plan_after(&self.desired, &observed);
        if !commands.is_empty() {
            let (socket, mut mifs) = (Socket::open()?, observed.interfaces);
            for command in &commands {
                let done = match command {
                    Command::Hold if is_on() => Err(TAKEN.to_owned()),
                    Command::Hold => holder.start().await.map_err(|e| chain(&e)),
                    Command::Release => holder.stop().await.map_err(|e| chain(&e)),
                    other => self.made.execute(&socket, other, &mut mifs).map_err(|e| chain(&e)),
                };
                match (done, command) {
                    (Ok(()), _) => {}
                    (Err(detail), Command::SetRoute(flow, _)) => self.fail(*flow, &detail),
                    // Without an interface or the mroute-holder no route forwards packets.
                    (Err(detail), _) => {
                        self.fail_all(&detail);
                        return Ok(self.errors);
                    }
                }
            }
        }
        let observed = self.observe(holder.watch())?;
        let wrong: Vec<Flow> = (self.desired.routes.iter())
            .filter(|(flow, want)| !observed.held || observed.routes.get(*flow) != Some(*want))
            .map(|(flow, _)| *flow)
            .collect();
        for flow in wrong {
            self.fail(flow, &format!("multicast route ({}, {}) does not read back as written", flow.0, flow.1));
        }
        Ok(self.errors)
    }

    fn observe(&self, held: bool) -> Result<Observed> {
        let observed = observe(self.interfaces)?;
        Ok(Observed { held, made: self.made.among(&observed.interfaces)?, ..observed })
    }

    /// Reports the first error of each group of `flow`.
    fn fail(&mut self, flow: Flow, detail: &str) {
        let of_flow = self.spec.groups.values().filter(|g| g.multicast.is_some_and(|m| (m.source, m.group) == flow));
        for g in of_flow {
            if !self.errors.iter().any(|e| e.group == Some(g.group_id)) {
                self.errors.push(ItemError {
                    kind: ItemKind::Group,
                    name: g.name.clone(),
                    group: Some(g.group_id),
                    detail: detail.to_owned(),
                });
            }
        }
    }

    fn fail_all(&mut self, detail: &str) {
        let flows: Vec<Flow> = self.desired.routes.keys().copied().collect();
        flows.into_iter().for_each(|flow| self.fail(flow, detail));
    }
}

/// Removes every route of the groups in `ours` and the multicast interfaces that the agent made, and ends the mroute-holder.
pub(crate) async fn cleanup(
    bpf: &Node,
    holder: &mut MrouteHolder,
    interfaces: &BTreeMap<String, Interface>,
    ours: BTreeSet<Ipv6Addr>,
) -> Result<()> {
    let (held, made) = (holder.watch(), Made(bpf));
    if !is_supported() || (ours.is_empty() && !held) {
        return Ok(());
    }
    let nothing = Desired { ours, ..Desired::default() };
    let socket = Socket::open()?;
    let mut observed = observe(interfaces)?;
    for command in mroute::plan_before(&nothing, &observed) {
        socket.execute(&command, &mut observed.interfaces)?;
    }
    let observed = observe(interfaces)?;
    let mut observed = Observed { held, made: made.among(&observed.interfaces)?, ..observed };
    for command in mroute::plan_after(&nothing, &observed) {
        match command {
            Command::Release => holder.stop().await?,
            other => socket.execute(&other, &mut observed.interfaces)?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
