// SPDX-License-Identifier: Apache-2.0
//! Which resources a list has: label and field selectors, and how the fields of each kind are read.

use std::borrow::Cow;

use canopy_controller_api::health::ProblemItem;
use canopy_controller_api::query::ListQuery;
use canopy_controller_core::GroupFilter;
use canopy_controller_core::fields::{DrainField, Field, FieldSelector, GroupField, ProblemField, truth};
use canopy_controller_core::selector::Selector;
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::view::DrainView;

use crate::error::ApiError;

/// From the parameter `labelSelector`.
pub(super) fn labels(text: &str) -> Result<Selector, ApiError> {
    Selector::parse("labelSelector", text).map_err(|e| ApiError::bad_request(&e.field, e.detail))
}

/// From the parameter `fieldSelector`.
pub(super) fn fields<F: Field>(text: &str) -> Result<FieldSelector<F>, ApiError> {
    FieldSelector::parse("fieldSelector", text).map_err(|e| ApiError::bad_request(&e.field, e.detail))
}

/// Of the groups that a caller sees.
pub(super) fn of_groups(query: &ListQuery, scope: Scope) -> Result<GroupFilter, ApiError> {
    let mut fields = fields(&query.field_selector)?;
    if let Some(phase) = query.phase {
        fields = fields.with(GroupField::Phase, phase.to_string());
    }
    let labels = labels(&query.label_selector)?;
    Ok(GroupFilter { scope, labels, fields, prefix: query.name_prefix.clone() })
}

pub(super) fn drain_passes(labels: &Selector, fields: &FieldSelector<DrainField>, drain: &DrainView) -> bool {
    labels.matches(&drain.metadata.labels)
        && fields.matches(|field| match field {
            DrainField::Link => Cow::Borrowed(drain.spec.link.as_deref().unwrap_or_default()),
            DrainField::Name => Cow::Borrowed(drain.metadata.name.as_str()),
            DrainField::Node => Cow::Borrowed(drain.spec.node.as_deref().unwrap_or_default()),
        })
}

pub(super) fn problem_passes(fields: &FieldSelector<ProblemField>, problem: &ProblemItem) -> bool {
    fields.matches(|field| match field {
        ProblemField::Code => Cow::Borrowed(problem.code.as_str()),
        ProblemField::Kind => Cow::Owned(format!("{:?}", problem.object.kind).to_lowercase()),
        ProblemField::Name => Cow::Borrowed(problem.object.name.as_str()),
        ProblemField::Root => truth(problem.root),
        ProblemField::Severity => Cow::Owned(format!("{:?}", problem.severity).to_lowercase()),
    })
}
