// SPDX-License-Identifier: Apache-2.0
//! Policy rules by which only what passed the boundary of the domain reaches the fabric (decisions 6.4): the kernel forwards nothing into
//! the fabric where the boundary's program does not run.

use std::collections::BTreeSet;

/// What the rules depend on apart from the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// User that the agent runs as.
    pub user: u32,
    /// The kernel's IPv6 multicast routing has policy rules.
    pub multicast_rules: bool,
}

/// The user of what the kernel itself sends, and of next hops that the programs look up.
const KERNEL: u32 = 0;

/// A policy rule of IPv6 routing, or of IPv6 multicast routing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// Packets that passed the boundary are routed by the table of the fabric.
    Passed,
    /// A packet that passed the boundary and has no route there is unreachable: it does not leave the fabric by another table.
    PassedOnly,
    /// What this user sends from the node is routed by the table of the fabric first.
    Own(u32),
    /// What any user sends from the node is routed so: a rule of earlier agents, which let every local user send feedback in the node's
    /// name. Never desired.
    OwnOfAll,
    /// Multicast routes forward packets that passed the boundary.
    MulticastPassed,
    /// Multicast routes do not forward other packets from this port.
    MulticastPassedOnly(String),
    /// [`Rule::Passed`] of earlier agents, whose mark had bits of kube-proxy's. Never desired, as the next two.
    PassedBefore,
    /// [`Rule::PassedOnly`] of earlier agents.
    PassedOnlyBefore,
    /// [`Rule::MulticastPassed`] of earlier agents.
    MulticastPassedBefore,
}

impl Rule {
    /// The rules of a node with these ports.
    pub fn wanted<'a>(machine: Machine, ports: impl IntoIterator<Item = &'a str>) -> BTreeSet<Self> {
        let mut rules = BTreeSet::from([Self::Passed, Self::PassedOnly, Self::Own(KERNEL), Self::Own(machine.user)]);
        if machine.multicast_rules {
            rules.insert(Self::MulticastPassed);
            rules.extend(ports.into_iter().map(|port| Self::MulticastPassedOnly(port.to_owned())));
        }
        rules
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fabric_is_open_to_the_kernel_and_to_the_agents_user_and_to_no_other() {
        let own = |user| {
            let rules = Rule::wanted(Machine { user, multicast_rules: false }, ["eth1"]);
            rules.into_iter().filter(|r| matches!(r, Rule::Own(_) | Rule::OwnOfAll)).collect::<Vec<_>>()
        };
        assert_eq!(own(0), [Rule::Own(0)]);
        assert_eq!(own(998), [Rule::Own(0), Rule::Own(998)]);
    }

    #[test]
    fn multicast_routes_have_a_rule_for_each_port_where_the_kernel_knows_such_rules() {
        let multicast = |multicast_rules| {
            let rules = Rule::wanted(Machine { user: 0, multicast_rules }, ["eth1", "eth2"]);
            rules.into_iter().filter(|r| *r > Rule::OwnOfAll).collect::<Vec<_>>()
        };
        let of_port = |name: &str| Rule::MulticastPassedOnly(name.into());
        assert_eq!(multicast(true), [Rule::MulticastPassed, of_port("eth1"), of_port("eth2")]);
        assert_eq!(multicast(false), []);
    }
}
