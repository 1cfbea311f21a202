// SPDX-License-Identifier: Apache-2.0
//! Power cuts: the block device as it is after an acknowledgement, mounted again.
//!
//! A child commits into a store on ext4 on a loop device, and waits after each acknowledgement while the device's image is copied: what
//! the file system has not written by then is lost. The copy is mounted, which replays its journal, and opened. It has its own `main`
//! because the child must be this same program.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use canopy_store::{Op, SledStore, Store};
use canopy_testkit::cases::{Case, run as run_cases};

const CHILD: &str = "--commit-on-request";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let Some(dir) = args.iter().position(|a| a == CHILD).and_then(|i| args.get(i + 1)) {
        commit_on_request(Path::new(dir));
        return ExitCode::SUCCESS;
    }
    let case = Case { name: "acknowledged_commits_survive_power_cuts", run: acknowledged_commits_survive_power_cuts };
    run_cases(&[case], || missing().map(str::to_owned))
}

fn acknowledged_commits_survive_power_cuts() {
    cut(if std::env::var_os("CANOPY_DEEP").is_some() { 200 } else { 13 });
}

/// What this machine lacks to mount an image.
fn missing() -> Option<&'static str> {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !has("mkfs.ext4") || !has("losetup") {
        return Some("mkfs.ext4 (e2fsprogs) or losetup (util-linux) is not installed");
    }
    let dir = tempfile::tempdir().unwrap();
    let (image, at) = (dir.path().join("image"), dir.path().join("at"));
    fs::File::create(&image).unwrap().set_len(4 << 20).unwrap();
    fs::create_dir(&at).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image));
    if !Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at).output().is_ok_and(|out| out.status.success()) {
        return Some("it needs root, and loop devices that can be mounted");
    }
    run(Command::new("umount").arg(&at));
    None
}

/// The transaction that makes revision `at`: of all sizes, some in files of their own.
fn ops(at: u64) -> Vec<Op> {
    let filler = match at % 12 {
        11 => 700_000,
        n => (n as usize * 7919) % 40_000,
    };
    let put = |key: String, value: Vec<u8>| Op::Put { key, value };
    vec![
        put("left".into(), at.to_string().into()),
        put(format!("filler/{}", at % 5), vec![at as u8; filler]),
        put("right".into(), at.to_string().into()),
    ]
}

/// One commit for each line on standard input.
fn commit_on_request(dir: &Path) {
    let store = SledStore::open(dir).unwrap();
    for _ in std::io::stdin().lines() {
        let at = store.revision().unwrap();
        println!("{}", store.commit(at, &ops(at + 1)).unwrap());
        std::io::stdout().flush().unwrap();
    }
}

/// A mounted image; it is unmounted when dropped.
struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&at));
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.0));
    }
}

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn cut(times: u64) {
    let dir = tempfile::tempdir().unwrap();
    let (image, copy) = (dir.path().join("image"), dir.path().join("copy"));
    fs::File::create(&image).unwrap().set_len(96 << 20).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image));
    let device = Mounted::new(&image, dir.path().join("device"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(CHILD)
        .arg(device.0.join("store"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut requests, mut acknowledged) =
        (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()).lines());
    for n in 0..times {
        // Cuts after one commit, and after some.
        let mut at = 0;
        for _ in 0..1 + n * n % 4 {
            requests.write_all(b"\n").unwrap();
            at = acknowledged.next().expect("the child ended").unwrap().parse().unwrap();
        }
        // Octet by octet: a copy that skips holes relies on what is not on the disk of the image's own file system yet.
        fs::write(&copy, fs::read(&image).unwrap()).unwrap();
        let cut = Mounted::new(&copy, dir.path().join("cut"));
        let store = SledStore::open(&cut.0.join("store")).unwrap();
        assert!(store.recovery().is_none(), "cut {n} after revision {at}: {:?}", store.recovery());
        assert_eq!(store.revision().unwrap(), at, "cut {n}");
        let entries = store.scan("").unwrap().entries;
        for op in ops(at) {
            let Op::Put { key, value } = op else { continue };
            assert!(entries.contains(&(key.clone(), value)), "cut {n} after revision {at}: {key}");
        }
        drop(store);
        drop(cut);
    }
    drop(requests);
    child.wait().unwrap();
}
