// SPDX-License-Identifier: Apache-2.0
//! A change set of many resources, by `canopyctl apply -f` and the real program, which is killed in the middle of writing it and in the
//! middle of taking it back. Prints how long these take, and where the next start continues.
//!
//! `CANOPY_DEEP=1` sends the largest set there may be, 10,000 resources.
#![allow(clippy::unwrap_used)]

mod program;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use canopy_store::{EmbeddedStore, EngineKind, Store};
use clap::Parser;
use program::{Running, ended, exchange, start};
use serde_json::Value;

/// Of what takes longer with more resources.
const DEADLINE: Duration = Duration::from_secs(900);
/// Sets that are sent until one is killed in the middle: a kill may come when all is written, on a machine that is busy.
const ATTEMPTS: usize = 20;
const POLL: Duration = Duration::from_millis(2);

/// What `canopyctl` prints, or why it fails.
fn ctl(dir: &Path, arguments: &[&str]) -> Result<String, String> {
    let server = format!("unix:{}", dir.join("r.sock").display());
    let line = [&["canopyctl", "--server", server.as_str()], arguments].concat();
    let command = canopy_ctl::cli::Cli::try_parse_from(line).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut out = Vec::new();
    let done = runtime.block_on(canopy_ctl::run(command, &mut out));
    done.map(|()| String::from_utf8(out).unwrap()).map_err(|failure| failure.message)
}

fn get(dir: &Path, path: &str) -> Value {
    let answer = exchange(dir, &format!("GET {path}"), &[], "").expect("no whole answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

fn number(set: &Value, field: &str) -> usize {
    set[field].as_u64().unwrap().try_into().unwrap()
}

/// The change set that was begun last, as soon as it `is_it`.
fn set_that(dir: &Path, is_it: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let list = get(dir, "/api/v1/change-sets");
        if let Some(set) = list["items"].get(0).filter(|set| is_it(set)) {
            return set.clone();
        }
        assert!(Instant::now() < deadline, "the change set does not get there: {list}");
        std::thread::sleep(POLL);
    }
}

/// The same once there is nothing more to do.
fn finished(dir: &Path) -> Value {
    set_that(dir, |set| !matches!(set["phase"].as_str(), Some("Applying" | "Undoing")))
}

/// What is stored of it, while no controller runs.
fn stored(dir: &Path) -> Value {
    let store = EmbeddedStore::open(&dir.join("store"), EngineKind::default()).unwrap();
    let states = store.scan("change-set/").unwrap().entries;
    let (_, last) = states.iter().rfind(|(key, _)| key.ends_with("/state")).expect("no change set is stored");
    serde_json::from_slice(last).unwrap()
}

fn groups(dir: &Path) -> usize {
    ctl(dir, &["get", "groups", "-o", "name"]).unwrap().lines().filter(|line| line.starts_with("group/")).count()
}

/// The groups that the request of this set has created, each as often as the audit has it.
fn created(dir: &Path, set: &Value) -> Vec<String> {
    let request = set["requestId"].as_str().unwrap();
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        let page = get(dir, &format!("/api/v1/audit?kind=Group&request={request}&limit=100{next}"));
        for entry in page["items"].as_array().unwrap() {
            assert_eq!((&entry["action"], &entry["generation"]), (&"create".into(), &1.into()), "{entry}");
            names.push(entry["name"].as_str().unwrap().to_owned());
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) => next = format!("&continue={token}"),
            None => return names,
        }
    }
}

/// Kills the controller as a power cut ends it, as soon as its last set `is_due`, and returns what is stored of that then.
fn kill_when(dir: &Path, mut controller: Running, is_due: impl Fn(&Value) -> bool) -> Value {
    set_that(dir, is_due);
    controller.kill().unwrap();
    ended(&mut controller);
    stored(dir)
}

struct Test<'a> {
    dir: &'a Path,
    file: &'a str,
    groups: usize,
}

impl Test<'_> {
    fn apply(&self) -> Result<String, String> {
        ctl(self.dir, &["apply", "-f", self.file])
    }

    fn undo(&self) {
        let set = finished(self.dir);
        let undone = ctl(self.dir, &["change-set", "undo", set["id"].as_str().unwrap()]).unwrap();
        assert!(undone.contains(&format!("{} of {} put back", self.groups, self.groups)), "{undone}");
        assert_eq!(groups(self.dir), 0);
    }

    /// All is there, once.
    fn check_applied(&self, set: &Value) {
        assert_eq!(set["phase"], "Applied", "{set}");
        let counts = ["items", "done", "created", "updated"].map(|field| number(set, field));
        assert_eq!(counts, [self.groups, self.groups, self.groups, 0], "{set}");
        assert_eq!(groups(self.dir), self.groups);
        let names = created(self.dir, set);
        assert_eq!(names.len(), self.groups, "a group was created twice, or is not in the audit");
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), self.groups);
    }

    /// A set whose controller was killed in the middle of writing it, and what was stored of it then.
    fn applied_in_part(&self) -> Value {
        for _ in 0..ATTEMPTS {
            let controller = start(self.dir);
            let former = finished(self.dir)["id"].clone();
            let before = std::thread::scope(|scope| {
                // It fails, unless all is written first.
                scope.spawn(|| self.apply());
                kill_when(self.dir, controller, |set| set["id"] != former && number(set, "done") > self.groups / 3)
            });
            if before["stage"] == "applying" {
                return before;
            }
            let _controller = start(self.dir);
            self.undo();
        }
        panic!("no set was killed in the middle");
    }

    /// The same of one that is applied and taken back. A controller must not be running.
    fn undone_in_part(&self) -> Value {
        for _ in 0..ATTEMPTS {
            let controller = start(self.dir);
            if groups(self.dir) == 0 {
                self.apply().unwrap();
            }
            let id = finished(self.dir)["id"].as_str().unwrap().to_owned();
            ctl(self.dir, &["change-set", "undo", &id, "--no-wait"]).unwrap();
            let before = kill_when(self.dir, controller, |set| number(set, "putBack") > self.groups / 3);
            if before["stage"] == "undoing" {
                return before;
            }
        }
        panic!("no set was killed while it was taken back");
    }
}

/// Catches work that grows with the square of the resources, a bound of requests that refuses the largest set, and a set that a controller
/// forgets, writes in part, or writes twice, when it is killed in the middle of writing it or of taking it back.
#[test]
fn many_groups_are_applied_over_a_crash_and_taken_back_over_another() {
    let n = if std::env::var_os("CANOPY_DEEP").is_some() { 10_000 } else { 600 };
    let dir = tempfile::tempdir().unwrap();
    let text = (0..n).fold(String::new(), |mut text, i| {
        write!(text, "---\napiVersion: canopy/v1\nkind: Group\nmetadata: {{name: m{i:05}, labels: {{job: train-{}}}}}\nspec: {{pathMtu: 4096}}\n", i / 8).unwrap();
        text
    });
    let file = dir.path().join("groups.yaml");
    std::fs::write(&file, text).unwrap();
    let test = Test { dir: dir.path(), file: file.to_str().unwrap(), groups: n };
    let seconds = |begun: Instant| begun.elapsed().as_secs_f64();

    let mut controller = start(dir.path());
    let begun = Instant::now();
    let applied = test.apply().unwrap();
    let took = seconds(begun);
    assert_eq!(applied.lines().filter(|line| line.ends_with(" created")).count(), n);
    test.check_applied(&finished(dir.path()));
    let begun = Instant::now();
    test.undo();
    println!("{n} groups: applied in {took:.1} s, undone in {:.1} s", seconds(begun));
    controller.kill().unwrap();
    ended(&mut controller);
    drop(controller);

    let before = test.applied_in_part();
    let begun = Instant::now();
    let mut controller = start(dir.path());
    let started = seconds(begun);
    let after = finished(dir.path());
    println!(
        "killed: {} of {n} were stored; started again in {started:.1} s, which resumed there, and applied {:.1} s after the start began",
        before["done"],
        seconds(begun)
    );
    assert_eq!(after["id"], before["id"]);
    assert!(number(&before, "done") < n && before["done"] == before["created"], "{before}");
    test.check_applied(&after);
    controller.kill().unwrap();
    ended(&mut controller);
    drop(controller);

    let before = test.undone_in_part();
    let begun = Instant::now();
    let _controller = start(dir.path());
    let after = finished(dir.path());
    println!(
        "killed: {} of {n} were put back; the next start resumed there, and they were undone {:.1} s after it began",
        before["putBack"],
        seconds(begun)
    );
    assert_eq!(
        (&after["id"], &after["phase"], &after["refused"]),
        (&before["id"], &"Undone".into(), &Value::Array(vec![]))
    );
    assert_eq!(number(&after, "putBack"), n);
    assert_eq!(groups(dir.path()), 0);
}
