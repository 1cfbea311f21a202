// SPDX-License-Identifier: Apache-2.0
//! The agent's policy rules as netlink messages.

use canopy_agent_core::rules::Rule;
use canopy_bpf::node::types::canopy_mark as Mark;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RuleUidRange};

/// Table of the fabric's routes.
pub(crate) const TABLE: u32 = 4791;
/// The kernel's main table, of unicast and of multicast routes.
pub(crate) const MAIN: u32 = 254;
/// RTNL_FAMILY_IP6MR (include/uapi/linux/rtnetlink.h): rules of IPv6 multicast routing.
pub(crate) const MULTICAST: AddressFamily = AddressFamily::Other(129);

/// Priority of a rule in its family; the kernel evaluates the lowest first. Behind the local table, before the main one.
pub(crate) fn priority(rule: &Rule) -> u32 {
    match rule {
        Rule::Passed | Rule::MulticastPassed | Rule::PassedBefore | Rule::MulticastPassedBefore => 4791,
        Rule::PassedOnly | Rule::MulticastPassedOnly(_) | Rule::PassedOnlyBefore => 4792,
        Rule::Own(_) | Rule::OwnOfAll => 4793,
    }
}

/// How messages and errors name a rule.
pub(crate) fn name(rule: &Rule) -> String {
    let priority = priority(rule);
    match rule {
        Rule::Passed | Rule::PassedOnly | Rule::OwnOfAll => format!("rule {priority}"),
        Rule::Own(user) => format!("rule {priority} of user {user}"),
        Rule::MulticastPassed => format!("multicast rule {priority}"),
        Rule::MulticastPassedOnly(port) => format!("multicast rule {priority} of {port}"),
        Rule::PassedBefore | Rule::PassedOnlyBefore => format!("rule {priority} of an earlier version"),
        Rule::MulticastPassedBefore => format!("multicast rule {priority} of an earlier version"),
    }
}

/// The message that adds or removes a rule. The kernel takes what a removal does not name for any value, and removes the rule that was
/// added first.
pub(crate) fn message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    let multicast = matches!(rule, Rule::MulticastPassed | Rule::MulticastPassedOnly(_) | Rule::MulticastPassedBefore);
    let table = match rule {
        Rule::Passed | Rule::PassedBefore | Rule::Own(_) | Rule::OwnOfAll => Some(TABLE),
        Rule::MulticastPassed | Rule::MulticastPassedBefore => Some(MAIN),
        Rule::PassedOnly | Rule::PassedOnlyBefore | Rule::MulticastPassedOnly(_) => None,
    };
    message.header.family = if multicast { MULTICAST } else { AddressFamily::Inet6 };
    message.header.action = if table.is_some() { RuleAction::ToTable } else { RuleAction::Unreachable };
    message.attributes.push(RuleAttribute::Priority(priority(rule)));
    message.attributes.push(match rule {
        Rule::Passed | Rule::PassedOnly | Rule::MulticastPassed => RuleAttribute::FwMark(Mark::MARK_FABRIC.0),
        Rule::PassedBefore | Rule::PassedOnlyBefore | Rule::MulticastPassedBefore => {
            RuleAttribute::FwMark(Mark::MARK_FABRIC_BEFORE.0)
        }
        Rule::Own(_) | Rule::OwnOfAll => RuleAttribute::Iifname("lo".into()),
        Rule::MulticastPassedOnly(port) => RuleAttribute::Iifname(port.clone()),
    });
    message.attributes.extend(table.map(RuleAttribute::Table));
    if let Rule::Own(user) = *rule {
        message.attributes.push(RuleAttribute::UidRange(RuleUidRange { start: user, end: user }));
    }
    message
}

/// The rule of the agent that the kernel reports, with whatever attributes the kernel adds to those that were set.
pub(crate) fn rule_of(found: &RuleMessage) -> Option<Rule> {
    let interface = found.attributes.iter().find_map(|a| match a {
        RuleAttribute::Iifname(name) => Some(name.clone()),
        _ => None,
    });
    let users = found.attributes.iter().find_map(|a| match a {
        RuleAttribute::UidRange(range) => Some(*range),
        _ => None,
    });
    let own = users.map_or(Rule::OwnOfAll, |users| Rule::Own(users.start));
    let multicast = interface.map_or(Rule::MulticastPassed, Rule::MulticastPassedOnly);
    let before = [Rule::PassedBefore, Rule::PassedOnlyBefore, Rule::MulticastPassedBefore];
    let mut known = [Rule::Passed, Rule::PassedOnly, own, multicast].into_iter().chain(before);
    known.find(|rule| is_rule(found, &message(rule)))
}

fn is_rule(found: &RuleMessage, wanted: &RuleMessage) -> bool {
    let (has, wants) = (&found.header, &wanted.header);
    let whole = has.src_len == 0 && has.dst_len == 0;
    whole
        && (has.family, has.action) == (wants.family, wants.action)
        && wanted.attributes.iter().all(|a| found.attributes.contains(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str) -> Rule {
        Rule::MulticastPassedOnly(name.into())
    }

    #[test]
    fn what_the_kernel_adds_does_not_matter_and_what_differs_does() {
        let all = [
            Rule::Passed,
            Rule::PassedOnly,
            Rule::Own(0),
            Rule::Own(998),
            Rule::OwnOfAll,
            Rule::MulticastPassed,
            port("eth1"),
            Rule::PassedBefore,
            Rule::PassedOnlyBefore,
            Rule::MulticastPassedBefore,
        ];
        for rule in all {
            let mut found = message(&rule);
            found.attributes.push(RuleAttribute::SuppressPrefixLen(u32::MAX));
            assert_eq!(rule_of(&found), Some(rule.clone()));
            found.header.dst_len = 64;
            assert_eq!(rule_of(&found), None, "{rule:?} for some destinations only");
            let mut elsewhere = message(&rule);
            elsewhere.attributes[0] = RuleAttribute::Priority(100);
            assert_eq!(rule_of(&elsewhere), None, "{rule:?} with another priority");
        }
        let mut range = message(&Rule::Own(5));
        *range.attributes.last_mut().unwrap() = RuleAttribute::UidRange(RuleUidRange { start: 5, end: 9 });
        assert_eq!(rule_of(&range), None, "more users than the agent's");
    }
}
