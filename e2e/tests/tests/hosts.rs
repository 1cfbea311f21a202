// SPDX-License-Identifier: Apache-2.0
//! Applications join through their nodes' agents with `canopy-host`, and receive the group's events.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, up};
use canopy_e2e::{Paused, Running};
use canopy_host::{Client, Error, Event, Events, JoinOptions};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// The overflow UID of Linux, and a UID that no user has.
const OVERFLOW_UID: u32 = 65534;
const UNUSED_UID: u32 = 65533;
/// Environment variable with the task of `as_another_user`: "SOCKET join|leave HOST".
const TASK: &str = "CANOPY_TEST_HOST_TASK";

fn client(bed: &Bed, node: &str) -> Client {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Client::connect(bed.lab.host_socket(node)) {
            Ok(client) => return client,
            // The agent creates its socket a moment after its process starts.
            Err(Error::Socket { .. }) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(20)),
            Err(error) => panic!("{error}"),
        }
    }
}

/// The first event for which `wanted` is true; those before it are printed.
fn until(events: &mut Events, what: &str, wanted: impl Fn(&Event) -> bool) -> Event {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(event) = events.next_within(left).unwrap() else { panic!("{what} was not reported") };
        println!("{event:?}");
        if wanted(&event) {
            return event;
        }
    }
}

fn field(error: Error) -> (String, String) {
    match error {
        Error::Invalid { field, reason } => (field, reason),
        other => panic!("{other}"),
    }
}

#[test]
fn members_receive_events_about_each_other_and_about_restarts() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024, "startPsn": 77})).unwrap();
    let (at_s1, at_r1, at_r3) = (client(&bed, "n6"), client(&bed, "n1"), client(&bed, "n2"));
    let receiver =
        |host: &str, qpn| JoinOptions::receiver("g", host, qpn).with_memory(0x1000 * u64::from(qpn), 7, 4096);

    // Invalid requests are refused with the name of the wrong field.
    let (at, reason) = field(at_s1.join(receiver("r1", 17)).unwrap_err());
    assert!(at == "host" && reason.contains("s1") && reason.contains("n6"), "{at}: {reason}");
    let outside = JoinOptions { address: Some("2001:db8:0:2::1".parse().unwrap()), ..receiver("r1", 17) };
    assert_eq!(field(at_r1.join(outside).unwrap_err()).0, "address");
    let elsewhere = JoinOptions::receiver("nowhere", "r1", 17);
    assert!(matches!(at_r1.join(elsewhere).unwrap_err(), Error::NoSuchGroup(_)));

    let r1 = at_r1.join(receiver("r1", 17)).unwrap();
    let early = r1.wait_ready(1, Duration::from_millis(200)).unwrap_err();
    assert!(matches!(&early, Error::Timeout { reason, .. } if reason.contains("source")), "{early}");
    // Nothing was sent to its queue pair yet: joining again changes nothing.
    assert_eq!(at_r1.join(receiver("r1", 17)).unwrap().connection(), r1.connection(), "the same again is a success");
    let r3 = at_r3.join(receiver("r3", 18)).unwrap();
    let s1 = at_s1.join(JoinOptions::source("g", "s1", 19)).unwrap();
    let ready = s1.wait_ready(2, PATIENCE).unwrap();
    assert_eq!((ready.receivers, ready.write_length), (2, 4096));
    assert_eq!((s1.connection().start_psn.get(), s1.connection().path_mtu), (77, 1024));
    assert_eq!(s1.connection().designated_qpn, r1.connection().designated_qpn);
    assert!(matches!(at_r1.join(receiver("r1", 99)).unwrap_err(), Error::AlreadyJoined(_)));

    let mut events = s1.events();
    assert_eq!(until(&mut events, "how it stands", |_| true), Event::Ready { receivers: 2, write_length: 4096 });
    r3.leave().unwrap();
    until(&mut events, "a leave", |e| *e == Event::ReceiverLeft { receivers: 1 });
    r3.leave().unwrap();

    // A receiver that joins late and does not connect its queue pair would miss what is sent now: it does not count.
    let silent = at_r1.join(receiver("r2", 20)).unwrap();
    let waited = s1.wait_ready(2, Duration::from_millis(300)).unwrap_err();
    assert!(matches!(&waited, Error::Timeout { reason, .. } if reason.contains("1 of 2 receivers")), "{waited}");
    silent.leave().unwrap();

    // No event is lost when the agent of the source dies.
    bed.lab.kill_agent("n6").unwrap();
    until(&mut events, "the agent's end", |e| matches!(e, Event::Disconnected { .. }));
    let _late = rc(&bed, "n2", "r3", &["receive"]);
    bed.lab.start_agent("n6").unwrap();
    until(&mut events, "the agent's return", |e| *e == Event::Reconnected);
    until(&mut events, "the receiver that joined meanwhile", |e| *e == Event::ReceiverJoined { receivers: 2 });
    assert_eq!(s1.wait_ready(2, PATIENCE).unwrap().receivers, 2);

    // Without a controller the client reports that, and calls complete once there is one.
    bed.lab.kill_controller().unwrap();
    let event = until(&mut events, "the controller's end", |e| matches!(e, Event::Disconnected { .. }));
    assert!(format!("{event:?}").contains("controller"), "{event:?}");
    let hasty = JoinOptions { timeout: Duration::from_millis(300), ..JoinOptions::source("g", "s1", 19) };
    let refused = at_s1.join(hasty).unwrap_err();
    assert!(matches!(&refused, Error::Unavailable(text) if text.contains("controller.sock")), "{refused}");
    let leaving = std::thread::spawn(move || at_r3.leave("g", "r3"));
    bed.lab.start_controller().unwrap();
    leaving.join().unwrap().unwrap();
    until(&mut events, "the controller's return", |e| *e == Event::Reconnected);

    r1.leave().unwrap();
    s1.leave().unwrap();
    assert_eq!(bed.group("g").unwrap()["receivers"], 0);
    let (status, outcome) = bed.lab.rest("DELETE", "/api/v1/groups/g", None).unwrap();
    assert!(status < 300, "{status} {outcome}");
    until(&mut events, "the group's end", |e| *e == Event::Deleted);
}

const BYTES: u64 = 48 << 20;

/// Runs `canopy-rc` as an application of `host` that joins through its node's agent.
fn rc(bed: &Bed, node: &str, host: &str, args: &[&str]) -> Running {
    let mut c = bed.lab.command(host, bed.lab.binary("canopy-rc").unwrap()).unwrap();
    let socket = format!("unix:{}", bed.lab.host_socket(node).display());
    c.args([args[0], "--controller", &socket, "--group", "g", "--host", host, "--bytes", &BYTES.to_string()]);
    let log = fs::File::create(bed.lab.dir().join(format!("log/app-{host}.log"))).unwrap();
    Running(c.args(&args[1..]).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap())
}

/// The options with which r2 joins.
fn r2() -> JoinOptions {
    JoinOptions { address: Some("2001:db8:0:2::1".parse().unwrap()), ..JoinOptions::receiver("g", "r2", 0x99) }
}

/// A transfer from s1 to r1 and r2, during which r2 stops answering; returns r2's events, s1, and the receivers.
fn with_a_dead_receiver(bed: &Bed, policy: &str) -> (Client, Events, Running, [Running; 2]) {
    bed.lab.create_group("g", json!({"pathMtu": 1024, "stallPolicy": policy, "stallAfterMs": 300})).unwrap();
    let at_r2 = client(bed, "n1");
    let member = at_r2.join(r2()).unwrap();
    let receive = ["receive", "--linger", "120s"];
    let r1 = rc(bed, "n1", "r1", &receive);
    let dying = rc(bed, "n1", "r2", &[&receive[..], &["--qpn", "153", "--stop-after", "6MiB"]].concat());
    let s1 = rc(bed, "n6", "s1", &["send", "--seed", "1", "--wait-receivers", "2", "--deadline", "120s"]);
    (at_r2, member.events(), s1, [r1, dying])
}

#[test]
fn an_evicted_receiver_is_named_to_everybody_and_the_others_finish() {
    let bed = up("figure1").unwrap();
    let (at_r2, mut events, mut s1, _receivers) = with_a_dead_receiver(&bed, "evict");
    let event = until(&mut events, "the eviction", |e| matches!(e, Event::Evicted { .. }));
    assert!(matches!(&event, Event::Evicted { host, reason } if host == "r2" && !reason.is_empty()), "{event:?}");
    bed.lab.wait("the source to finish", |_| Ok(s1.0.try_wait()?.is_some())).unwrap();
    assert!(s1.0.wait().unwrap().success());
    at_r2.leave("g", "r2").unwrap();
}

#[test]
fn a_failed_group_is_reported_with_its_reason() {
    let bed = up("figure1").unwrap();
    let (at_r2, mut events, _s1, _receivers) = with_a_dead_receiver(&bed, "fail");
    let event = until(&mut events, "the failure", |e| matches!(e, Event::Failed { .. }));
    assert!(matches!(&event, Event::Failed { reason } if reason.contains("r2")), "{event:?}");
    let refused = at_r2.join(r2()).unwrap_err();
    assert!(matches!(refused, Error::GroupFailed(_)), "{refused:?}");
}

#[test]
fn users_are_distinguished() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({})).unwrap();
    let socket = bed.lab.host_socket("n1");
    let root = client(&bed, "n1").join(JoinOptions::receiver("g", "r1", 17)).unwrap();
    let program = program_for_all();

    // The permissions of the socket's file exclude other users; without them, the agent does.
    assert!(another_user(&program, &bed, OVERFLOW_UID, "join r2").contains("host_socket.group"));
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
    for task in ["join r2", "leave r1"] {
        let outcome = another_user(&program, &bed, OVERFLOW_UID, task);
        assert!(
            outcome.starts_with("not permitted")
                && outcome.contains("uid 65534")
                && outcome.contains("host_socket.uids"),
            "{outcome}"
        );
    }

    // Two users that may call.
    bed.lab.kill_agent("n1").unwrap();
    let config = fs::read_to_string(bed.lab.dir().join("agent-n1.toml")).unwrap();
    let permissive = bed.lab.dir().join("agent-n1-permissive.toml");
    fs::write(&permissive, format!("{config}group = \"{OVERFLOW_UID}\"\nuids = [{OVERFLOW_UID}, {UNUSED_UID}]\n"))
        .unwrap();
    let start = || {
        let mut c: Command = bed.lab.command("n1", bed.lab.binary("canopy-agent").unwrap()).unwrap();
        let log = fs::File::create(bed.lab.dir().join("log/agent-n1-permissive.log")).unwrap();
        let started = c.arg("--config").arg(&permissive).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        bed.lab.wait("the agent's socket", |_| Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())).unwrap();
        Running(started)
    };
    let agent = start();
    assert_eq!(another_user(&program, &bed, OVERFLOW_UID, "join r2"), "done");
    for task in ["join r1", "leave r1"] {
        let outcome = another_user(&program, &bed, OVERFLOW_UID, task);
        assert!(outcome.starts_with("not permitted") && outcome.contains("made by another user"), "{outcome}");
    }

    // The agent keeps the owner of each membership over a restart.
    drop(agent);
    let _agent = start();
    for task in ["leave r2", "join r2"] {
        let outcome = another_user(&program, &bed, UNUSED_UID, task);
        assert!(outcome.starts_with("not permitted") && outcome.contains("made by another user"), "{task}: {outcome}");
    }
    assert_eq!(bed.group("g").unwrap()["receivers"], 2);
    assert_eq!(another_user(&program, &bed, OVERFLOW_UID, "leave r2"), "done");
    root.leave().unwrap();
    assert_eq!(bed.group("g").unwrap()["receivers"], 0);
}

/// A copy of this program that every user may run: the checkout may be in a directory that only root may enter.
fn program_for_all() -> TempDir {
    let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    fs::copy(std::env::current_exe().unwrap(), dir.path().join("hosts")).unwrap();
    dir
}

/// The result of `task` at the agent of n1 by another user: "done", or the error.
fn another_user(program: &TempDir, bed: &Bed, uid: u32, task: &str) -> String {
    let mut c = Command::new(program.path().join("hosts"));
    c.args(["--exact", "as_another_user", "--ignored", "--nocapture"]).uid(uid).gid(OVERFLOW_UID).current_dir("/");
    let out = c.env(TASK, format!("{} {task}", bed.lab.host_socket("n1").display())).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let outcome = text.lines().find_map(|line| line.split_once("outcome: "));
    outcome
        .map(|(_, outcome)| outcome.to_owned())
        .unwrap_or_else(|| panic!("{text} {}", String::from_utf8_lossy(&out.stderr)))
}

/// The other user's process; does nothing unless TASK is set.
#[test]
#[ignore = "started by users_are_distinguished"]
fn as_another_user() {
    let task = std::env::var(TASK).unwrap();
    let words: Vec<&str> = task.split(' ').collect();
    let outcome = Client::connect(words[0]).and_then(|client| match words[1] {
        "join" => client.join(JoinOptions::receiver("g", words[2], 17)).map(drop),
        _ => client.leave("g", words[2]),
    });
    match outcome {
        Ok(()) => println!("outcome: done"),
        Err(error) => println!("outcome: {error}"),
    }
}

/// A process that joins r2 and then waits to be killed.
fn member_process(bed: &Bed, task: &str) -> Running {
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.args(["--exact", "as_a_member", "--ignored", "--nocapture"]).stdout(Stdio::piped());
    let mut child = c.env(TASK, format!("{} {task}", bed.lab.host_socket("n1").display())).spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let joined = out.lines().map(Result::unwrap).any(|line| line.contains("joined"));
    assert!(joined, "the process has not joined");
    Running(child)
}

/// The member's process; does nothing unless TASK is set.
#[test]
#[ignore = "started by a_member_leaves_with_its_process"]
fn as_a_member() {
    let task = std::env::var(TASK).unwrap();
    let (socket, kind) = task.split_once(' ').unwrap();
    let leased = JoinOptions::receiver("g", "r2", 17);
    let options = if kind == "leased" { leased } else { leased.without_lease() };
    let client = Client::connect(socket).unwrap();
    let _member = client.join(options).unwrap();
    println!("joined");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_member_leaves_with_its_process_and_with_nothing_else() {
    let mut bed = up("figure1").unwrap();
    bed.lab.create_group("g", json!({})).unwrap();
    client(&bed, "n1");
    let receivers = |bed: &Bed| bed.group("g").unwrap()["receivers"].as_u64().unwrap();
    let left = |bed: &Bed, what: &str| {
        let from = Instant::now();
        bed.lab.wait(&format!("r2 to leave: {what}"), |_| Ok(receivers(bed) == 0)).unwrap();
        println!("{what}: left after {:?}", from.elapsed());
    };
    let stays = |bed: &Bed, seconds: u64, what: &str| {
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            assert_eq!(receivers(bed), 1, "{what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let signal = |process: &Running, signal| kill(Pid::from_raw(process.0.id() as i32), signal).unwrap();

    let killed = member_process(&bed, "leased");
    stays(&bed, 1, "it runs");
    drop(killed);
    left(&bed, "killed");

    // A debugger, and then the end.
    let stopped = member_process(&bed, "leased");
    signal(&stopped, Signal::SIGSTOP);
    stays(&bed, 3, "it is stopped");
    drop(stopped);
    left(&bed, "killed while it was stopped");

    // Restarts of the agent: with a process that takes its lease up again, and with one that died meanwhile.
    let lasting = member_process(&bed, "leased");
    bed.lab.kill_agent("n1").unwrap();
    bed.lab.start_agent("n1").unwrap();
    stays(&bed, 12, "the agent was restarted");
    bed.lab.kill_agent("n1").unwrap();
    drop(lasting);
    bed.lab.start_agent("n1").unwrap();
    left(&bed, "killed while there was no agent");

    // An agent that hangs for longer than the library waits before it connects again.
    client(&bed, "n1");
    let waiting = member_process(&bed, "leased");
    let hanging = Paused::new(&bed, &["n1"]).unwrap();
    stays(&bed, 25, "the agent hangs");
    drop(hanging);
    stays(&bed, 5, "the agent hung");
    drop(waiting);
    left(&bed, "killed after the agent hung");

    // Without a controller no member can leave.
    client(&bed, "n1");
    let orphan = member_process(&bed, "leased");
    bed.lab.kill_controller().unwrap();
    drop(orphan);
    bed.lab.start_controller().unwrap();
    left(&bed, "killed while there was no controller");

    // A successor with the same content takes over.
    let first = member_process(&bed, "leased");
    let second = member_process(&bed, "leased");
    drop(first);
    stays(&bed, 3, "its successor runs");
    drop(second);
    left(&bed, "the successor killed, too");

    drop(member_process(&bed, "durable"));
    stays(&bed, 3, "it has no lease");
    client(&bed, "n1").leave("g", "r2").unwrap();
    assert_eq!(receivers(&bed), 0);
}
