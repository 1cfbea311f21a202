// SPDX-License-Identifier: Apache-2.0
//! What the boundary of the domain needs to know: the domain's prefixes, and where each port leads (decisions 6).

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv6Addr;

use canopy_agent_core::net::{Interface, NetCommand, NetState};
use canopy_agent_core::rules::Rule;
use canopy_bpf::Result;
use canopy_bpf::node::{NODE, Node, types};
use canopy_model::node_spec::{NodeBase, Port};

use crate::observe::is;
use crate::{render, rules};

/// Writes the node's entry and those of its ports; entries of interfaces that are no ports any more go, and so do their drops once
/// the interface does not exist.
pub(crate) fn configure(bpf: &Node, base: &NodeBase, interfaces: &BTreeMap<String, Interface>) -> Result<()> {
    let held = bpf.node().get(&NODE)?;
    let node = render::node(base, held.as_ref().map_or(0, |entry| entry.warm));
    if !is(held.as_ref(), Some(&node)) {
        bpf.node().put(&NODE, &node)?;
    }
    let may_send = |p: &Port| base.host_programs.as_ref().is_some_and(|programs| programs.ports.contains(&p.index));
    let ports = base.ports.iter().filter_map(|p| Some((interfaces.get(&p.name)?.index, render::port(p, may_send(p)))));
    let wanted: BTreeMap<u32, types::canopy_port> = ports.collect();
    let held: BTreeMap<u32, _> = bpf.ports().entries()?.into_iter().collect();
    for ifindex in held.keys().filter(|i| !wanted.contains_key(i)) {
        bpf.ports().delete(ifindex)?;
    }
    for (ifindex, port) in wanted.iter().filter(|(i, port)| !is(held.get(i), Some(*port))) {
        bpf.ports().put(ifindex, port)?;
    }
    let there: BTreeSet<u32> = interfaces.values().map(|i| i.index).collect();
    for key in bpf.port_drops().keys().iter().filter(|key| !there.contains(&key.ifindex)) {
        bpf.port_drops().delete(key)?;
    }
    Ok(())
}

/// Writes the addresses at which the node itself receives, which hosts must not reach.
pub(crate) fn keep_own(bpf: &Node, addresses: &BTreeSet<Ipv6Addr>) -> Result<()> {
    let held: BTreeSet<Ipv6Addr> = bpf.own_addresses().keys().into_iter().map(Ipv6Addr::from).collect();
    for address in addresses.difference(&held) {
        bpf.own_addresses().put(&(*address).into(), &1)?;
    }
    for address in held.difference(addresses) {
        bpf.own_addresses().delete(&(*address).into())?;
    }
    Ok(())
}

/// What was there after a reconcile and has been wanted ever since: if it has to be made again, something else removed it.
#[derive(Default)]
pub(crate) struct Kept(NetState);

impl Kept {
    /// Remembers what the kernel has of `desired`. What it had before and lacks now is still remembered: it was removed while the
    /// reconcile read the kernel, and the next one makes it again.
    pub(crate) fn remember(&mut self, desired: &NetState, state: &NetState) {
        fn both<T: Ord + Clone>(was: &BTreeSet<T>, is: &BTreeSet<T>, desired: &BTreeSet<T>) -> BTreeSet<T> {
            was.union(is).filter(|item| desired.contains(item)).cloned().collect()
        }
        let was = &self.0;
        self.0 = NetState {
            attached: both(&was.attached, &state.attached, &desired.attached),
            guarded: both(&was.guarded, &state.guarded, &desired.guarded),
            rules: both(&was.rules, &state.rules, &desired.rules),
            forwarding: both(&was.forwarding, &state.forwarding, &desired.forwarding),
            ..NetState::default()
        };
    }

    /// What of it a command makes again, for an event. `name` is that of an interface.
    pub(crate) fn restored(&self, command: &NetCommand, name: impl Fn(u32) -> String) -> Option<String> {
        let was = &self.0;
        match command {
            NetCommand::Attach(i) if was.attached.contains(i) => Some(format!(
                "a TC filter of port {} was removed or replaced: without the one at ingress, nothing that arrived there was forwarded",
                name(*i)
            )),
            NetCommand::Guard(i) if was.guarded.contains(i) => Some(format!(
                "the TC filter of {}, which is outside the topology, was removed or replaced: its packets to this node were not checked",
                name(*i)
            )),
            NetCommand::AddRule(rule) if was.rules.contains(rule) => {
                Some(format!("the IPv6 policy {} was removed: {}", rules::name(rule), without(rule)))
            }
            NetCommand::Forward(name) if was.forwarding.contains(name) => {
                Some(format!("net.ipv6.conf.{name}.forwarding was switched off: {}", without_forwarding(name)))
            }
            _ => None,
        }
    }
}

/// What happened while a rule was missing.
fn without(rule: &Rule) -> &'static str {
    match rule {
        Rule::Passed | Rule::PassedBefore => "packets between hosts and nodes were not forwarded",
        Rule::PassedOnly | Rule::PassedOnlyBefore => {
            "packets without a route in the fabric could leave it by another table"
        }
        Rule::Own(0) => "copies and feedback of groups, and packets of this node, had no route into the fabric",
        Rule::Own(_) | Rule::OwnOfAll => "packets of the agent had no route into the fabric",
        Rule::MulticastPassed | Rule::MulticastPassedBefore => {
            "groups with multicast replication were not forwarded to child nodes"
        }
        Rule::MulticastPassedOnly(_) => {
            "multicast routes would have forwarded packets from there without the check at the port"
        }
    }
}

fn without_forwarding(name: &str) -> &'static str {
    match name {
        "all" => "nothing was forwarded",
        "default" => "interfaces that were added meanwhile forward nothing",
        _ => "copies and feedback of groups that leave there were dropped (no_route)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_there_is_restored() {
        let whole = NetState {
            attached: BTreeSet::from([3]),
            guarded: BTreeSet::from([4]),
            rules: BTreeSet::from([Rule::PassedOnly, Rule::Own(0)]),
            forwarding: BTreeSet::from(["all".into(), "eth3".into()]),
            ..NetState::default()
        };
        let rules = [Rule::PassedOnly, Rule::Own(0)].map(NetCommand::AddRule);
        let forwarding = ["all", "eth3"].map(|name| NetCommand::Forward(name.into()));
        let mut again = vec![NetCommand::Attach(3), NetCommand::Guard(4)];
        again.extend(rules.into_iter().chain(forwarding));
        let name = |i: u32| format!("eth{i}");
        let mut kept = Kept::default();
        assert!(again.iter().all(|c| kept.restored(c, name).is_none()), "the first time");
        kept.remember(&whole, &NetState::default());
        assert!(again.iter().all(|c| kept.restored(c, name).is_none()), "it was never there");
        kept.remember(&whole, &whole);
        // Removed while the reconcile that restored something else read the kernel.
        kept.remember(&whole, &NetState::default());
        assert!(again.iter().all(|c| kept.restored(c, name).is_some()));
        assert!(kept.restored(&NetCommand::Attach(3), name).unwrap().contains("eth3"));
        assert!(kept.restored(&NetCommand::Forward("eth3".into()), name).unwrap().contains("net.ipv6.conf.eth3"));
        assert_eq!(kept.restored(&NetCommand::AddRule(Rule::Own(5)), name), None, "the agent runs as another user");
        assert_eq!(kept.restored(&NetCommand::Guard(5), name), None, "a new interface");
        let swapped = [NetCommand::Attach(4), NetCommand::Guard(3)];
        assert!(swapped.iter().all(|c| kept.restored(c, name).is_none()), "the topology changed");
        assert_eq!(kept.restored(&NetCommand::Up(3), name), None);
        kept.remember(&NetState::default(), &whole);
        assert!(again.iter().all(|c| kept.restored(c, name).is_none()), "it was not wanted meanwhile");
    }
}
