// SPDX-License-Identifier: Apache-2.0
//! Flows as a table shows them.

use canopy_controller_api::link::FlowView;
use canopy_controller_api::query::FlowQuery;

use super::rows::{Column, Row};
use super::{link_name, segment};
use crate::failure::Failure;
use crate::output::text;

/// Where the flow leaves.
const FROM: &[Column<FlowView>] = &[("FROM", |f| text(format!("{}/{}", f.node, f.port)), false)];
/// What identifies the flow.
const IDENTITY: &[Column<FlowView>] = &[
    ("SOURCE", |f| text(f.flow.src), false),
    ("DESTINATION", |f| text(f.flow.dst), false),
    ("DST QP", |f| text(f.flow.dst_qp), false),
];
/// Its traffic.
const TRAFFIC: &[Column<FlowView>] = &[
    ("SRC QP", |f| text(f.flow.src_qp), false),
    ("ORIGIN", |f| text(f.flow.origin), true),
    ("RATE BPS", |f| text(f.flow.rate), false),
    ("SHARE", share, false),
    ("PACKETS", |f| text(f.flow.packets), true),
    ("BYTES", |f| text(f.flow.octets), true),
    ("CE", |f| text(f.flow.ce), false),
];
/// Sums of [`NOTIFICATIONS`].
const SUMS: &[Column<FlowView>] = &[("CNPS", |f| text(sent(f)), false), ("HELD BACK", |f| text(held_back(f)), false)];
/// The Long-haul CNPs sent and held back for it.
const NOTIFICATIONS: &[Column<FlowView>] = &[
    ("NOTIFY", |f| text(f.flow.counts.cnps.notify), true),
    ("PAUSE", |f| text(f.flow.counts.cnps.pause), true),
    ("REDUCE", |f| text(f.flow.counts.cnps.rate_reduce), true),
    ("RESUME", |f| text(f.flow.counts.cnps.resume), true),
    ("FAILED", |f| text(f.flow.counts.cnps.failed), true),
    ("SUPPRESSED", |f| text(f.flow.counts.suppressed), true),
    ("FLOW LIMIT", |f| text(f.flow.counts.rate_limited_flow), true),
    ("PORT LIMIT", |f| text(f.flow.counts.rate_limited_port), true),
    ("NO SRC QP", |f| text(f.flow.counts.unknown_source_qp), true),
];

impl Row for FlowView {
    fn columns() -> Vec<Column<Self>> {
        [FROM, IDENTITY, TRAFFIC, SUMS, NOTIFICATIONS].concat()
    }

    fn name(&self) -> String {
        let [node, port] = [&self.node, &self.port].map(text);
        format!("flow/{node}/{port}/{}/{}/{}", self.flow.src, self.flow.dst, self.flow.dst_qp)
    }
}

/// Columns of `describe`: the flow's traffic.
pub(super) fn traffic() -> Vec<Column<FlowView>> {
    [IDENTITY, TRAFFIC].concat()
}

/// Columns of `describe`: the Long-haul CNPs sent and held back for a flow.
pub(super) fn notifications() -> Vec<Column<FlowView>> {
    [IDENTITY, NOTIFICATIONS].concat()
}

/// The query for the flows through `name`: a node, or a node's port.
pub(super) fn query(name: &str) -> Result<FlowQuery, Failure> {
    let (node, port) = if name.contains('/') {
        let (node, port) = link_name(name)?;
        (node, Some(port.to_owned()))
    } else {
        (segment("node", name)?, None)
    };
    Ok(FlowQuery { limit: None, node: Some(node.to_owned()), port })
}

fn share(f: &FlowView) -> String {
    format!("{}.{} %", f.flow.share_permille / 10, f.flow.share_permille % 10)
}

fn sent(f: &FlowView) -> u64 {
    let cnps = &f.flow.counts.cnps;
    sum([cnps.notify, cnps.pause, cnps.rate_reduce, cnps.resume])
}

fn held_back(f: &FlowView) -> u64 {
    let counts = &f.flow.counts;
    let limited = [counts.rate_limited_flow, counts.rate_limited_port, counts.unknown_source_qp];
    sum([sum(limited), counts.suppressed, counts.cnps.failed])
}

fn sum<const N: usize>(counts: [u64; N]) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sums_and_shares_are_those_of_the_flow() {
        let flow: FlowView = serde_json::from_value(json!({"node": "n1", "port": "eth1", "reportedAgoNs": 1,
            "src": "2001:db8:1::1", "dst": "2001:db8:2::1", "dstQp": 18, "srcQp": null, "origin": "unknown",
            "packets": 1, "bytes": 2, "ce": 0, "rateBps": 0, "sharePermille": 457, "suppressed": 1,
            "rateLimitedFlow": 20, "rateLimitedPort": 300, "unknownSourceQp": 4000,
            "cnps": {"notify": 1, "pause": 10, "rateReduce": 100, "resume": 1000, "failed": 50_000}}))
        .unwrap();
        let cells: Vec<String> = FlowView::columns().iter().map(|(_, cell, _)| cell(&flow)).collect();
        for cell in ["n1/eth1", "45.7 %", "1111", "54321"] {
            assert!(cells.iter().any(|c| c == cell), "{cell} is not in {cells:?}");
        }
    }

    #[test]
    fn names_that_would_change_the_query_are_refused() {
        let text = |name: &str| serde_urlencoded::to_string(query(name).unwrap()).unwrap();
        assert_eq!(text("n1"), "node=n1");
        assert_eq!(text("n1/eth1"), "node=n1&port=eth1");
        for bad in ["n1&limit=1", "n1/", "/eth1", "n1/a&b", ""] {
            assert!(query(bad).is_err(), "{bad}");
        }
    }
}
