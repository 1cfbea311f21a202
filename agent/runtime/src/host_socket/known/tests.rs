// SPDX-License-Identifier: Apache-2.0

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const START: Monotonic = Monotonic::from_nanos(1_000_000_000_000);

fn pod(uid: &str) -> Pod {
    Pod::new("training/trainer", uid).unwrap()
}

/// Catches a token that counts for ever, one that is asked for at each call, and one that does not outlast an outage.
#[test]
fn a_token_counts_for_10_s_and_without_an_answer_for_an_hour() {
    let (mut known, token) = (Known::default(), Digest::of("a.b.c"));
    assert_eq!((known.fresh(token, START), known.unanswered(token, START)), (None, None));
    assert!(known.confirm(token, pod("1"), START), "a new token is written");
    assert_eq!(known.fresh(token, START + (FRESH - SECOND)), Some(pod("1")));
    assert_eq!(known.fresh(Digest::of("a.b.d"), START), None);
    let later = START + FRESH;
    assert_eq!(known.fresh(token, later), None);
    assert_eq!(known.unanswered(token, later), Some(pod("1")));
    assert_eq!(known.fresh(token, later + SECOND), Some(pod("1")), "the controller is not asked at each call");
    assert_eq!(known.unanswered(token, START + (LASTS - SECOND)), Some(pod("1")));
    assert_eq!(known.unanswered(token, START + LASTS), None, "an outage does not make it valid for longer");
    // Each answer counts for an hour again, and is written now and then.
    assert!(!known.confirm(token, pod("1"), START + SECOND) && known.confirm(token, pod("1"), START + WRITTEN));
    assert!(known.unanswered(token, START + LASTS + SECOND).is_some());
    assert!(known.refuse(token) && !known.has(token));
    assert_eq!(known.unanswered(token, START + SECOND), None);
}

/// Catches a restart that forgets what was confirmed, one that makes it count for longer, and instants of another start of the machine.
#[test]
fn what_was_confirmed_counts_after_a_restart_of_the_agent_and_not_of_the_machine() {
    let (mut known, token) = (Known::default(), Digest::of("a.b.c"));
    known.confirm(token, pod("1"), START);
    let lines = known.lines("boot-1");
    assert!(!lines.contains("a.b.c") && lines.contains("training/trainer 1"), "{lines}");
    let restored = |boot: &str, now: Monotonic| {
        let mut known = Known::default();
        known.restore(lines.lines().map(|line| Line::read(line).unwrap()).collect(), boot, now);
        known
    };
    let mut after = restored("boot-1", START + SECOND);
    assert_eq!(after.fresh(token, START + SECOND), None, "the controller is asked again");
    assert_eq!(after.unanswered(token, START + SECOND), Some(pod("1")));
    assert_eq!(after.unanswered(token, START + LASTS), None);
    assert!(!restored("boot-2", START + SECOND).has(token) && !restored("boot-1", START + LASTS).has(token));
    let earlier = Monotonic::from_nanos(START.nanos() - 1);
    assert!(!restored("boot-1", earlier).has(token), "an instant that has not come");
    for bad in
        ["", "boot-1", "boot-1 00 5 a/b 1", &lines.trim().replace("training/", ""), &lines.trim().replace(' ', "  ")]
    {
        assert!(Line::read(bad).is_none(), "{bad}");
    }
}

/// Catches a pod that makes tokens until those of all others are forgotten.
#[test]
fn the_tokens_of_one_pod_take_the_places_of_its_own() {
    let mut known = Known::default();
    let token = |n: usize| Digest::of(&n.to_string());
    known.confirm(token(0), pod("quiet"), START);
    for n in 1..=2 * MAX {
        known.confirm(token(n), pod("greedy"), START + SECOND * n as u32 / 1000);
    }
    assert_eq!(known.0.len(), 1 + MAX_OF_POD);
    assert!(known.has(token(0)) && known.has(token(2 * MAX)) && !known.has(token(1)));
    for n in 0..2 * MAX {
        known.confirm(Digest::of(&format!("of {n}")), pod(&n.to_string()), START + FRESH);
    }
    assert_eq!(known.0.len(), MAX);
}
