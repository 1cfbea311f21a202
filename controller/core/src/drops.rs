// SPDX-License-Identifier: Apache-2.0
//! Drop counters that rise, and which of them are signs of a problem.

use canopy_model::ids::GroupId;
use canopy_units::Monotonic;

use crate::problem::ProblemCode as Code;

/// A drop counter of a node that rose between two samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rise {
    /// The group, if the packets belong to one.
    pub group: Option<GroupId>,
    /// Interface on which they arrived, if the boundary of the domain dropped them.
    pub port: Option<String>,
    /// Number of the reason.
    pub reason: u32,
    /// Its name.
    pub name: String,
    /// By how much.
    pub packets: u64,
}

/// A counter that rises.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DropKey {
    pub(crate) group: Option<GroupId>,
    pub(crate) port: Option<String>,
    pub(crate) reason: u32,
}

/// Its last rise.
#[derive(Clone, Debug)]
pub(crate) struct Rising {
    pub(crate) name: String,
    pub(crate) packets: u64,
    pub(crate) at: Monotonic,
}

/// Whether what is counted under a reason are packets that were dropped, by the reason's number (docs/datapath.md): the others are packets
/// that a report does not have.
pub fn are_packets(reason: u32) -> bool {
    !matches!(reason, 45 | 62)
}

/// The problem that drops for a reason are, by the reason's number (docs/datapath.md); `None` where they are part of normal operation.
pub fn code_of(reason: u32, has_port: bool) -> Option<Code> {
    match reason {
        // SRH, TLVs, inner packet, source in the fabric, HMAC.
        2..=6 | 8 | 42 | 53..=55 => Some(Code::PacketsForged),
        // QPN, port, opcode, PSN window and flight, WRITE range, not open, no receiver, buffers of several packets.
        9..=12 | 26 | 44 | 46 | 49 | 51 => Some(Code::SourceRefused),
        15 | 16 => Some(Code::CopiesNotForwarded),
        17 => Some(Code::CopiesTooLarge),
        62 => Some(Code::FlowTableFull),
        // All of the boundary but MLD reports and other link-local chatter, which every host sends.
        33 | 34 | 36..=41 | 43 | 47 | 48 | 50 if has_port => Some(Code::HostRefused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_that_drop_no_packet_are_those_of_the_documentation() {
        let page = include_str!("../../../docs/datapath.md");
        for reason in 1..64 {
            let row = page.lines().find(|line| line.starts_with(&format!("| {reason} | ")));
            let is_none = row.is_some_and(|row| row.contains(" | no packet: "));
            assert_eq!(are_packets(reason), !is_none, "{row:?}");
        }
    }

    /// The numbers are those of the table of drop reasons, in which each has its name.
    #[test]
    fn reasons_are_classified_by_the_numbers_of_the_documentation() {
        let page = include_str!("../../../docs/datapath.md");
        let name = |reason: u32| {
            let row = page.lines().find(|line| line.starts_with(&format!("| {reason} | ")));
            row.and_then(|row| row.split(" | ").nth(1)).unwrap_or_default().to_owned()
        };
        let all = |code| (0..64).filter(|r| code_of(*r, true) == Some(code)).map(name).collect::<Vec<_>>();
        assert_eq!(
            all(Code::PacketsForged),
            [
                "no_srh",
                "srh_malformed",
                "tlv_malformed",
                "tlv_none",
                "tlv_unprovisioned",
                "inner_malformed",
                "fabric_source",
                "hmac_missing",
                "hmac_key",
                "hmac_mismatch"
            ]
        );
        assert_eq!(
            all(Code::SourceRefused),
            [
                "source_unregistered",
                "wrong_port",
                "opcode_refused",
                "psn_window",
                "write_refused",
                "psn_flight",
                "not_open",
                "no_receiver",
                "gso"
            ]
        );
        assert_eq!(all(Code::CopiesNotForwarded), ["no_neighbour", "no_route"]);
        assert_eq!(all(Code::CopiesTooLarge), ["mtu"]);
        assert_eq!(all(Code::FlowTableFull), ["flow_uncounted"]);
        assert_eq!(
            all(Code::HostRefused),
            [
                "edge_frame",
                "edge_source",
                "edge_neighbour_discovery",
                "edge_sid",
                "edge_node_address",
                "edge_proxy_prefix",
                "edge_tunnel",
                "edge_headers",
                "outside",
                "edge_icmp_error",
                "edge_own_address",
                "edge_other_mac"
            ]
        );
        assert_eq!((code_of(35, true), code_of(33, false)), (None, None));
    }
}
