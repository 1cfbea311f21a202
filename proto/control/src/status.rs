// SPDX-License-Identifier: Apache-2.0
//! A node's report after a reconciliation.

use std::time::Duration;

use canopy_model::FieldError;
use canopy_model::digest::SpecDigest;
use canopy_model::ids::{GroupId, check_name};
use canopy_model::status::{BACK_WITHIN, ItemError, ItemKind, NodeStatus, Took, check_metrics_address};
use canopy_units::nanos;

use crate::field::each;
use crate::pb;

const MAX_TOOK: Duration = Duration::from_secs(3600);

impl TryFrom<pb::ReportRequest> for NodeStatus {
    type Error = FieldError;
    fn try_from(wire: pb::ReportRequest) -> Result<Self, FieldError> {
        check_name("node", &wire.node)?;
        Ok(Self {
            node: wire.node,
            observed_term: wire.observed_term,
            observed_generation: wire.observed_generation,
            observed_digest: SpecDigest::from_field("observed_digest", &wire.observed_digest)?,
            errors: each("errors", wire.errors)?,
            agent_version: wire.agent_version,
            kernel: wire.kernel,
            minor_version: wire.minor_version,
            metrics_address: metrics_address(wire.metrics_address)?,
            took: took(wire.apply_ns, wire.read_back_ns),
            back_within: back_within(wire.back_within_ns),
            cleaned_up: wire.cleaned_up.map(Into::into),
        })
    }
}

impl From<&NodeStatus> for pb::ReportRequest {
    fn from(s: &NodeStatus) -> Self {
        Self {
            node: s.node.clone(),
            observed_term: s.observed_term,
            observed_generation: s.observed_generation,
            observed_digest: s.observed_digest.into(),
            errors: s.errors.iter().map(Into::into).collect(),
            agent_version: s.agent_version.clone(),
            kernel: s.kernel.clone(),
            minor_version: s.minor_version,
            metrics_address: s.metrics_address.clone(),
            apply_ns: s.took.map_or(0, |took| nanos(took.apply)),
            read_back_ns: s.took.map_or(0, |took| nanos(took.read_back)),
            back_within_ns: s.back_within.map_or(0, nanos),
            cleaned_up: s.cleaned_up.as_ref().map(Into::into),
        }
    }
}

/// Times of an agent that measures them; no reconciliation takes an hour.
fn took(apply_ns: u64, read_back_ns: u64) -> Option<Took> {
    let [apply, read_back] = [apply_ns, read_back_ns].map(|ns| Duration::from_nanos(ns).min(MAX_TOOK));
    (apply_ns != 0 || read_back_ns != 0).then_some(Took { apply, read_back })
}

/// No agent gets more time than an upgrade takes.
fn back_within(ns: u64) -> Option<Duration> {
    (ns != 0).then(|| Duration::from_nanos(ns).min(BACK_WITHIN))
}

/// It becomes a target of Prometheus: nothing that is not an address may get there.
fn metrics_address(wire: String) -> Result<String, FieldError> {
    if !wire.is_empty() {
        check_metrics_address("metrics_address", &wire)?;
    }
    Ok(wire)
}

impl TryFrom<pb::ItemError> for ItemError {
    type Error = FieldError;
    fn try_from(wire: pb::ItemError) -> Result<Self, FieldError> {
        Ok(Self {
            kind: item_kind(wire.kind, wire.silent)?,
            name: wire.name,
            group: optional_group("group_id", wire.group_id)?,
            detail: wire.detail,
        })
    }
}

impl From<&ItemError> for pb::ItemError {
    fn from(e: &ItemError) -> Self {
        Self {
            kind: item_kind_to_wire(e.kind).into(),
            name: e.name.clone(),
            group_id: group_or_zero(e.group),
            detail: e.detail.clone(),
            silent: e.kind == ItemKind::Silence,
        }
    }
}

/// A kind that this version does not know is of a later one.
fn item_kind(wire: i32, silent: bool) -> Result<ItemKind, FieldError> {
    Ok(match pb::ItemKind::try_from(wire) {
        Ok(pb::ItemKind::Unspecified) => return Err(FieldError::new("kind", "is missing")),
        Ok(pb::ItemKind::Port) => ItemKind::Port,
        Ok(pb::ItemKind::Link) if silent => ItemKind::Silence,
        Ok(pb::ItemKind::Link) => ItemKind::Link,
        Ok(pb::ItemKind::Route) => ItemKind::Route,
        Ok(pb::ItemKind::Neighbour) => ItemKind::Neighbour,
        Ok(pb::ItemKind::Program) => ItemKind::Program,
        Ok(pb::ItemKind::Group) => ItemKind::Group,
        Ok(pb::ItemKind::Report) => ItemKind::Report,
        Err(_) => ItemKind::Other,
    })
}

fn item_kind_to_wire(kind: ItemKind) -> pb::ItemKind {
    match kind {
        ItemKind::Port => pb::ItemKind::Port,
        // A controller that does not know the flag leads around it as well.
        ItemKind::Link | ItemKind::Silence => pb::ItemKind::Link,
        ItemKind::Route => pb::ItemKind::Route,
        ItemKind::Neighbour => pb::ItemKind::Neighbour,
        ItemKind::Program => pb::ItemKind::Program,
        ItemKind::Group => pb::ItemKind::Group,
        ItemKind::Report => pb::ItemKind::Report,
        // The number of a later version is not kept, and no other kind is true.
        ItemKind::Other => pb::ItemKind::Unspecified,
    }
}

/// Group identifier where 0 means none.
pub(crate) fn optional_group(field: &str, id: u32) -> Result<Option<GroupId>, FieldError> {
    if id == 0 { Ok(None) } else { GroupId::new(field, id.into()).map(Some) }
}

/// Group identifier, 0 for none.
pub(crate) fn group_or_zero(id: Option<GroupId>) -> u32 {
    id.map_or(0, GroupId::get)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_wire() {
        let error = |group| ItemError { kind: ItemKind::Port, name: "eth2".into(), group, detail: "down".into() };
        let status = NodeStatus {
            node: "n1".into(),
            observed_term: u64::MAX - 1,
            observed_generation: u64::MAX,
            observed_digest: SpecDigest::new([7; 32]),
            errors: vec![error(None), error(Some(GroupId::new("g", 9).unwrap()))],
            agent_version: "0.1".into(),
            kernel: "6.12".into(),
            minor_version: 3,
            metrics_address: "[2001:db8::1]:9464".into(),
            took: Some(Took { apply: Duration::from_micros(2), read_back: Duration::ZERO }),
            back_within: Some(Duration::from_secs(20)),
            cleaned_up: Some(Default::default()),
        };
        assert_eq!(NodeStatus::try_from(pb::ReportRequest::from(&status)).unwrap(), status);
        let mut wire = pb::ReportRequest { apply_ns: u64::MAX, ..pb::ReportRequest::from(&status) };
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().took.unwrap().apply, MAX_TOOK);
        wire.apply_ns = 0;
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().took, None, "of an earlier agent");
        wire.back_within_ns = u64::MAX;
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().back_within, Some(BACK_WITHIN));
        wire.back_within_ns = 0;
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().back_within, None, "it does not end");
        wire.metrics_address.clear();
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().metrics_address, "", "of an earlier agent");
        for bad in ["n1", "n1:0", "n1:65536", ":9464", "n 1:9464", "2001:db8::1:9464", "[n1]:9464", "n1/x:80"] {
            wire.metrics_address = bad.into();
            let error = NodeStatus::try_from(wire.clone()).unwrap_err().to_string();
            assert!(error.starts_with("metrics_address: "), "{bad}: {error}");
        }
        let mut wire = pb::ReportRequest::from(&status);
        wire.errors[1].kind = 99;
        let later = NodeStatus::try_from(wire.clone()).unwrap();
        assert_eq!(later.errors[1].kind, ItemKind::Other, "of a later version");
        let again = pb::ReportRequest::from(&later);
        assert_eq!(again.errors[1].kind(), pb::ItemKind::Unspecified, "not another kind");
        wire.errors[0] = pb::ItemError::from(&ItemError { kind: ItemKind::Silence, ..error(None) });
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().errors[0].kind, ItemKind::Silence);
        assert_eq!(wire.errors[0].kind(), pb::ItemKind::Link, "what a controller without the flag reads");
        wire.errors[0].silent = false;
        assert_eq!(NodeStatus::try_from(wire.clone()).unwrap().errors[0].kind, ItemKind::Link, "of an earlier agent");
        wire.errors[1].kind = 0;
        assert!(NodeStatus::try_from(wire).unwrap_err().to_string().starts_with("errors[1].kind: is missing"));
        assert!(NodeStatus::try_from(pb::ReportRequest::default()).unwrap_err().to_string().starts_with("node: "));
    }
}
