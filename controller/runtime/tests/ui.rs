// SPDX-License-Identifier: Apache-2.0
//! The web UI in Chromium, with the real controller and simulated agents. The scenarios are those of `web/e2e/scenarios.ts`: each is run by
//! Node, and writes `do: ...` to its output for what has to happen outside of the browser.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use canopy_control::pb::{
    CnpCounts, Congestion, DropCount, FlowCongestion, FlowOrigin, JoinRequest, PortCongestion, Role,
    StreamTelemetryRequest,
};
use canopy_controller_access::{GroupRoles, Live, TenantRoles};
use canopy_controller_runtime::oidc::OidcConfig;
use canopy_controller_runtime::{Listen, WebConfig};
use canopy_testkit::browser;
use canopy_testkit::cases::{Case, run};
use support::{Agent, Controller, LAB};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::{AbortHandle, JoinHandle};
use tokio_stream::StreamExt;

/// A scenario takes seconds; on a slow machine more.
const SCENARIO: Duration = Duration::from_secs(180);

const CASES: [Case; 29] = [
    Case { name: "a_lost_agent_is_read_on_overview", run: || scenario("lostAgent") },
    Case { name: "changes_arrive_without_a_reload", run: || scenario("changes") },
    Case { name: "hosts_are_listed_and_lead_to_their_groups", run: || scenario("hosts") },
    Case { name: "a_link_is_drained_and_put_back_by_keyboard", run: || scenario("drain") },
    Case { name: "a_group_and_a_drain_are_made_by_keys_alone", run: || scenario("keyboard") },
    Case { name: "groups_and_members_come_and_go_by_keyboard", run: || scenario("groupForms") },
    Case { name: "an_empty_domain_is_set_up_step_by_step", run: || scenario("firstSteps") },
    Case { name: "a_problem_is_acknowledged_and_unsilenced_by_keyboard", run: || scenario("acknowledge") },
    Case { name: "words_are_explained_by_mouse_and_by_keyboard", run: || scenario("glossary") },
    Case { name: "things_are_found_by_name_by_keyboard", run: || scenario("search") },
    Case { name: "a_packet_is_captured_and_read_field_by_field", run: || scenario("packet") },
    Case { name: "a_pending_commit_is_on_every_page_until_it_ends", run: || scenario("commit") },
    Case { name: "a_write_of_the_audit_is_shown_and_undone", run: || scenario("audit") },
    Case { name: "a_change_set_is_shown_and_taken_back", run: || scenario("changeSet") },
    Case { name: "joins_of_hosts_are_in_a_book_of_their_own", run: || scenario("joins") },
    Case { name: "a_restart_of_the_controller_is_seen_and_recovered_from", run: || scenario("restart") },
    Case { name: "a_browser_without_a_network_recovers_by_itself", run: || scenario("networkCut") },
    Case { name: "text_with_markup_stays_text", run: || scenario("markup") },
    Case { name: "charts_are_drawn_and_read_again", run: || scenario("charts") },
    Case { name: "a_congested_port_is_shown_with_its_sources", run: || scenario("congestion") },
    Case { name: "what_a_late_agent_reported_is_grey_with_its_age", run: || scenario("late") },
    Case { name: "the_map_is_used_by_keyboard_and_by_click", run: || scenario("fabric") },
    Case { name: "the_page_of_the_controller_doubts_what_is_old", run: || scenario("controller") },
    Case { name: "a_tab_signs_in_with_a_code_and_signs_out", run: || scenario("signIn") },
    Case { name: "canopyctl_serves_the_ui_of_a_socket", run: || scenario("proxied") },
    Case { name: "the_api_is_read_and_tried_out_at_docs", run: || scenario("docs") },
    Case { name: "an_identity_provider_signs_a_browser_in", run: || scenario("singleSignOn") },
    Case { name: "every_page_is_accessible", run: || scenario("accessible") },
    Case { name: "pictures_with_600_nodes", run: pictures },
];

fn main() -> ExitCode {
    run(&CASES, browser::missing)
}

/// What a scenario acts on.
struct World {
    dir: tempfile::TempDir,
    controller: Option<Controller>,
    agents: BTreeMap<String, [AbortHandle; 2]>,
    /// The queue of n1/eth1 is above K_max, and n1 drops packets.
    congested: Arc<AtomicBool>,
    provider: Option<Provider>,
}

/// An identity provider, which others have written: `web/e2e/provider.mjs`.
struct Provider {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    roles: Live<GroupRoles>,
}

/// Groups with these names have the role of an operator, and no others one.
fn operators(group: &str) -> GroupRoles {
    let domain = TenantRoles { operator_groups: vec![group.to_owned()], ..TenantRoles::default() };
    GroupRoles { domain, ..GroupRoles::default() }
}

impl World {
    /// Restarts the controller with an address for browsers on other machines, where an identity provider signs them in.
    async fn site(&mut self) -> String {
        self.disconnect_all();
        self.controller.take().unwrap().stop().await;
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let file = |name: &str, text: &str| {
            let path = self.dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            path
        };
        let (key, certificate) = (file("key.pem", &key.serialize_pem()), file("certificate.pem", &certificate.pem()));
        let client_secret_file = file("secret", "a secret of the test\n");
        let config = WebConfig {
            listen: vec![Listen::Tcp(([127, 0, 0, 1], 0).into())],
            certificate: certificate.clone(),
            key: key.clone(),
            origins: Vec::new(),
        };
        let mut web = config.open().await.unwrap().unwrap();
        let Listen::Tcp(address) = web.listeners[0].address().unwrap() else { panic!("not TCP") };
        let site = format!("https://localhost:{}", address.port());
        web.origins = vec![site.parse().unwrap()];
        let mut process = Command::new("node")
            .arg("e2e/provider.mjs")
            .args([&certificate, &key])
            .arg(format!("{site}/signed-in"))
            .current_dir(browser::web())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let issuer = lines.next_line().await.unwrap().expect("the provider has ended");
        let config = OidcConfig {
            issuer,
            client_id: "canopy".into(),
            client_secret_file,
            username_claim: "preferred_username".into(),
            ca_file: certificate,
            roles: operators("ops").domain,
            ..OidcConfig::default()
        };
        let single = Arc::new(config.open().unwrap().unwrap());
        self.provider = Some(Provider { process, lines, roles: single.roles.clone() });
        self.controller = Some(Controller::start_site(self.dir.path(), web, single).await);
        for node in ["n1", "n2"] {
            self.connect(node).await;
        }
        site
    }

    /// Without a topology.
    async fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let controller = Some(Controller::start_web(dir.path(), 0).await);
        Self { dir, controller, agents: BTreeMap::new(), congested: Arc::default(), provider: None }
    }

    async fn start() -> Self {
        let mut world = Self::empty().await;
        world.controller().apply(LAB).await.unwrap();
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
        self.connect_with(node, Agent::apply_all).await;
    }

    async fn connect_with<T: Send + 'static>(&mut self, node: &str, apply: impl FnOnce(Agent) -> JoinHandle<T>) {
        let agent = Agent::connect(self.controller(), node, None).await.unwrap();
        let mut client = self.controller().nodes().await;
        let (name, congested) = (node.to_owned(), self.congested.clone());
        let ticks = tokio_stream::wrappers::IntervalStream::new(tokio::time::interval(Duration::from_millis(500)));
        let mut number = 0;
        let samples = ticks.map(move |_| {
            number += 1;
            sample(&name, number, name == "n1" && congested.load(Ordering::Relaxed))
        });
        let apply = apply(agent).abort_handle();
        let send = tokio::spawn(async move { drop(client.stream_telemetry(samples).await) }).abort_handle();
        self.agents.insert(node.to_owned(), [apply, send]);
    }

    fn disconnect_all(&mut self) {
        let tasks = std::mem::take(&mut self.agents);
        tasks.into_values().flatten().for_each(|task| task.abort());
    }

    /// What the scenario is answered.
    async fn act(&mut self, what: &str) -> String {
        match what.split_once(' ').unwrap_or((what, "")) {
            ("disconnect", node) => self.agents.remove(node).unwrap().into_iter().for_each(|task| task.abort()),
            ("connect", node) => self.connect(node).await,
            ("capture", _) => {
                for node in ["n1", "n2"] {
                    self.agents.remove(node).unwrap().into_iter().for_each(|task| task.abort());
                    let client = self.controller().nodes().await;
                    self.connect_with(node, |agent| agent.capture_all(client)).await;
                }
            }
            ("join", of) => {
                let (host, qpn) = of.split_once(' ').unwrap();
                let request = JoinRequest {
                    group: "g1".into(),
                    host: host.into(),
                    role: Role::Receiver.into(),
                    qpn: qpn.parse().unwrap(),
                    ..JoinRequest::default()
                };
                self.controller().membership().await.join(request).await.unwrap();
            }
            ("congest", _) => self.congested.store(true, Ordering::Relaxed),
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
            ("site", _) => return self.site().await,
            ("groups", of) => {
                let Provider { process, lines, .. } = self.provider.as_mut().unwrap();
                process.stdin.as_mut().unwrap().write_all(format!("{of}\n").as_bytes()).await.unwrap();
                return lines.next_line().await.unwrap().unwrap();
            }
            ("roles", group) => self.provider.as_ref().unwrap().roles.set(operators(group)),
            ("provider", _) => self.provider.as_mut().unwrap().process.kill().await.unwrap(),
            ("proxy", _) => return proxied(self.dir.path().join("rest.sock")).await,
            ("sign", _) => return self.controller().ctl_web(&["ui", "--print"]).await.unwrap().trim_end().to_owned(),
            _ => panic!("a scenario wants {what:?}"),
        }
        "done".to_owned()
    }
}

/// The address that `canopyctl ui --print` prints for a socket; it serves there until this process ends.
async fn proxied(socket: PathBuf) -> String {
    let (printed, mut lines) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let line = ["canopyctl", "--server", &format!("unix:{}", socket.display()), "ui", "--print"].map(str::to_owned);
        let cli = <canopy_ctl::cli::Cli as clap::Parser>::try_parse_from(line).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(canopy_ctl::run(cli, &mut Printed(printed))).unwrap();
    });
    let mut text = String::new();
    while !text.contains('\n') {
        text.push_str(&lines.recv().await.expect("canopyctl has ended"));
    }
    text.lines().next().unwrap().to_owned()
}

struct Printed(tokio::sync::mpsc::UnboundedSender<String>);

impl std::io::Write for Printed {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        // What is printed behind the address is not waited for.
        _ = self.0.send(String::from_utf8_lossy(octets).into_owned());
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The `number`th sample of a node, two of them a second; congested, its first port sends 1 Gbit/s and has 200 kB in its queue.
fn sample(node: &str, number: u64, is_congested: bool) -> StreamTelemetryRequest {
    let counts = CnpCounts { notify: 4, rate_reduce: 8, suppressed: 3, ..Default::default() };
    let flow = |last, share_permille| FlowCongestion {
        src: [0x20, 1, 0xd, 0xb8, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec(),
        dst: [0x20, 1, 0xd, 0xb8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1].to_vec(),
        dst_qp: 17,
        src_qp: Some(18),
        origin: FlowOrigin::Learned.into(),
        rate_bps: u64::from(share_permille) * 1_000_000,
        share_permille,
        counts: Some(counts),
        ..Default::default()
    };
    let port = PortCongestion {
        port: 1,
        queue_bytes: 200_000,
        peak_queue_bytes: 250_000,
        level: 230,
        peak_level: 240,
        emr_permille: 900,
        packets: number * 15_000,
        bytes: number * 62_500_000,
        marked: number * 10_000,
        counts: Some(counts),
        flows: vec![flow(1, 780), flow(3, 220)],
        ..Default::default()
    };
    let drop = DropCount { reason: 1, name: "Parse".into(), packets: number * 5, ..Default::default() };
    StreamTelemetryRequest {
        node: node.to_owned(),
        time_unix_ns: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64,
        congestion: is_congested.then(|| Congestion { ports: vec![port] }),
        node_drops: if is_congested { vec![drop] } else { Vec::new() },
        ..Default::default()
    }
}

/// Spines and leaves of a fabric of 600 nodes; each leaf is linked with four spines.
const FABRIC: (usize, usize) = (40, 560);

fn fabric() -> String {
    let (spines, leaves) = FABRIC;
    let nodes = (0..spines + leaves).map(|at| {
        let name = if at < spines { format!("spine{}", at + 1) } else { format!("leaf{}", at - spines + 1) };
        format!("    - {{name: {name}, id: {}}}\n", at + 1)
    });
    let hosts = (1..=leaves).map(|leaf| {
        format!("    - {{name: host{leaf}, prefix: \"2001:db8:{leaf:x}::/64\", address: \"2001:db8:{leaf:x}::1\"}}\n")
    });
    let links = (1..=leaves).flat_map(|leaf| {
        let up = (0..4).map(move |up| {
            // Each shares three with the next one: a topology has to connect.
            let spine = (leaf + up) % spines + 1;
            format!("    - {{a: leaf{leaf}/eth{}, b: spine{spine}/eth{leaf}, rateBps: 400000000000}}\n", up + 2)
        });
        up.chain([format!("    - {{a: leaf{leaf}/eth1, b: host{leaf}/eth0, rateBps: 400000000000}}\n")])
    });
    let groups = (1..=100).map(|at| {
        let member = |host: usize, role: &str| {
            format!("---\napiVersion: canopy/v1\nkind: Member\nmetadata: {{group: job{at}}}\nspec: {{host: host{host}, role: {role}, qpn: {}}}\n", 17 + at)
        };
        let receivers: String = (1..=at % 12 + 1).map(|r| member((at * 13 + r * 7) % leaves + 1, "receiver")).collect();
        format!("---\napiVersion: canopy/v1\nkind: Group\nmetadata: {{name: job{at}}}\nspec: {{}}\n{}{receivers}", member(at, "source"))
    });
    format!(
        "apiVersion: canopy/v1\nkind: Topology\nmetadata: {{name: default}}\nspec:\n  nodes:\n{}  hosts:\n{}  links:\n{}{}",
        nodes.collect::<String>(),
        hosts.collect::<String>(),
        links.collect::<String>(),
        groups.collect::<String>()
    )
}

/// Pictures of a real controller with 600 nodes, in the directory CANOPY_PICTURES; without it nothing is done, since people have to see them.
fn pictures() {
    let Some(directory) = std::env::var_os("CANOPY_PICTURES") else {
        println!("no pictures without CANOPY_PICTURES: make web-pictures");
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::empty().await;
        world.controller().apply(&fabric()).await.unwrap();
        let (spines, leaves) = FABRIC;
        for node in (1..=spines).map(|n| format!("spine{n}")).chain((1..=leaves).map(|n| format!("leaf{n}"))) {
            world.connect(&node).await;
        }
        let address = world.act("sign in").await;
        let ones = r#"{"group": "/groups/job11", "link": "/links/leaf1/eth2", "node": "/nodes/leaf1", "host": "/hosts/host1"}"#;
        let status = Command::new("npm")
            .args(["run", "--silent", "pictures", "--"])
            .arg(directory)
            .env("PICTURES_OF", address)
            .env("PICTURES_SIZE", "600-nodes")
            .env("PICTURES_ONES", ones)
            .current_dir(browser::web())
            .status()
            .await
            .unwrap();
        assert!(status.success(), "{status}");
    });
}

fn scenario(name: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut world = World::start().await;
        let url = format!("http://{}", world.controller().web());
        let mut chromium = Command::new("npm")
            .args(["run", "--silent", "scenario", "--", name, &url])
            .current_dir(browser::web())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut answers = chromium.stdin.take().unwrap();
        let mut lines = BufReader::new(chromium.stdout.take().unwrap()).lines();
        let ended = tokio::time::timeout(SCENARIO, async {
            while let Some(line) = lines.next_line().await.unwrap() {
                let Some(what) = line.strip_prefix("do: ") else {
                    println!("{line}");
                    continue;
                };
                let answer = world.act(what).await;
                answers.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
            chromium.wait().await.unwrap()
        });
        let status = ended.await.expect("the scenario does not end");
        assert!(status.success(), "{status}");
    });
}
