// SPDX-License-Identifier: Apache-2.0
//! Links on which no data arrives although Echo Requests are answered (decisions 3.14): a wrong MTU on the way, a policer. They are treated
//! as links that lose every packet.
//!
//! ```text
//! in use --no data arrives--> avoided for a minute --over--> in use --no data arrives--> avoided for twice as long, up to 32 minutes
//! ```
//!
//! Once trees avoid the link, no data shows whether it is whole, and Echo Requests never did. So it is tried again: trees return to it by
//! make-before-break, and if nothing has changed they leave it again within 3 s. What doubles is forgotten after the link has been in use
//! for twice as long as it was avoided.

use std::time::Duration;

use canopy_units::Monotonic;

use super::links::Silenced;
use super::state::State;
use crate::resource::Withholding;

/// How long a link is avoided the first time, and at most.
const FIRST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(32 * 60);

/// Notes that no data arrives on a link. True if that is new.
pub(super) fn begin(state: &mut State, silenced: Silenced, now: Monotonic) -> bool {
    let Silenced { from, to, group, data } = silenced;
    let Some(at) = state.index(&from.device) else { return false };
    let name = state.groups.name(group).unwrap_or("of a group").to_owned();
    let known = &mut state.nodes[at].withholding;
    let before = known.get(&from.port);
    if before.is_some_and(|w| w.until.is_some()) {
        return false;
    }
    let again = before.filter(|w| now.since(w.tried) < w.lasts.saturating_mul(2));
    let lasts = again.map_or(FIRST, |w| w.lasts.saturating_mul(2).min(LONGEST));
    let detail = format!(
        "the link to {to} loses every packet of data although its carrier is up and Echo Requests over it are answered: none of the last {} \
         packets of group {name} has arrived for {:.1} s; check the MTU and policers on the way; it is tried again in {} s",
        data.packets,
        now.since(data.since).as_secs_f64(),
        lasts.as_secs()
    );
    let tried = now + lasts;
    known.insert(from.port, Withholding { until: Some(tried), tried, lasts, detail });
    true
}

/// Tries those links of the node again that were avoided for long enough. True if there are any.
pub(super) fn end(state: &mut State, node: &str, now: Monotonic) -> bool {
    let Some(at) = state.index(node) else { return false };
    let mut any = false;
    for withholding in state.nodes[at].withholding.values_mut() {
        if withholding.until.is_some_and(|until| now >= until) {
            (withholding.until, any) = (None, true);
            // By a controller that was busy, later than planned.
            withholding.tried = now;
        }
    }
    any
}

/// Whether it was avoided until a moment ago.
pub(super) fn is_tried_again(withholding: &Withholding, now: Monotonic) -> bool {
    withholding.until.is_none() && now.since(withholding.tried) < FIRST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_tried_again_for_a_minute_after_it_was_avoided() {
        let tried = Monotonic::START + Duration::from_secs(100);
        let at = |until, ms| {
            let withholding = Withholding { until, tried, lasts: FIRST, detail: String::new() };
            is_tried_again(&withholding, tried + Duration::from_millis(ms))
        };
        assert_eq!([0, 1, 59_999, 60_000, 600_000].map(|ms| at(None, ms)), [true, true, true, false, false]);
        assert_eq!([0, 1, 60_000].map(|ms| at(Some(tried), ms)), [false; 3], "it is avoided");
    }
}
