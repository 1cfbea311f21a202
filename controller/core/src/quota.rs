// SPDX-License-Identifier: Apache-2.0
//! How much a tenant may have, and how fast it may change.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_units::Monotonic;
use serde::{Deserialize, Serialize};

/// Tenants whose rate is kept before those that have their whole rate again are forgotten.
const SWEEP_ABOVE: usize = 1024;

/// Quotas of every tenant; 0: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quotas {
    /// Groups.
    pub max_groups: u32,
    /// Memberships of receivers.
    pub max_receivers: u32,
    /// Writes of operators to groups and members in a second.
    pub max_changes_per_second: u32,
    /// Of single tenants, by name.
    pub tenants: BTreeMap<String, OwnQuotas>,
}

/// Quotas of one tenant; what is left out is as for every tenant. 0: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnQuotas {
    /// Groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_groups: Option<u32>,
    /// Memberships of receivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_receivers: Option<u32>,
    /// Writes of operators to groups and members in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_changes_per_second: Option<u32>,
}

/// The quotas that are in force for a tenant; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Groups.
    pub groups: Option<u32>,
    /// Memberships of receivers.
    pub receivers: Option<u32>,
    /// Writes of operators to groups and members in a second.
    pub changes_per_second: Option<u32>,
}

impl Quotas {
    /// Of this tenant.
    pub fn of(&self, tenant: &str) -> Quota {
        let own = self.tenants.get(tenant).copied().unwrap_or_default();
        let limit = |own: Option<u32>, of_all: u32| Some(own.unwrap_or(of_all)).filter(|limit| *limit > 0);
        Quota {
            groups: limit(own.max_groups, self.max_groups),
            receivers: limit(own.max_receivers, self.max_receivers),
            changes_per_second: limit(own.max_changes_per_second, self.max_changes_per_second),
        }
    }
}

/// A tenant has made as many changes as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooFast {
    /// Changes in a second.
    pub limit: u32,
    /// Until the next one is possible.
    pub wait: Duration,
}

/// The changes that tenants have made a moment ago: each may make those of one second at once, and as many follow in each second
/// (the generic cell rate algorithm of ITU-T I.371).
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// When the tenant has its whole rate again.
    full_at: BTreeMap<String, Monotonic>,
}

impl Rates {
    /// Notes a change at `now`.
    ///
    /// # Errors
    /// There were too many; it is not noted.
    pub fn take(&mut self, tenant: &str, limit: Option<u32>, now: Monotonic) -> Result<(), TooFast> {
        const SECOND: Duration = Duration::from_secs(1);
        let Some(limit) = limit else { return Ok(()) };
        let full_at = self.full_at.get(tenant).copied().unwrap_or(now).max(now) + SECOND / limit;
        let behind = full_at.since(now);
        if behind > SECOND {
            return Err(TooFast { limit, wait: behind - SECOND });
        }
        if self.full_at.len() >= SWEEP_ABOVE {
            self.full_at.retain(|_, at| *at > now);
        }
        self.full_at.insert(tenant.to_owned(), full_at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_its_own_limits_and_those_of_all_where_it_has_none() {
        let own = OwnQuotas { max_groups: Some(3), max_receivers: Some(0), max_changes_per_second: None };
        let quotas = Quotas {
            max_groups: 10,
            max_receivers: 20,
            max_changes_per_second: 30,
            tenants: [("acme".to_owned(), own)].into(),
        };
        let acme = Quota { groups: Some(3), receivers: None, changes_per_second: Some(30) };
        assert_eq!(quotas.of("acme"), acme);
        assert_eq!(quotas.of("other"), Quota { groups: Some(10), receivers: Some(20), ..acme });
        assert_eq!(Quotas::default().of("acme"), Quota::default());
    }

    /// Catches a tenant that gets more than its rate, one that waits for ever, and one that pays for another.
    #[test]
    fn the_changes_of_a_second_are_possible_at_once_and_as_many_follow_each_second() {
        let mut rates = Rates::default();
        let at = |ms: u64| Monotonic::START + Duration::from_millis(ms);
        let mut take = |tenant: &str, ms| rates.take(tenant, Some(4), at(ms));
        for _ in 0..4 {
            assert_eq!(take("a", 0), Ok(()));
        }
        let refused = take("a", 0).unwrap_err();
        assert_eq!(refused, TooFast { limit: 4, wait: Duration::from_millis(250) });
        assert_eq!(take("b", 0), Ok(()));
        assert!(take("a", 249).is_err());
        assert_eq!(take("a", 250), Ok(()));
        assert!(take("a", 250).is_err());
        for _ in 0..4 {
            assert_eq!(take("a", 5000), Ok(()));
        }
        assert!(take("a", 5000).is_err());
        assert_eq!(rates.take("a", None, at(5000)), Ok(()));
    }

    #[test]
    fn tenants_that_change_nothing_are_forgotten() {
        let mut rates = Rates::default();
        for i in 0..10_000_u64 {
            let now = Monotonic::START + Duration::from_secs(i);
            assert_eq!(rates.take(&format!("t{i}"), Some(1000), now), Ok(()));
        }
        assert!(rates.full_at.len() <= SWEEP_ABOVE);
    }
}
