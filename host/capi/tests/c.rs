// SPDX-License-Identifier: Apache-2.0
//! A C program against the shared and the static library, and the header compared with the Rust structures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use canopy_control::pb::GroupPhase;
use canopy_host_c::types::{CanopyConnection, CanopyError, CanopyEvent, CanopyJoinOptions, CanopyReady};
use canopy_testkit::agent::{Agent, state};

/// The directory in which cargo puts libraries that tests link to.
fn libraries() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let dirs = exe.ancestors().skip(1).take(2);
    let found = dirs.into_iter().find(|dir| dir.join("libcanopy_host_c.so").is_file());
    found.unwrap_or_else(|| panic!("libcanopy_host_c.so is not in the directory of {}", exe.display())).to_path_buf()
}

fn compile(out: &Path, link: &[&str]) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread", "-I"]).arg(here.join("include"));
    cc.arg(here.join("tests/member.c")).arg("-o").arg(out).args(link);
    assert!(cc.status().unwrap().success(), "{cc:?}");
}

/// Runs the program to its end; returns the layout that it printed of its structures.
fn run(program: &Path) -> BTreeMap<String, usize> {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    let long = "x".repeat(5000);
    agent.send_state(state(GroupPhase::Ready, "", 2, &[("r9", &long)]));
    let mut child = Command::new(program).arg(agent.path()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut layout, mut rest) = (BTreeMap::new(), String::new());
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        match line.split_once(' ') {
            None if line == "watching" => agent.delete_group(),
            Some((name, size)) if name.starts_with("canopy_") => _ = layout.insert(name.into(), size.parse().unwrap()),
            _ => rest += &line,
        }
    }
    assert!(child.wait().unwrap().success(), "{rest}");
    let requests = agent.requests.lock().unwrap();
    let leaves: Vec<&str> = requests.leaves.iter().map(|l| l.host.as_str()).collect();
    assert_eq!(leaves, ["r1", "r2"], "freeing leaves nothing");
    let join = requests.joins.iter().find(|j| j.host == "r1" && j.group == "g").unwrap();
    assert_eq!(join.address, "2001:db8::5".parse::<std::net::Ipv6Addr>().unwrap().octets());
    let memory = join.memory.unwrap();
    assert_eq!((memory.va, memory.rkey, memory.length), (0x1000, 7, 4096));
    layout
}

#[test]
fn a_c_program_lives_a_member_s_whole_life() {
    let (dir, libraries) = (tempfile::tempdir().unwrap(), libraries());
    let path = libraries.to_str().unwrap();
    let shared = dir.path().join("shared");
    compile(&shared, &["-L", path, "-lcanopy_host_c", &format!("-Wl,-rpath,{path}")]);
    let layout = run(&shared);

    let size = |name: &str, is: usize| assert_eq!(layout.get(name), Some(&is), "{name}");
    size("canopy_error", size_of::<CanopyError>());
    size("canopy_join_options", size_of::<CanopyJoinOptions>());
    size("canopy_connection", size_of::<CanopyConnection>());
    size("canopy_ready", size_of::<CanopyReady>());
    size("canopy_event", size_of::<CanopyEvent>());
    size("canopy_error.message", offset_of!(CanopyError, message));
    size("canopy_join_options.address", offset_of!(CanopyJoinOptions, address));
    size("canopy_join_options.va", offset_of!(CanopyJoinOptions, va));
    size("canopy_join_options.length", offset_of!(CanopyJoinOptions, length));
    size("canopy_join_options.rkey", offset_of!(CanopyJoinOptions, rkey));
    size("canopy_join_options.timeout_ms", offset_of!(CanopyJoinOptions, timeout_ms));
    size("canopy_join_options.flags", offset_of!(CanopyJoinOptions, flags));
    size("canopy_connection.start_psn", offset_of!(CanopyConnection, start_psn));
    size("canopy_connection.write_rkey", offset_of!(CanopyConnection, write_rkey));
    size("canopy_connection.write_base_va", offset_of!(CanopyConnection, write_base_va));
    size("canopy_event.write_length", offset_of!(CanopyEvent, write_length));
    size("canopy_event.host", offset_of!(CanopyEvent, host));
    size("canopy_event.reason", offset_of!(CanopyEvent, reason));
}

#[test]
fn the_static_library_needs_only_what_the_pkg_config_file_lists() {
    let (dir, libraries) = (tempfile::tempdir().unwrap(), libraries());
    let library = libraries.join("libcanopy_host_c.a");
    let template = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("canopy-host.pc.in")).unwrap();
    let private = template.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
    let program = dir.path().join("static");
    let mut link = vec![library.to_str().unwrap()];
    link.extend(private.split(' '));
    compile(&program, &link);
    run(&program);
}

#[test]
fn the_python_module_works() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Agent::start(dir.path());
    agent.send_state(state(GroupPhase::Ready, "", 2, &[("r9", "it was silent")]));
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
    let mut c = Command::new("python3");
    c.args(["-B", "-m", "unittest", "-v", "tests.test_canopy_host"]).current_dir(python);
    c.env("CANOPY_HOST_LIBRARY", libraries().join("libcanopy_host_c.so")).env("CANOPY_TEST_SOCKET", agent.path());
    let mut child = c.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
        if line == "watching" {
            agent.delete_group();
        }
    }
    assert!(child.wait().unwrap().success());
    let leaves: Vec<String> = agent.requests.lock().unwrap().leaves.iter().map(|l| l.host.clone()).collect();
    assert_eq!(leaves, ["left-by-hand", "left-by-with", "r2"], "and no other host");
}
