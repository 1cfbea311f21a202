// SPDX-License-Identifier: Apache-2.0
//! Resources as clients send them.

use canopy_controller_core::metadata::{DEFAULT_TENANT, Labels};
use canopy_model::FieldErrors;
use canopy_model::ids::Generation;
use canopy_model::member::MemberSpec;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::{API_VERSION, Kind};

/// A resource as a client sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Input<S> {
    /// `canopy/v1`.
    pub api_version: String,
    /// Kind of resource.
    pub kind: String,
    /// Identity.
    pub metadata: MetadataInput,
    /// Desired configuration.
    pub spec: S,
    /// Accepted and ignored, so that a resource that was read can be sent back.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub status: Option<IgnoredObject>,
}

/// Identity of a resource as a client sends it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MetadataInput {
    /// Unique among resources of its kind, a DNS-1123 label. A member's is its host's name and may be left out.
    #[serde(default)]
    pub name: Option<String>,
    /// Members: the group. May be left out, the path names it.
    #[serde(default)]
    pub group: Option<String>,
    /// Groups: the tenant that it is created in, and stays in; `default` when left out. All else is the domain's: `default`, or left out.
    #[serde(default)]
    pub tenant: Option<String>,
    /// For selecting and for people; members carry none.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    pub labels: Labels,
    /// Accepted and ignored: use If-Match to make a change conditional.
    #[serde(default)]
    #[schema(value_type = Option<u64>)]
    pub generation: Option<Generation>,
    /// Accepted and ignored, as `generation`.
    #[serde(default)]
    pub uid: Option<String>,
    /// Accepted and ignored.
    #[serde(default)]
    pub created_unix_ns: Option<u64>,
    /// Accepted and ignored.
    #[serde(default)]
    pub written_unix_ns: Option<u64>,
    /// Accepted and ignored.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub written_by: Option<IgnoredObject>,
}

/// An object whose content is of no interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IgnoredObject;

impl<'de> Deserialize<'de> for IgnoredObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = IgnoredObject;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<IgnoredObject, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(IgnoredObject)
            }
        }
        from.deserialize_map(Object)
    }
}

impl<S> Input<S> {
    /// Checks the fields that all kinds share; `name` is the one in the path, if there is one.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn check(&self, kind: Kind, name: Option<&str>) -> Result<(), FieldErrors> {
        let mut errors = FieldErrors::default();
        if self.api_version != API_VERSION {
            errors.push("apiVersion", format!("{:?} is not served here: use {API_VERSION:?}", self.api_version));
        }
        let wanted = kind.to_string();
        if self.kind != wanted {
            errors.push("kind", format!("{:?} does not belong here: use {wanted:?}", self.kind));
        }
        // Of a member, the group's: a member that was read can be sent back.
        let is_free = matches!(kind, Kind::Group | Kind::Member);
        if let Some(tenant) = self.metadata.tenant.as_deref().filter(|t| !is_free && *t != DEFAULT_TENANT) {
            let detail = format!("{tenant:?} is not possible here: groups alone have tenants: leave it out");
            errors.push("metadata.tenant", detail);
        }
        match (self.metadata.name.as_deref(), name) {
            (Some(have), Some(want)) if have != want => {
                errors.push("metadata.name", format!("{have:?} is not the name in the path, {want:?}"))
            }
            (None, _) if kind != Kind::Member => errors.push("metadata.name", "is missing"),
            _ => {}
        }
        if kind != Kind::Member && self.metadata.group.is_some() {
            errors.push("metadata.group", "belongs to members only");
        }
        errors.into_result()
    }
}

impl Input<MemberSpec> {
    /// [`Input::check`] for a member of `group`.
    ///
    /// # Errors
    /// Every invalid field.
    pub fn check_member(&self, group: &str, host: Option<&str>) -> Result<(), FieldErrors> {
        let host = host.unwrap_or(&self.spec.host);
        self.check(Kind::Member, Some(host))?;
        let mut errors = FieldErrors::default();
        if self.spec.host != host {
            errors.push("spec.host", format!("{:?} is not the host in the path, {host:?}", self.spec.host));
        }
        if let Some(other) = self.metadata.group.as_deref().filter(|g| *g != group) {
            errors.push("metadata.group", format!("{other:?} is not the group in the path, {group:?}"));
        }
        if !self.metadata.labels.is_empty() {
            errors.push("metadata.labels", "members carry no labels: put them on the group");
        }
        errors.into_result()
    }
}
