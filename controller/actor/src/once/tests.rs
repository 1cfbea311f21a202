// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use canopy_controller_core::metadata::Labels;
use canopy_model::group::GroupSpec;

use super::*;

const HOUR: u64 = 3_600 * 1_000_000_000;

/// Keys over the records that their notes have made.
struct Kept {
    most: usize,
    once: Once,
    records: BTreeMap<String, Vec<u8>>,
}

fn order(key: &str, mtu: u32) -> Order {
    let spec = GroupSpec { path_mtu: mtu, ..GroupSpec::default() };
    let (name, labels) = ("g".to_owned(), Labels::new());
    let command = Command::PutGroup { tenant: None, name, labels, spec, if_match: None, create_only: false };
    Order { key: Some(key.into()), ..Order::new(command, Principal::operator("alice", None)) }
}

fn at(nanos: u64) -> UnixTime {
    UnixTime::from_nanos(nanos)
}

impl Default for Kept {
    fn default() -> Self {
        Self::bounded(MAX_KEYS)
    }
}

impl Kept {
    fn bounded(most: usize) -> Self {
        Self { most, once: Once::bounded(most), records: BTreeMap::new() }
    }

    /// Carries out a write unless it was. Returns whether it was.
    fn send(&mut self, key: &str, now: u64) -> bool {
        self.send_of("default", key, now)
    }

    /// The same of a group of this tenant.
    fn send_of(&mut self, tenant: &str, key: &str, now: u64) -> bool {
        let attempt = Attempt::of(&order(key, 1024)).unwrap();
        if self.once.find(&attempt, at(now)).unwrap().is_some() {
            return true;
        }
        let target = Target { kind: IntentKind::Group, name: "g".into() };
        let note = self.once.note(attempt, (at(now), None), Outcome::Updated, (target, Some(tenant)), None);
        let mut keys: Vec<_> = note.ops.iter().map(|op| op.key().to_owned()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), note.ops.len(), "one transaction writes a record once");
        for op in note.ops.clone() {
            match op {
                Op::Put { key, value } => drop(self.records.insert(key, value)),
                Op::Delete { key } => {
                    assert!(self.records.remove(&key).is_some(), "{key} is removed and was not there")
                }
            }
        }
        self.once.keep(note);
        assert_eq!(self.once.len(), self.records.len(), "what is in memory is what is stored");
        false
    }

    fn restart(&mut self) {
        let records = self.records.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        let read = Once::bounded(self.most).restored(records);
        let pasts =
            |once: &Once| once.known.iter().map(|(id, known)| (*id, known.past.clone())).collect::<BTreeMap<_, _>>();
        assert_eq!(pasts(&read), pasts(&self.once));
        self.once = read;
    }
}

#[test]
fn a_key_counts_for_a_day_and_over_restarts() {
    let mut kept = Kept::default();
    assert!(!kept.send("a", HOUR));
    kept.restart();
    assert!(kept.send("a", 2 * HOUR) && kept.send("a", 25 * HOUR - 1));
    // Its day has passed: it is another write, and counts for a day from then on.
    assert!(!kept.send("a", 25 * HOUR));
    assert!(!kept.send("b", 26 * HOUR), "what was replaced leaves without its successor");
    kept.restart();
    assert!(kept.send("a", 48 * HOUR) && kept.send("b", 48 * HOUR));
    // The wall clock was set back: nothing is forgotten before its time.
    assert!(kept.send("a", 1));
}

#[test]
fn what_is_too_old_leaves_with_later_writes() {
    let mut kept = Kept::default();
    (0..10).for_each(|i| _ = kept.send(&format!("old{i}"), HOUR));
    for i in 0..10 {
        kept.send(&format!("new{i}"), 26 * HOUR);
        assert_eq!(kept.once.len(), 10, "one leaves for each that comes");
    }
    assert!((0..10).all(|i| kept.send(&format!("new{i}"), 26 * HOUR)));
}

#[test]
fn beyond_the_bound_the_oldest_leave_first() {
    let mut kept = Kept::default();
    (0..MAX_KEYS as u64 + 3).for_each(|i| _ = kept.send(&i.to_string(), HOUR + i));
    assert_eq!(kept.once.len(), MAX_KEYS);
    kept.restart();
    assert!(kept.send("3", 2 * HOUR) && !kept.send("2", 2 * HOUR));
    assert_eq!(kept.once.len(), MAX_KEYS);
}

/// Catches a tenant that writes without end and so makes the keys of others be forgotten; also after a restart.
#[test]
fn one_tenant_displaces_no_key_of_others() {
    let mut kept = Kept::bounded(10);
    let quiet = [("default", "d"), ("acme", "a1"), ("acme", "a2")];
    quiet.iter().for_each(|(tenant, key)| assert!(!kept.send_of(tenant, key, HOUR)));
    for restart in 0..2 {
        (0..30).for_each(|i| _ = kept.send_of("loud", &format!("{restart}.{i}"), HOUR + 1 + i));
        assert_eq!(kept.once.len(), 10);
        kept.restart();
        quiet.iter().for_each(|(tenant, key)| assert!(kept.send_of(tenant, key, HOUR + 100), "{tenant} {key}"));
        assert!(kept.send_of("loud", &format!("{restart}.29"), HOUR + 100));
    }
}

#[test]
fn another_write_with_the_same_key_is_refused_and_keys_of_others_do_not_concern_it() {
    let mut kept = Kept::default();
    kept.send("a", HOUR);
    let find = |order: &Order| match kept.once.find(&Attempt::of(order).unwrap(), at(HOUR)) {
        Ok(found) => found.is_some().to_string(),
        Err(e) => e.to_string(),
    };
    assert_eq!(find(&order("a", 1024)), "true");
    let refused = "this key was sent at 1970-01-01T01:00:00Z with another write: draw a new key for each write, and repeat one only with the same content";
    let others = [
        order("a", 2048),
        Order { precondition: Precondition::Exists, ..order("a", 1024) },
        Order { precondition: Precondition::Absent, ..order("a", 1024) },
        Order { precondition: Precondition::Tag("t".into()), ..order("a", 1024) },
        Order { plan: Some("p".into()), ..order("a", 1024) },
        Order { commit: Some("c".into()), ..order("a", 1024) },
        Order { command: Command::DeleteGroup { name: "g".into() }, ..order("a", 1024) },
    ];
    others.iter().for_each(|order| assert_eq!(find(order), refused, "{order:?}"));
    let created = Command::PutGroup {
        tenant: None,
        name: "g".into(),
        labels: Labels::new(),
        spec: GroupSpec { path_mtu: 1024, ..GroupSpec::default() },
        if_match: None,
        create_only: true,
    };
    assert_eq!(find(&Order { command: created, ..order("a", 1024) }), refused);
    let alice = Principal::operator("alice", None);
    for by in [Principal::operator("bob", None), Principal::operator("alice", Some(7)), alice.in_ui()] {
        assert_eq!(find(&Order { by: by.into(), ..order("a", 1024) }), "false");
    }
    assert!(Attempt::of(&Order { key: None, ..order("a", 1024) }).is_none());
    assert!(Attempt::of(&Order { dry_run: true, ..order("a", 1024) }).is_none(), "a dry run has done nothing");
}

#[test]
fn acts_on_commits_differ_by_all_that_they_want() {
    let (minute, by) = (Duration::from_secs(60), Principal::operator("alice", None));
    let acts = [
        Act::Begin(minute),
        Act::Begin(2 * minute),
        Act::Confirm("x".into()),
        Act::Cancel("x".into()),
        Act::Cancel("y".into()),
        Act::Extend("x".into(), minute),
        Act::Extend("x".into(), 2 * minute),
    ];
    let wants: Vec<Short> = acts.iter().map(|act| Attempt::of_act(act, &by, Some("k")).unwrap().wants).collect();
    let distinct: std::collections::BTreeSet<_> = wants.iter().collect();
    assert_eq!(distinct.len(), acts.len());
    assert!(Attempt::of_act(&acts[0], &by, None).is_none());
}

/// A record of this version, as a later one finds it.
#[test]
fn records_keep_their_form_and_one_that_cannot_be_read_is_left_alone() {
    let record = br#"{"at":1,"request":"000102030405060708090a0b0c0d0e0f","wants":"00112233445566778899aabbccddeeff","outcome":"created","kind":"Group","name":"g","uid":"01234567-89ab-8def-8123-456789abcdef"}"#;
    let key = "once/ffeeddccbbaa99887766554433221100";
    let once = Once::restore([(key, &record[..]), ("once/zz", b"{}"), ("once/", b""), ("group/g", b"{}")].into_iter());
    let past: Vec<_> = once.known.values().map(|known| &known.past).collect();
    assert_eq!(past.len(), 1);
    assert_eq!(serde_json::to_vec(past[0]).unwrap(), record);
}
