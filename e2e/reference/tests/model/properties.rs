// SPDX-License-Identifier: Apache-2.0
//! Properties that always hold, and situations that must occur at least once.

use stateright::Property;

use crate::scenario::Scenario;
use crate::state::State;

pub(crate) const I1: &str = "I1: every receiver holds the acknowledged packets";
pub(crate) const I2: &str = "I2: every receiver holds the packets before a NAK";
pub(crate) const I3: &str = "I3: feedback of an unknown branch changes nothing";
pub(crate) const I4: &str = "I4: without faults the source finishes";
pub(crate) const PAYLOAD: &str = "receivers accept only the packet that they expect";
pub(crate) const MERGED: &str = "one NAK for two receivers";

pub(crate) const MOVED: &str = "a tree that changes in mid transfer carries the rest";

/// Timeouts and NAKs without progress after which no progress is expected.
pub(crate) const HOPELESS: u8 = 6;

/// Whether every receiver holds its packets below `packet`; those of a late receiver start at its boundary.
pub(crate) fn all_hold_below(s: &State, packet: u8) -> bool {
    s.receivers.iter().filter(|r| r.member).filter_map(|r| r.holds_below()).all(|held| held >= packet)
}

pub(crate) fn of(scenario: &Scenario) -> Vec<Property<Scenario>> {
    let always = [
        Property::always(I1, |_, s| all_hold_below(s, s.source.una)),
        Property::always(I2, |_, s: &State| !s.history.false_nak),
        Property::always(I3, |_, s: &State| !s.history.unknown_accepted),
        Property::always(I4, |_, s: &State| s.history.idle < HOPELESS),
        Property::always(PAYLOAD, |_, s: &State| !s.history.corrupt),
    ];
    let sometimes = [
        Property::sometimes("finished", |m: &Scenario, s: &State| s.finished(m)),
        Property::sometimes("PSN wraps", |m: &Scenario, s: &State| {
            m.wire(m.start() + u64::from(s.source.una)) < m.wire(m.start())
        }),
        Property::sometimes(MERGED, |m, s: &State| s.finished(m) && s.history.shared_naks == 1 && s.faults == 0),
        Property::sometimes("lost state, then finished", |m, s: &State| s.finished(m) && s.crashes == 0),
        Property::sometimes("changed, then finished", |m, s: &State| s.finished(m) && s.changed == m.changes.len()),
        Property::sometimes(MOVED, |m, s: &State| {
            let all_hold = s.receivers.iter().all(|r| r.holds_below() == Some(m.packets));
            s.finished(m) && s.changed == m.changes.len() && s.history.changed_amid && all_hold
        }),
        Property::sometimes("a late receiver gets its packets", |m, s: &State| {
            s.finished(m) && s.receivers.iter().any(|r| r.first > Some(0) && r.holds_below() == Some(m.packets))
        }),
        Property::sometimes("eviction unblocks", |m, s: &State| {
            s.finished(m) && s.receivers.iter().any(|r| !r.member && r.holds_below() < Some(m.packets))
        }),
    ];
    always.into_iter().chain(sometimes.into_iter().filter(|p| scenario.seen.contains(&p.name))).collect()
}
