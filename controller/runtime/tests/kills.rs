// SPDX-License-Identifier: Apache-2.0
//! What operators wrote, after the controller was killed at any moment: history and audit have each write that was answered, once, and in
//! order. `CANOPY_DEEP=1` kills it 200 times.
#![allow(clippy::unwrap_used)]

mod program;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use program::{ended, exchange, start};
use serde_json::{Value, json};

const GROUP: &str = "/api/v1/groups/g";
/// Versions of a resource that are kept.
const VERSIONS: u64 = 50;

/// A write that was sent: what it wrote, and the id of its request if it was answered.
struct Sent {
    label: String,
    answered: Option<String>,
}

fn header<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

fn get(dir: &Path, path: &str) -> Value {
    let answer = exchange(dir, &format!("GET {path}"), &[], "").expect("no whole answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// All pages of a list.
fn items(dir: &Path, path: &str) -> Vec<Value> {
    let (mut all, mut next) = (Vec::new(), String::new());
    loop {
        let page = get(dir, &format!("{path}limit=100{next}"));
        all.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => return all,
        }
    }
}

/// Writes until the controller answers no more; each write has a label of its own.
fn write(dir: &Path, sent: &mut Vec<Sent>) {
    loop {
        let label = format!("n{}", sent.len());
        let body = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g", "labels": {"n": label}}, "spec": {}});
        let answer = exchange(dir, &format!("PUT {GROUP}"), &[], &body.to_string());
        let answered = answer.as_ref().map(|answer| {
            assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
            header(answer, "canopy-request-id").unwrap().to_owned()
        });
        let has_ended = answered.is_none();
        sent.push(Sent { label, answered });
        if has_ended {
            return;
        }
    }
}

/// Compares what the controller has with what was sent; returns the number of writes that it has.
fn check(dir: &Path, sent: &[Sent]) -> u64 {
    let mut audit = items(dir, "/api/v1/audit?kind=Group&name=g&");
    audit.sort_by_key(|entry| entry["sequence"].as_u64());
    let generations: Vec<_> = audit.iter().map(|entry| entry["generation"].as_u64().unwrap()).collect();
    let count = generations.len() as u64;
    assert_eq!(generations, (1..=count).collect::<Vec<_>>(), "each generation is one entry, in order");
    let audited: Vec<&str> = audit.iter().map(|entry| entry["requestId"].as_str().unwrap()).collect();
    let answered: Vec<&str> = sent.iter().filter_map(|sent| sent.answered.as_deref()).collect();
    let mut rest = audited.iter();
    for id in &answered {
        assert!(rest.any(|audited| audited == id), "the answered request {id} is not in the audit, or out of order");
    }
    let unanswered = sent.len() - answered.len();
    assert!(audited.len() <= answered.len() + unanswered, "{audited:?}");
    if count == 0 {
        let answer = exchange(dir, &format!("GET {GROUP}"), &[], "").expect("no whole answer");
        assert!(answer.starts_with("HTTP/1.1 404"), "what the audit does not have is there: {answer}");
        return 0;
    }
    // Labels rise, and those that were answered are all there.
    let versions: BTreeMap<u64, String> = get(dir, "/api/v1/versions?kind=Group&name=g")["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["generation"].as_u64().unwrap(), v["labels"]["n"].as_str().unwrap().to_owned()))
        .collect();
    let kept: Vec<u64> = versions.keys().copied().collect();
    let first = count.saturating_sub(VERSIONS).max(1);
    assert!(kept.ends_with(&(first..=count).collect::<Vec<_>>()), "{kept:?} of {count}");
    let by_request: BTreeMap<&str, &str> =
        sent.iter().filter_map(|sent| Some((sent.answered.as_deref()?, sent.label.as_str()))).collect();
    for (generation, label) in &versions {
        let id = audited[usize::try_from(generation - 1).unwrap()];
        match by_request.get(id) {
            Some(wrote) => assert_eq!(wrote, label, "generation {generation}"),
            None => assert!(sent.iter().any(|s| s.answered.is_none() && s.label == *label), "{label}"),
        }
    }
    assert_eq!(get(dir, GROUP)["metadata"]["labels"]["n"].as_str(), versions.get(&count).map(String::as_str));
    count
}

#[test]
fn history_and_audit_survive_kills() {
    let kills = if std::env::var_os("CANOPY_DEEP").is_some() { 200 } else { 5 };
    let dir = tempfile::tempdir().unwrap();
    let mut sent = Vec::new();
    for kill in 0..kills {
        let mut controller = start(dir.path());
        // 37 and 200 have no common divisor: every fifth of a second is cut at other moments.
        let after = Duration::from_millis(kill * 37 % 200);
        let kill = format!("sleep {}; kill -9 {}", after.as_secs_f64(), controller.id());
        let mut killer = Command::new("sh").args(["-c", &kill]).spawn().unwrap();
        write(dir.path(), &mut sent);
        assert!(killer.wait().unwrap().success());
        assert!(!ended(&mut controller).success());
        let mut controller = start(dir.path());
        check(dir.path(), &sent);
        controller.kill().unwrap();
        ended(&mut controller);
    }
    let mut controller = start(dir.path());
    let stored = check(dir.path(), &sent);
    let answered = sent.iter().filter(|sent| sent.answered.is_some()).count();
    println!("{kills} kills: {answered} writes were answered, {stored} are stored, {} were sent", sent.len());
    assert!(answered > 0, "nothing was written");
    controller.kill().unwrap();
    ended(&mut controller);
}
