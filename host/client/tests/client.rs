// SPDX-License-Identifier: Apache-2.0
//! The blocking API against an agent that gives the answers a test configures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use canopy_control::pb::GroupPhase;
use canopy_host::{Client, Error, Event, JoinOptions};
use canopy_testkit::agent::{Agent, state};

const PATIENCE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(100);

#[test]
fn a_join_sends_all_options_and_returns_the_connection_of_the_queue_pair() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let client = Client::connect(agent.path()).unwrap();
    let address = "2001:db8::5".parse().unwrap();
    let options = JoinOptions { address: Some(address), ..JoinOptions::receiver("g", "r1", 0x77).with_memory(1, 2, 3) };
    let member = client.join(options).unwrap();
    let c = member.connection();
    assert_eq!((c.proxy_address, c.designated_qpn.get()), ("fcfe::7".parse().unwrap(), 0x12_3456));
    assert_eq!((c.start_psn.get(), c.path_mtu, c.write_base_va, c.write_rkey), (0xff_fff0, 2048, 1 << 40, 9));
    member.leave().unwrap();
    let received = agent.requests.lock().unwrap();
    let join = &received.joins[0];
    assert_eq!((join.group.as_str(), join.host.as_str(), join.role, join.qpn), ("g", "r1", 2, 0x77));
    assert_eq!(join.address, address.octets());
    let memory = join.memory.unwrap();
    assert_eq!((memory.va, memory.rkey, memory.length), (1, 2, 3));
    assert_eq!((received.leaves[0].group.as_str(), received.leaves[0].host.as_str()), ("g", "r1"));
}

#[test]
fn refusals_keep_their_kind_and_a_dropped_membership_does_not_leave() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let client = Client::connect(agent.path()).unwrap();
    let join = |group, host, qpn| client.join(JoinOptions::receiver(group, host, qpn));
    assert!(matches!(join("absent", "r1", 17).unwrap_err(), Error::NoSuchGroup(_)));
    assert!(matches!(join("g", "theirs", 17).unwrap_err(), Error::NotPermitted(text) if text.contains("uid 7")));
    assert!(matches!(join("g", "r1", 1).unwrap_err(), Error::Invalid { field, .. } if field == "qpn"));
    drop(join("g", "r1", 17).unwrap());
    drop(client);
    assert!(agent.requests.lock().unwrap().leaves.is_empty());
    let missing = Client::connect(dir.path().join("nowhere")).unwrap_err();
    assert!(missing.to_string().contains("canopy-agent running"), "{missing}");
    assert!(matches!(Client::connect("host.sock").unwrap_err(), Error::Invalid { field, .. } if field == "path"));
}

#[test]
fn waiting_ends_when_it_is_ready_failed_or_over() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let member = Client::connect(agent.path()).unwrap().join(JoinOptions::source("g", "s1", 17)).unwrap();
    agent.send_state(state(GroupPhase::Ready, "", 1, &[]));
    let early = member.wait_ready(2, BRIEF).unwrap_err();
    assert!(matches!(&early, Error::Timeout { reason, .. } if reason.contains("1 of 2 receivers")), "{early}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| member.wait_ready(2, PATIENCE));
        agent.send_state(state(GroupPhase::Programming, "", 2, &[]));
        agent.send_state(state(GroupPhase::Ready, "", 2, &[]));
        let ready = waiting.join().unwrap().unwrap();
        assert_eq!((ready.receivers, ready.write_length), (2, 4096));
    });
    agent.send_state(state(GroupPhase::Failed, "r1 is silent", 2, &[]));
    let failed = member.wait_ready(2, PATIENCE).unwrap_err();
    assert!(matches!(failed, Error::GroupFailed(why) if why == "r1 is silent"));
}

#[test]
fn events_continue_over_a_crash_of_the_agent_and_end_with_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let member = Client::connect(agent.path()).unwrap().join(JoinOptions::source("g", "s1", 17)).unwrap();
    agent.send_state(state(GroupPhase::Ready, "", 2, &[]));
    let mut events = member.events();
    let mut next = || events.next_within(PATIENCE).unwrap().unwrap();
    assert_eq!(next(), Event::Ready { receivers: 2, write_length: 4096 });
    drop(agent);
    assert!(matches!(next(), Event::Disconnected { .. }));
    let agent = Agent::start(dir.path());
    agent.send_state(state(GroupPhase::Ready, "", 1, &[("r1", "silent")]));
    assert_eq!(next(), Event::Reconnected);
    assert_eq!(next(), Event::ReceiverLeft { receivers: 1 });
    assert_eq!(next(), Event::Evicted { host: "r1".into(), reason: "silent".into() });
    assert_eq!(next(), Event::Ready { receivers: 1, write_length: 4096 });
    assert_eq!(events.next_within(BRIEF).unwrap(), None, "nothing else happened");
    agent.delete_group();
    let rest: Vec<Event> = events.map(Result::unwrap).collect();
    assert_eq!(rest, [Event::Deleted]);
}

/// An agent that is dropping its tasks may still end its streams in order.
#[test]
fn a_watch_that_ends_without_a_status_is_no_deleted_group() {
    let dir = tempfile::tempdir().unwrap();
    let mut agent = Agent::start(dir.path());
    let member = Client::connect(agent.path()).unwrap().join(JoinOptions::source("g", "s1", 17)).unwrap();
    agent.send_state(state(GroupPhase::Ready, "", 2, &[]));
    let mut events = member.events();
    let mut next = || events.next_within(PATIENCE).unwrap().unwrap();
    assert_eq!(next(), Event::Ready { receivers: 2, write_length: 4096 });
    agent.end_watches();
    assert!(matches!(next(), Event::Disconnected { .. }));
    agent.send_state(state(GroupPhase::Ready, "", 3, &[]));
    assert_eq!(next(), Event::Reconnected);
    assert_eq!(next(), Event::ReceiverJoined { receivers: 3 });
}

#[test]
fn repeated_short_waits_receive_the_event_of_a_slow_agent() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    agent.send_state(state(GroupPhase::Ready, "", 2, &[]));
    let member = Client::connect(agent.path()).unwrap().join(JoinOptions::source("slow", "s1", 17)).unwrap();
    let mut events = member.events();
    let deadline = std::time::Instant::now() + PATIENCE;
    let received = loop {
        match events.next_within(Duration::from_millis(10)).unwrap() {
            Some(event) => break event,
            None => assert!(std::time::Instant::now() < deadline, "its answer is lost again and again"),
        }
    };
    assert_eq!(received, Event::Ready { receivers: 2, write_length: 4096 });
}

#[test]
fn a_join_has_a_lease_that_is_held_unless_it_is_declined() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let client = Client::connect(agent.path()).unwrap();
    client.join(JoinOptions::receiver("g", "r1", 17)).unwrap();
    client.join(JoinOptions::receiver("g", "r2", 18).without_lease()).unwrap();
    client.join(JoinOptions::receiver("g", "r1", 17)).unwrap();
    let received = agent.requests.lock().unwrap();
    // Each join is another queue pair, or the same one after a reset.
    let instances: std::collections::BTreeSet<u64> = received.joins.iter().map(|j| j.instance).collect();
    assert!(instances.len() == 3 && !instances.contains(&0), "{instances:?}");
    assert_eq!(received.joins.iter().map(|j| j.lease).collect::<Vec<_>>(), [true, false, true]);
    let holds: Vec<_> = received.holds.iter().map(|h| (h.group.as_str(), h.host.as_str())).collect();
    assert_eq!(holds, [("g", "r1"), ("g", "r1")], "held when the join returns");
}
