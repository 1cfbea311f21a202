// SPDX-License-Identifier: Apache-2.0
//! The web UI in Chromium, with the real controller and simulated agents. The scenarios are those of `web/e2e/scenarios.ts`: each is run by
//! Node, and writes `do: ...` to its output for what has to happen outside of the browser.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_control::pb::StreamTelemetryRequest;
use canopy_testkit::cases::{Case, run};
use support::{Agent, Controller, LAB};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::task::AbortHandle;
use tokio_stream::StreamExt;

/// A scenario takes seconds; on a slow machine more.
const SCENARIO: Duration = Duration::from_secs(180);

const CASES: [Case; 9] = [
    Case { name: "a_lost_agent_is_read_on_overview", run: || scenario("lostAgent") },
    Case { name: "changes_arrive_without_a_reload", run: || scenario("changes") },
    Case { name: "hosts_are_listed_and_lead_to_their_groups", run: || scenario("hosts") },
    Case { name: "a_link_is_drained_and_put_back_by_keyboard", run: || scenario("drain") },
    Case { name: "a_pending_commit_is_on_every_page_until_it_ends", run: || scenario("commit") },
    Case { name: "a_write_of_the_audit_is_shown_and_undone", run: || scenario("audit") },
    Case { name: "a_restart_of_the_controller_is_seen_and_recovered_from", run: || scenario("restart") },
    Case { name: "text_with_markup_stays_text", run: || scenario("markup") },
    Case { name: "every_page_is_accessible", run: || scenario("accessible") },
];

fn main() -> ExitCode {
    run(&CASES, missing)
}

fn web() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../web")
}

fn missing() -> Option<String> {
    let installed = std::env::split_paths(&std::env::var_os("PATH")?).collect::<Vec<_>>();
    let is_there = |program: &str| installed.iter().any(|directory| directory.join(program).exists());
    if !is_there("node") || !web().join("node_modules/.bin/rolldown").exists() {
        return Some("without Node and the packages of web/: make web".into());
    }
    (!is_there("chromium")).then(|| "without chromium: make web".into())
}

/// What a scenario acts on.
struct World {
    dir: tempfile::TempDir,
    controller: Option<Controller>,
    agents: BTreeMap<String, [AbortHandle; 2]>,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let controller = Controller::start_web(dir.path(), 0).await;
        controller.apply(LAB).await.unwrap();
        let mut world = Self { dir, controller: Some(controller), agents: BTreeMap::new() };
        for node in ["n1", "n2"] {
            world.connect(node).await;
        }
        world
    }

    fn controller(&self) -> &Controller {
        self.controller.as_ref().unwrap()
    }

    /// An agent that applies everything and sends telemetry.
    async fn connect(&mut self, node: &str) {
        let agent = Agent::connect(self.controller(), node, None).await.unwrap();
        let mut client = self.controller().nodes().await;
        let name = node.to_owned();
        let samples = tokio_stream::wrappers::IntervalStream::new(tokio::time::interval(Duration::from_millis(500)));
        let samples = samples.map(move |_| StreamTelemetryRequest {
            node: name.clone(),
            time_unix_ns: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
            ..Default::default()
        });
        let apply = agent.apply_all().abort_handle();
        let send = tokio::spawn(async move { drop(client.stream_telemetry(samples).await) }).abort_handle();
        self.agents.insert(node.to_owned(), [apply, send]);
    }

    fn disconnect_all(&mut self) {
        let tasks = std::mem::take(&mut self.agents);
        tasks.into_values().flatten().for_each(|task| task.abort());
    }

    async fn act(&mut self, what: &str) {
        match what.split_once(' ').unwrap_or((what, "")) {
            ("disconnect", node) => self.agents.remove(node).unwrap().into_iter().for_each(|task| task.abort()),
            ("connect", node) => self.connect(node).await,
            ("stop", _) => {
                self.disconnect_all();
                self.controller.take().unwrap().stop().await;
            }
            ("start", port) => {
                self.controller = Some(Controller::start_web(self.dir.path(), port.parse().unwrap()).await);
                for node in ["n1", "n2"] {
                    self.connect(node).await;
                }
            }
            _ => panic!("a scenario wants {what:?}"),
        }
    }
}

fn scenario(name: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::start().await;
        let url = format!("http://{}", world.controller().web());
        let mut browser = Command::new("npm")
            .args(["run", "--silent", "scenario", "--", name, &url])
            .current_dir(web())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut answers = browser.stdin.take().unwrap();
        let mut lines = BufReader::new(browser.stdout.take().unwrap()).lines();
        let ended = tokio::time::timeout(SCENARIO, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let Some(what) = line.strip_prefix("do: ") else {
                    println!("{line}");
                    continue;
                };
                world.act(what).await;
                answers.write_all(b"done\n").await.unwrap();
            }
            browser.wait().await.unwrap()
        });
        let status = ended.await.expect("the scenario does not end");
        assert!(status.success(), "{status}");
    });
}
