// SPDX-License-Identifier: Apache-2.0
//! The controller's program, with its store and sockets in a directory, and its REST API.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};
use canopy_ctl::client::Client;
use canopy_ctl::failure::Failure;
use serde_json::Value;
use tokio::net::UnixDatagram;
use tokio::process::{Child, Command};
use tonic::codegen::http::Method;

use crate::fleet::Fleet;

/// For what takes longer with more groups.
pub(crate) const DEADLINE: Duration = Duration::from_secs(600);

/// How often its state is asked for.
const POLL: Duration = Duration::from_millis(100);
/// The same of a group.
const POLL_GROUP: Duration = Duration::from_millis(1);

/// A controller that is ready.
pub(crate) struct Controller {
    program: PathBuf,
    directory: PathBuf,
    child: Child,
    rest: Client,
}

impl Controller {
    /// Starts the program over the store in a directory, and waits until it is ready.
    pub(crate) async fn start(program: &Path, directory: &Path) -> Result<Self> {
        let notify = directory.join("notify");
        _ = std::fs::remove_file(&notify);
        let ready = UnixDatagram::bind(&notify)?;
        let unix = |name: &str| format!("unix:{}", directory.join(name).display());
        let mut command = Command::new(program);
        command.args(["--grpc-listen", &unix("grpc.sock"), "--rest-listen", &unix("rest.sock"), "--store-path"]);
        command.arg(directory.join("store")).env_clear().env("NOTIFY_SOCKET", &notify);
        let log = std::fs::File::options().create(true).append(true).open(directory.join("log"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true).spawn();
        let mut child = child.with_context(|| format!("starting {}", program.display()))?;
        let mut state = [0; 64];
        let octets = tokio::select! {
            octets = ready.recv(&mut state) => octets?,
            ended = child.wait() => bail!("the controller ends at its start, {}: see {}", ended?, directory.join("log").display()),
            () = tokio::time::sleep(DEADLINE) => bail!("the controller is not ready"),
        };
        ensure!(&state[..octets] == b"READY=1\n", "the controller does not report READY=1");
        let rest = Client::new(&unix("rest.sock"), None).map_err(why)?;
        Ok(Self { program: program.to_owned(), directory: directory.to_owned(), child, rest })
    }

    /// Cuts it off, and starts it again; returns how long until it is ready.
    pub(crate) async fn restart(mut self) -> Result<(Self, Duration)> {
        self.child.kill().await?;
        let begun = Instant::now();
        let again = Self::start(&self.program, &self.directory).await?;
        Ok((again, begun.elapsed()))
    }

    /// Where agents connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join("grpc.sock")
    }

    /// Time that its threads have run.
    pub(crate) fn worked(&self) -> Result<Duration> {
        let stat = std::fs::read_to_string(self.of_process("stat")?)?;
        let fields = stat.rsplit(") ").next().context("no fields")?.split(' ');
        let ticks: Vec<u64> = fields.skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        // A tick of /proc is 10 ms, but on Alpha.
        Ok(Duration::from_millis(10 * ticks.iter().sum::<u64>()))
    }

    /// Memory that it has in use, MB as `/proc` has it.
    pub(crate) fn memory(&self) -> Result<u64> {
        let status = std::fs::read_to_string(self.of_process("status")?)?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        Ok(resident.trim().trim_end_matches(" kB").parse::<u64>()? / 1_000)
    }

    fn of_process(&self, file: &str) -> Result<String> {
        Ok(format!("/proc/{}/{file}", self.child.id().context("the controller has ended")?))
    }

    /// The page at a path. As for each request of `canopyctl`, over a connection of its own.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        self.rest.get(path, path).await.map_err(why)
    }

    /// What a request that creates something is answered.
    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.rest.post(path, path, body).await.map_err(why)
    }

    /// Declares a resource.
    pub(crate) async fn put(&self, path: &str, body: &Value) -> Result<()> {
        self.rest.change(path, Method::PUT, path, Some(body)).await.map_err(why)
    }

    /// Waits until each agent has connected so many times, and every node has confirmed what it is to have.
    pub(crate) async fn synced(&self, fleet: &Fleet, connected: u64) -> Result<()> {
        let begun = Instant::now();
        while fleet.connected() < connected {
            ensure!(begun.elapsed() < DEADLINE, "an agent does not connect");
            tokio::time::sleep(POLL).await;
        }
        self.until("/api/v1/status", POLL, |status| {
            let [nodes, connected, synced] = ["nodes", "connectedNodes", "syncedNodes"].map(|field| &status[field]);
            nodes == connected && nodes == synced
        })
        .await
    }

    /// Waits until every node of a group's tree has confirmed its program.
    pub(crate) async fn programmed(&self, group: &str) -> Result<()> {
        let is_it = |condition: &Value| condition["type"] == "Programmed" && condition["status"] == "True";
        let path = format!("/api/v1/groups/{group}");
        self.until(&path, POLL_GROUP, |group| {
            group["status"]["conditions"].as_array().is_some_and(|all| all.iter().any(is_it))
        })
        .await
    }

    /// Asks for a page until it is as wanted.
    async fn until(&self, path: &str, poll: Duration, is_it: impl Fn(&Value) -> bool) -> Result<()> {
        let begun = Instant::now();
        loop {
            let page = self.get(path).await?;
            if is_it(&page) {
                return Ok(());
            }
            if begun.elapsed() > DEADLINE {
                bail!("{path} stays {page}");
            }
            tokio::time::sleep(poll).await;
        }
    }
}

fn why(failure: Failure) -> Error {
    Error::msg(failure.message)
}
