// SPDX-License-Identifier: Apache-2.0
//! Flows as a table shows them.

use serde_json::{Value, json};

use super::{link_name, segment};
use crate::failure::Failure;

/// Header and JSON pointer; the bool is true for columns of `-o wide` only.
type Column = (&'static str, &'static str, bool);

/// Columns of `get`, after `FROM`.
pub(super) const COLUMNS: &[Column] = &[
    ("SOURCE", "/src", false),
    ("DESTINATION", "/dst", false),
    ("DST QP", "/dstQp", false),
    ("SRC QP", "/srcQp", false),
    ("ORIGIN", "/origin", true),
    ("RATE BPS", "/rateBps", false),
    ("SHARE", "/share", false),
    ("PACKETS", "/packets", true),
    ("BYTES", "/bytes", true),
    ("CE", "/ce", false),
    ("CNPS", "/sent", false),
    ("HELD BACK", "/heldBack", false),
    ("NOTIFY", "/cnps/notify", true),
    ("PAUSE", "/cnps/pause", true),
    ("REDUCE", "/cnps/rateReduce", true),
    ("RESUME", "/cnps/resume", true),
    ("FAILED", "/cnps/failed", true),
    ("SUPPRESSED", "/suppressed", true),
    ("FLOW LIMIT", "/rateLimitedFlow", true),
    ("PORT LIMIT", "/rateLimitedPort", true),
    ("NO SRC QP", "/unknownSourceQp", true),
];

/// Columns of `describe`: the flow's traffic.
pub(super) fn traffic() -> Vec<&'static Column> {
    let sends = |c: &&Column| ["/origin", "/rateBps", "/share", "/packets", "/bytes", "/ce"].contains(&c.1);
    COLUMNS.iter().take(4).chain(COLUMNS.iter().filter(sends)).collect()
}

/// Columns of `describe`: the Long-haul CNPs sent and held back for a flow.
pub(super) fn notifications() -> Vec<&'static Column> {
    COLUMNS.iter().take(3).chain(COLUMNS.iter().skip_while(|c| c.1 != "/cnps/notify")).collect()
}

/// A flow with the derived values that a table shows: `from`, `share` in percent, and sums.
pub(super) fn shown(flow: &Value) -> Value {
    let number = |pointer: &str| flow.pointer(pointer).and_then(Value::as_u64).unwrap_or(0);
    let sum = |pointers: &[&str]| pointers.iter().map(|p| number(p)).fold(0, u64::saturating_add);
    let word = |key: &str| flow.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut shown = flow.clone();
    shown["from"] = json!(format!("{}/{}", word("node"), word("port")));
    shown["share"] = json!(format!("{}.{} %", number("/sharePermille") / 10, number("/sharePermille") % 10));
    shown["sent"] = json!(sum(&["/cnps/notify", "/cnps/pause", "/cnps/rateReduce", "/cnps/resume"]));
    let held_back = ["/suppressed", "/rateLimitedFlow", "/rateLimitedPort", "/unknownSourceQp", "/cnps/failed"];
    shown["heldBack"] = json!(sum(&held_back));
    shown
}

/// The query for the flows through `name`: a node, or a node's port.
pub(super) fn query(name: &str) -> Result<String, Failure> {
    if !name.contains('/') {
        return Ok(format!("node={}", segment("node", name)?));
    }
    let (node, port) = link_name(name)?;
    Ok(format!("node={node}&port={port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_shares_are_those_of_the_flow() {
        let flow = json!({"node": "n1", "port": "eth1", "sharePermille": 457, "suppressed": 1, "rateLimitedFlow": 20,
            "rateLimitedPort": 300, "unknownSourceQp": 4000,
            "cnps": {"notify": 1, "pause": 10, "rateReduce": 100, "resume": 1000, "failed": 50_000}});
        let shown = shown(&flow);
        assert_eq!((&shown["from"], &shown["share"]), (&json!("n1/eth1"), &json!("45.7 %")));
        assert_eq!((&shown["sent"], &shown["heldBack"]), (&json!(1111), &json!(54_321)));
    }

    #[test]
    fn names_that_would_change_the_query_are_refused() {
        assert_eq!(query("n1").unwrap(), "node=n1");
        assert_eq!(query("n1/eth1").unwrap(), "node=n1&port=eth1");
        for bad in ["n1&limit=1", "n1/", "/eth1", "n1/a&b", ""] {
            assert!(query(bad).is_err(), "{bad}");
        }
    }
}
