// SPDX-License-Identifier: Apache-2.0
//! kill -9 during commits: every acknowledged commit is stored, and every stored commit is complete.
//!
//! The test starts itself as a child that commits and prints each acknowledged revision, kills it, opens the
//! store and compares. It has its own `main` because the child must be this same program.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use canopy_store::{EmbeddedStore, EngineKind, Op, Store};
use canopy_testkit::cases::{Case, run};

const CHILD: &str = "--commit-until-killed";
const ROUNDS: u64 = 6;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, first, engine, dir] = args.as_slice()
        && first == CHILD
    {
        let kind = EngineKind::ALL.into_iter().find(|kind| kind.to_string() == *engine).unwrap();
        commit_until_killed(Path::new(dir), kind);
    }
    let cases = [
        Case {
            name: "acknowledged_commits_of_sled_survive_kill",
            run: || acknowledged_commits_survive_kill(EngineKind::Sled),
        },
        Case {
            name: "acknowledged_commits_of_redb_survive_kill",
            run: || acknowledged_commits_survive_kill(EngineKind::Redb),
        },
    ];
    run(&cases, || None)
}

/// Of all sizes, some in pages.
fn filler(at: u64) -> String {
    let octets = if at.is_multiple_of(3) { (1 << 20) + 70_000 } else { (at as usize * 997) % 20_000 };
    // From here on another one each time, and the same before.
    let changed = octets / 2;
    let mut text: String = (0..octets / 8).map(|n| format!("{:08x}", n * 0x9E37)).collect();
    text.insert_str(changed, &at.to_string());
    text
}

/// Both keys of a transaction carry the revision that it makes.
fn commit_until_killed(dir: &Path, kind: EngineKind) -> ! {
    let store = EmbeddedStore::open(dir, kind).unwrap();
    let mut at = store.revision().unwrap();
    loop {
        let next = (at + 1).to_string();
        let ops = [("left", next.clone()), ("filler", filler(at + 1)), ("right", next)];
        at = store.commit(at, &ops.map(|(k, v)| Op::Put { key: k.into(), value: v.into() })).unwrap();
        println!("{at}");
        std::io::stdout().flush().unwrap();
    }
}

fn acknowledged_commits_survive_kill(kind: EngineKind) {
    let dir = tempfile::tempdir().unwrap();
    let mut before = 0;
    for round in 1..=ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, &kind.to_string()])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut acknowledged = 0;
        for _ in 0..round * 7 {
            acknowledged = lines.next().expect("the child died by itself").unwrap().parse().unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines still in the pipe are acknowledgements too; the last may be truncated.
        for line in lines.map_while(Result::ok) {
            acknowledged = line.parse().unwrap_or(0).max(acknowledged);
        }
        assert!(acknowledged > before);
        let store = EmbeddedStore::open(dir.path(), kind).unwrap();
        assert!(store.recovery().is_none(), "a kill is not damage: {:?}", store.recovery());
        let at = store.revision().unwrap();
        assert!(at >= acknowledged, "round {round}: revision {acknowledged} was acknowledged, the store is at {at}");
        for key in ["left", "right"] {
            let value = store.scan(key).unwrap().entries.remove(0).1;
            assert_eq!(String::from_utf8(value).unwrap(), at.to_string(), "{key}: half a transaction");
        }
        let [(_, value)] = &store.scan("filler").unwrap().entries[..] else { panic!("not one filler") };
        assert!(value == filler(at).as_bytes(), "filler: half a transaction");
        before = at;
    }
}
