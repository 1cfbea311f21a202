// SPDX-License-Identifier: Apache-2.0
//! Derives events from consecutive states of a group. Pure.

use std::collections::VecDeque;

use canopy_control::pb::{GroupPhase, WatchGroupResponse};

/// An event of a group. The first events after [`events`](crate::Membership::events) describe its current state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Not usable yet or not usable for a moment: no source or receiver, or nodes are being programmed. Data in
    /// flight is still forwarded.
    Waiting {
        /// What is missing.
        reason: String,
    },
    /// Every node confirmed: data of the source reaches every receiver. Also sent when `write_length` changes.
    Ready {
        /// Receivers in the group.
        receivers: u32,
        /// Bytes that every receiver has registered; 0 = RDMA WRITE is not possible.
        write_length: u64,
    },
    /// A node cannot do its part, or there is no path to a receiver. The group recovers when the cause is gone.
    Degraded {
        /// Which node and why.
        reason: String,
    },
    /// Receivers joined.
    ReceiverJoined {
        /// Receivers in the group now.
        receivers: u32,
    },
    /// Receivers left or were removed.
    ReceiverLeft {
        /// Receivers in the group now.
        receivers: u32,
    },
    /// The stall policy removed a receiver: it does not have the data that it had not acknowledged. It may join
    /// again.
    Evicted {
        /// Its host.
        host: String,
        /// Why.
        reason: String,
    },
    /// The stall policy stopped the group: every member has to leave before it can be used again.
    Failed {
        /// Why.
        reason: String,
    },
    /// The session that this member joined has ended: the source left or joined again. No data comes any more, and the parameters of
    /// the join no longer count: reset the queue pair and join again.
    SessionEnded,
    /// No state of the group is received: the agent or its controller is unreachable. Forwarding continues.
    Disconnected {
        /// The component that does not answer.
        reason: String,
    },
    /// States are received again; events for the changes in between follow.
    Reconnected,
    /// The group was deleted. Nothing follows.
    Deleted,
}

/// The last state, to compare the next one with.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    /// The session that the member joined, until its end was reported.
    joined: Option<u32>,
    last: Option<WatchGroupResponse>,
    connected: Option<bool>,
}

impl Follower {
    /// Follows the group of a member of this session.
    pub(crate) fn of(session: u32) -> Self {
        Self { joined: Some(session), ..Self::default() }
    }

    /// Queues the events for the changes from the last state to `next`.
    pub(crate) fn state(&mut self, next: WatchGroupResponse, out: &mut VecDeque<Event>) {
        if self.connected == Some(false) {
            out.push_back(Event::Reconnected);
        }
        self.connected = Some(true);
        if self.joined.take_if(|joined| *joined != next.session).is_some() {
            out.push_back(Event::SessionEnded);
        }
        if let Some(last) = &self.last {
            let receivers = next.receivers;
            // The eviction is reported before its reason, and before the state of the group without the receiver.
            match receivers.cmp(&last.receivers) {
                std::cmp::Ordering::Greater => out.push_back(Event::ReceiverJoined { receivers }),
                std::cmp::Ordering::Less => out.push_back(Event::ReceiverLeft { receivers }),
                std::cmp::Ordering::Equal => {}
            }
        }
        let known = self.last.as_ref().map_or(&[][..], |last| &last.evicted);
        let added = next.evicted.iter().filter(|e| !known.contains(e));
        out.extend(added.map(|e| Event::Evicted { host: e.host.clone(), reason: e.reason.clone() }));
        let phase = phase(&next);
        if self.last.as_ref().map(self::phase).as_ref() != Some(&phase) {
            out.push_back(phase);
        }
        self.last = Some(next);
    }

    /// Queues that the agent or its controller is unreachable, once.
    pub(crate) fn lost(&mut self, reason: &str, out: &mut VecDeque<Event>) {
        if self.connected != Some(false) {
            self.connected = Some(false);
            out.push_back(Event::Disconnected { reason: reason.to_owned() });
        }
    }
}

fn phase(state: &WatchGroupResponse) -> Event {
    let reason = state.reason.clone();
    match state.phase() {
        GroupPhase::Ready => Event::Ready { receivers: state.receivers, write_length: state.write_length },
        GroupPhase::Degraded => Event::Degraded { reason },
        GroupPhase::Failed => Event::Failed { reason },
        GroupPhase::Pending | GroupPhase::Programming | GroupPhase::Unspecified => Event::Waiting { reason },
    }
}

#[cfg(test)]
mod tests {
    use canopy_control::pb::Evicted;

    use super::*;

    fn state(phase: GroupPhase, receivers: u32, evicted: &[&str]) -> WatchGroupResponse {
        let evicted = evicted.iter().map(|h| Evicted { host: (*h).into(), reason: "silent".into() }).collect();
        WatchGroupResponse {
            phase: phase.into(),
            reason: "why".into(),
            receivers,
            write_length: 9,
            evicted,
            session: 0,
        }
    }

    fn after(follower: &mut Follower, next: WatchGroupResponse) -> Vec<Event> {
        let mut out = VecDeque::new();
        follower.state(next, &mut out);
        out.into()
    }

    fn evicted(host: &str) -> Event {
        Event::Evicted { host: host.into(), reason: "silent".into() }
    }

    #[test]
    fn each_change_is_reported_once() {
        let f = &mut Follower::default();
        let ready = |receivers| Event::Ready { receivers, write_length: 9 };
        let waiting = Event::Waiting { reason: "why".into() };
        assert_eq!(after(f, state(GroupPhase::Pending, 0, &[])), [waiting]);
        assert_eq!(after(f, state(GroupPhase::Programming, 1, &[])), [Event::ReceiverJoined { receivers: 1 }]);
        assert_eq!(after(f, state(GroupPhase::Ready, 1, &[])), [ready(1)]);
        assert_eq!(after(f, state(GroupPhase::Ready, 1, &[])), []);
        assert_eq!(after(f, state(GroupPhase::Ready, 2, &[])), [Event::ReceiverJoined { receivers: 2 }, ready(2)]);
        let left = Event::ReceiverLeft { receivers: 1 };
        assert_eq!(after(f, state(GroupPhase::Ready, 1, &["r1"])), [left, evicted("r1"), ready(1)]);
        assert_eq!(after(f, state(GroupPhase::Degraded, 1, &["r1"])), [Event::Degraded { reason: "why".into() }]);
        assert_eq!(after(f, state(GroupPhase::Failed, 1, &["r1"])), [Event::Failed { reason: "why".into() }]);
    }

    #[test]
    fn the_end_of_a_members_session_is_reported_once_and_first() {
        let f = &mut Follower::of(4);
        let in_session = |session, phase| WatchGroupResponse { session, ..state(phase, 1, &[]) };
        let ready = Event::Ready { receivers: 1, write_length: 9 };
        assert_eq!(after(f, in_session(4, GroupPhase::Ready)), std::slice::from_ref(&ready));
        let waiting = Event::Waiting { reason: "why".into() };
        assert_eq!(after(f, in_session(9, GroupPhase::Pending)), [Event::SessionEnded, waiting]);
        assert_eq!(after(f, in_session(12, GroupPhase::Ready)), [ready]);
        // It had ended before the watch began.
        assert_eq!(after(&mut Follower::of(4), in_session(9, GroupPhase::Ready))[0], Event::SessionEnded);
    }

    #[test]
    fn a_new_watch_gets_the_current_state_and_a_reconnected_one_the_changes() {
        let f = &mut Follower::default();
        let ready = |receivers| Event::Ready { receivers, write_length: 9 };
        assert_eq!(after(f, state(GroupPhase::Ready, 3, &["r1"])), [evicted("r1"), ready(3)]);
        let mut out = VecDeque::new();
        f.lost("no answer", &mut out);
        f.lost("no answer", &mut out);
        assert_eq!(out, [Event::Disconnected { reason: "no answer".into() }]);
        assert_eq!(
            after(f, state(GroupPhase::Ready, 2, &["r1", "r2"])),
            [Event::Reconnected, Event::ReceiverLeft { receivers: 2 }, evicted("r2"), ready(2)]
        );
        // Evicted again after it had joined again.
        assert_eq!(after(f, state(GroupPhase::Ready, 3, &["r2"])), [Event::ReceiverJoined { receivers: 3 }, ready(3)]);
        assert!(after(f, state(GroupPhase::Ready, 2, &["r1", "r2"])).contains(&evicted("r1")));
    }
}
