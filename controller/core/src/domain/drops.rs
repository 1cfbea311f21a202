// SPDX-License-Identifier: Apache-2.0
//! Drop counters of nodes that rise. In memory only.

use std::collections::BTreeMap;
use std::time::Duration;

use canopy_units::Monotonic;

use super::state::State;
use crate::drops::{DropKey, Rise, Rising, code_of};

/// Counters of one node that are kept while they rise, at most.
const MAX_RISING: usize = 1024;
/// A counter that has not risen for this long is no sign any more.
const FRESH: Duration = Duration::from_secs(3);

/// Notes what rose at `node`, and forgets what no longer does.
pub(super) fn rose(state: &mut State, node: &str, rises: Vec<Rise>, now: Monotonic) -> bool {
    let Some(at) = state.index(node) else { return false };
    let rising: &mut BTreeMap<DropKey, Rising> = &mut state.nodes[at].telemetry.rising;
    let were_rising = !rising.is_empty();
    rising.retain(|_, rising| is_fresh(rising, now));
    for Rise { group, port, reason, name, packets } in rises {
        if code_of(reason, port.is_some()).is_none() || rising.len() >= MAX_RISING {
            continue;
        }
        rising.insert(DropKey { group, port, reason }, Rising { name, packets, at: now });
    }
    were_rising || !rising.is_empty()
}

pub(super) fn is_fresh(rising: &Rising, now: Monotonic) -> bool {
    now.since(rising.at) <= FRESH
}
