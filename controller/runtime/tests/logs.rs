// SPDX-License-Identifier: Apache-2.0
//! Log lines as a collector receives them: OTLP over a real socket, from the real program, and from a controller in this process whose
//! collector never answers.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use canopy_controller_runtime::SERVICE;
use canopy_daemon::log::LogConfig;
use canopy_testkit::collector::{Collector, Line, attribute};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Agent, Controller, DEADLINE, LAB};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SECRET: &str = "cnp_5up3r5ecret";

/// The real program, at its most talkative, with sockets in `dir`.
struct Program(Child);

impl Program {
    fn start(dir: &Path, endpoint: Option<&str>) -> Self {
        let unix = |name: &str| format!("unix:{}", dir.join(name).display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_canopy-controller"));
        command.args(["--store-path", dir.join("store").to_str().unwrap()]);
        command.args(["--grpc-listen", &unix("g.sock"), "--rest-listen", &unix("r.sock"), "--log-level", "trace"]);
        command.env_clear().stderr(Stdio::null());
        // What the libraries of OpenTelemetry would read.
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317");
        command.env("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "http://127.0.0.1:4317");
        command.envs(endpoint.map(|endpoint| ("CANOPY__LOG__ENDPOINT", endpoint)));
        Self(command.spawn().unwrap())
    }

    /// Threads that send lines.
    fn senders(&self) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let names = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("comm")));
        // One may have ended.
        names.filter_map(Result::ok).filter(|name| name.trim_end() == "log-export").count()
    }

    fn end(&mut self) {
        kill(Pid::from_raw(self.0.id().cast_signed()), Signal::SIGTERM).unwrap();
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// What the program answers, once it listens.
fn ask(dir: &Path, request: &str) -> String {
    let deadline = Instant::now() + DEADLINE;
    let mut socket = loop {
        match UnixStream::connect(dir.join("r.sock")) {
            Ok(socket) => break socket,
            Err(error) if Instant::now() < deadline => {
                assert!(matches!(error.raw_os_error(), Some(2 | 111)), "{error}");
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(error) => panic!("{error}"),
        }
    };
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Catches lines without the request that they are about, the last lines of a program, lines about sending lines, which never end, and a
/// secret of a caller.
#[test]
fn lines_reach_a_collector_with_the_request_that_they_are_about() {
    let collector = Collector::start(false);
    let dir = tempfile::tempdir().unwrap();
    let mut program = Program::start(dir.path(), Some(collector.endpoint()));
    let head = format!(
        "GET /api/v1/groups/none HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {SECRET}\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-00\r\n\r\n"
    );
    let answer = ask(dir.path(), &head);
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    program.end();
    let lines = collector.lines(DEADLINE, |line| line.message() == "controller is stopping");
    let version = Some(env!("CARGO_PKG_VERSION").to_owned());
    for line in &lines {
        assert_eq!(line.service, [Some("canopy-controller".to_owned()), version.clone(), None]);
    }
    let of = |message: &str| -> &Line {
        lines.iter().find(|line| line.message() == message).unwrap_or_else(|| panic!("{message}: {lines:#?}"))
    };
    let refused = of("request refused");
    let trace: String = refused.record.trace_id.iter().map(|octet| format!("{octet:02x}")).collect();
    assert_eq!(trace, TRACE);
    assert_eq!(attribute(&refused.record.attributes, "request_id").as_deref(), Some(TRACE));
    assert_eq!((refused.record.severity_text.as_str(), refused.record.severity_number), ("DEBUG", 5));
    let started = of("controller started");
    assert!(started.record.trace_id.is_empty() && started.record.observed_time_unix_nano > 0, "{started:?}");
    assert_eq!(started.target, "canopy_controller_runtime::run");
    // No agent is connected: HTTP/2 is what the lines are sent by.
    let about: Vec<_> = lines.iter().filter(|line| line.target.starts_with("h2")).collect();
    assert!(about.is_empty(), "{} lines about sending lines, such as {:?}", about.len(), about.first());
    assert!(!format!("{lines:?}").contains(SECRET));
}

/// One that is not there costs lines alone: the program starts, answers and ends.
#[test]
fn a_collector_that_is_away_holds_up_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut program = Program::start(dir.path(), Some(&format!("http://{gone}")));
    assert_lives(dir.path());
    assert_eq!(program.senders(), 1);
    program.end();
}

fn assert_lives(dir: &Path) {
    let answer = ask(dir, "GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Catches lines that are sent without a setting, for example because the environment has the variables of other programs.
#[test]
fn without_an_endpoint_nothing_is_sent() {
    let dir = tempfile::tempdir().unwrap();
    let program = Program::start(dir.path(), None);
    assert_lives(dir.path());
    assert_eq!(program.senders(), 0);
}

/// The value of the counter in a scrape.
fn left_out(dir: &Path) -> u64 {
    let mut socket = UnixStream::connect(dir.join("rest.sock")).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let value = answer.lines().find_map(|line| line.strip_prefix("canopy_controller_log_lines_left_out_total "));
    value.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
}

/// Catches a change that waits, on its way to the nodes, until the collector has answered, and lines that are lost without being counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_collector_that_takes_nothing_holds_up_no_push_and_costs_counted_lines() {
    let collector = Collector::start(true);
    // Of this process, which has no other controller.
    let log = LogConfig { endpoint: collector.endpoint().to_owned(), ..LogConfig::default() };
    log.start(&SERVICE).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let controller = Controller::start(dir.path()).await;
    controller.apply(LAB).await.unwrap();
    for node in ["n1", "n2"] {
        Agent::connect(&controller, node, None).await.unwrap().apply_all();
    }
    // It has a message, and does not answer.
    collector.lines(DEADLINE, |line| line.message() == "controller started");
    for round in 0..20 {
        let qpn = 100 + round;
        let join = format!(
            "---\n{{apiVersion: canopy/v1, kind: Member, metadata: {{group: g1}}, spec: {{host: r2, role: receiver, qpn: {qpn}}}}}"
        );
        let pushed = async {
            controller.apply(&join).await.unwrap();
            controller.ctl(&["wait", "group", "g1", "--for", "ready", "--timeout", "30s"]).await.unwrap();
            controller.ctl(&["delete", "member", "r2", "-g", "g1"]).await.unwrap();
        };
        tokio::time::timeout(DEADLINE, pushed).await.expect("a push waits for the collector");
    }
    let path = dir.path().to_owned();
    let counted = tokio::task::spawn_blocking(move || {
        let deadline = Instant::now() + DEADLINE;
        while left_out(&path) == 0 {
            assert!(Instant::now() < deadline, "lines are lost and not counted");
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    counted.await.unwrap();
    controller.stop().await;
}
