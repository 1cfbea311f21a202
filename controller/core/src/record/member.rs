// SPDX-License-Identifier: Apache-2.0
//! The durable form of a membership.

use std::num::NonZeroU64;
use std::sync::Arc;

use canopy_model::member::{LateStart, MemberSpec};
use serde::{Deserialize, Serialize};

use crate::member::Member;
use crate::metadata::Metadata;
use crate::principal::Principal;
use crate::shared::Shared;

/// Durable form of a membership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    pub(crate) group: String,
    pub(crate) revision: u64,
    /// Its tenant is the group's, its name the host's.
    pub(crate) metadata: Metadata,
    pub(crate) spec: MemberSpec,
    /// See [`Member`], as what follows.
    #[serde(default)]
    pub(crate) since: u32,
    #[serde(default)]
    pub(crate) late: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) answered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<LateStart>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<NonZeroU64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lease: bool,
}

impl MemberRecord {
    /// That of a membership of this group.
    pub(crate) fn of(group: &Metadata, revision: u64, member: &Member) -> Self {
        let Member { since, late, answered, start, instance, lease, .. } = *member;
        let (metadata, spec) = (member.metadata(&group.tenant), member.spec());
        let group = group.name.clone();
        Self { group, revision, metadata, spec, since, late, answered, start, instance, lease }
    }

    /// The membership; what others have in common with it is taken from `common`.
    pub(crate) fn read(mut self, common: &mut Common) -> Member {
        common.share(&mut self.metadata);
        let Self { metadata, spec, since, late, answered, start, instance, lease, .. } = self;
        let host = common.hosts.share(spec.host.as_str());
        Member { since, late, answered, start, instance, lease, ..Member::new(host, metadata, spec) }
    }
}

/// What resources have in common.
#[derive(Debug, Default)]
pub(crate) struct Common {
    hosts: Shared<str>,
    principals: Shared<Principal>,
}

impl Common {
    /// Those who wrote a resource are the principals that others have, too.
    pub(crate) fn share(&mut self, metadata: &mut Metadata) {
        for stamp in [&mut metadata.created, &mut metadata.changed].into_iter().flatten() {
            stamp.by = self.principals.share(Arc::clone(&stamp.by));
        }
    }
}

#[cfg(test)]
mod tests {
    use canopy_units::UnixTime;

    use super::*;

    #[test]
    fn a_membership_is_read_as_it_was_written_and_shares_what_others_have() {
        let text = |host: &str, at: u64, more: &str| {
            let by = r#"{"kind":"host","name":"r1","uid":1000}"#;
            let metadata = format!(
                r#"{{"name":"{host}","tenant":"acme","labels":{{}},"generation":7,"uid":"01234567-89ab-8def-8123-456789abcdef","created":{{"at":{at},"by":{by}}}}}"#
            );
            let spec = format!(r#"{{"host":"{host}","role":"receiver","qpn":17}}"#);
            format!(r#"{{"group":"g","revision":9,"metadata":{metadata},"spec":{spec},"since":3,"late":true{more}}}"#)
        };
        let late = r#","answered":true,"start":{"shift":5,"msnBase":6},"instance":8,"lease":true"#;
        let group = Metadata::created("g", Default::default(), Default::default(), &Default::default());
        let mut common = Common::default();
        let mut read = |text: &str| {
            let record: MemberRecord = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&record).unwrap(), text);
            let member = record.clone().read(&mut common);
            assert_eq!(MemberRecord::of(&group.clone().in_tenant("acme"), 9, &member), record);
            member
        };
        let [a, b, other] =
            [("h1", 1, late), ("h1", 2, ""), ("h2", 3, "")].map(|(h, at, more)| read(&text(h, at, more)));
        let by = |member: &Member| member.created.clone().unwrap().by;
        assert!(Arc::ptr_eq(&a.host, &b.host) && !Arc::ptr_eq(&a.host, &other.host));
        assert!(Arc::ptr_eq(&by(&a), &by(&b)) && Arc::ptr_eq(&by(&a), &by(&other)));
        assert_eq!(b.created.unwrap().at, UnixTime::from_nanos(2));
    }
}
