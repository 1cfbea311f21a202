// SPDX-License-Identifier: Apache-2.0
//! Metadata that every resource carries.

use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
pub use canopy_model::labels::Labels;
use serde::{Deserialize, Serialize};

use crate::principal::{Stamp, Written};
use crate::uid::Uid;

/// The tenant of what names none, and of all that earlier versions wrote.
pub const DEFAULT_TENANT: &str = "default";

/// Label of a group that chooses its metrics; with the value [`BRANCHES`], agents export those of its branches, too.
pub const METRICS_LABEL: &str = "canopy/metrics";
/// See [`METRICS_LABEL`].
pub const BRANCHES: &str = "branches";

/// Label of a resource that one writer manages, with that writer's name: no other one changes or deletes it.
pub const MANAGED_BY: &str = "canopy/managed-by";

/// Identity and bookkeeping of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Unique among resources of its kind.
    pub name: String,
    /// Owner: of a group the tenant that it was created in, of a member its group's; `default` of all else.
    pub tenant: String,
    /// For selectors and for people.
    #[serde(default)]
    pub labels: Labels,
    /// 1 at creation, grows by one with every change of labels or spec.
    pub generation: Generation,
    /// Names this resource for ever. Absent from records of earlier versions.
    #[serde(default, skip_serializing_if = "Uid::is_absent")]
    pub uid: Uid,
    /// Who created it, and when; absent if an earlier version did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Stamp>,
    /// Who changed labels or spec last, and when; absent if it is as it was created, or an earlier version did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Stamp>,
}

impl Metadata {
    /// Metadata of a new resource of the domain.
    pub(crate) fn created(name: &str, labels: Labels, uid: Uid, written: &Written) -> Self {
        let created = Some(written.stamp());
        Self {
            name: name.to_owned(),
            tenant: DEFAULT_TENANT.to_owned(),
            labels,
            generation: 1,
            uid,
            created,
            changed: None,
        }
    }

    /// The same in this tenant.
    pub(crate) fn in_tenant(self, tenant: &str) -> Self {
        Self { tenant: tenant.to_owned(), ..self }
    }

    /// The same resource after one more change.
    pub(crate) fn changed(&self, labels: Labels, written: &Written) -> Self {
        Self { labels, generation: self.generation + 1, changed: Some(written.stamp()), ..self.clone() }
    }

    /// Who wrote the present intent.
    pub fn written(&self) -> Option<&Stamp> {
        self.changed.as_ref().or(self.created.as_ref())
    }

    /// Tag of this intent, the API's ETag: a resource that was deleted and created again never has one of before.
    pub fn tag(&self) -> String {
        format!("{}.{}", self.uid, self.generation)
    }
}

/// Checks those of a resource's metadata; see [`canopy_model::labels::check`].
pub(crate) fn check_labels(labels: &Labels, errors: &mut FieldErrors) {
    canopy_model::labels::check("metadata.labels", labels, errors);
}
