// SPDX-License-Identifier: Apache-2.0
//! What tenants have beside what they may have.

use super::state::State;
use crate::error::DomainError;
use crate::metadata::DEFAULT_TENANT;
use crate::tenant::Scope;
use crate::view::{Page, TenantView};

/// What quotas bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuotaBounds {
    /// All that is added.
    WhatIsAdded,
    /// Nothing: a rollback puts back what was there.
    NotWhatIsPutBack,
}

/// Checks that a tenant may have so many more groups and receivers: none more is always possible, also above a quota that was lowered. What
/// is put back was there before: it always may be.
pub(super) fn check_room(
    state: &State,
    tenant: &str,
    groups: usize,
    receivers: usize,
    bounds: QuotaBounds,
) -> Result<(), DomainError> {
    if bounds == QuotaBounds::NotWhatIsPutBack {
        return Ok(());
    }
    let (usage, quota) = (state.groups.tenants().usage(tenant), state.quotas.of(tenant));
    let check = |has: usize, more: usize, limit: Option<u32>, what, setting| match limit {
        Some(limit) if more > 0 && has + more > limit as usize => {
            Err(DomainError::Quota { tenant: tenant.to_owned(), has, what, limit, setting })
        }
        _ => Ok(()),
    };
    check(usage.groups, groups, quota.groups, "groups", "max_groups")?;
    check(usage.receivers, receivers, quota.receivers, "receivers", "max_receivers")
}

/// One page of the tenants of a scope in name order, behind the name `after`: in the domain those with groups, those with quotas of their own,
/// and the default one.
pub(super) fn page(state: &State, scope: &Scope, after: Option<&str>, limit: usize) -> Page<TenantView> {
    let is_behind = |name: &&str| after.is_none_or(|after| *name > after);
    let mut names: Vec<&str> = match scope {
        Scope::Tenants(tenants) => tenants.iter().map(String::as_str).filter(is_behind).collect(),
        Scope::Domain => {
            let with_groups = state.groups.tenants().behind(after).take(limit + 1).map(|(name, _)| name);
            let with_quotas = state.quotas.tenants.keys().map(String::as_str);
            with_groups.chain(with_quotas.chain([DEFAULT_TENANT]).filter(is_behind)).collect()
        }
    };
    names.sort_unstable();
    names.dedup();
    let next = (names.len() > limit).then(|| names[limit - 1].to_owned());
    names.truncate(limit);
    let view = |name: &str| TenantView {
        name: name.to_owned(),
        usage: state.groups.tenants().usage(name),
        quota: state.quotas.of(name),
    };
    Page { items: names.into_iter().map(view).collect(), next }
}
