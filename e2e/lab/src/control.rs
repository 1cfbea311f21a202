// SPDX-License-Identifier: Apache-2.0
//! The programs under test: the controller in the root namespace and one agent in each node's.

use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::http;
use crate::lab::Lab;
use crate::netns;
use crate::process::Process;

const CONTROLLER: &str = "controller";
/// Port of the controller for agents over TLS.
const TLS_PORT: u16 = 8641;
/// Port of every agent's metrics.
const METRICS_PORT: u16 = 9464;
const POLL: Duration = Duration::from_millis(50);

impl Lab {
    /// Starts everything and waits until every node runs the topology.
    pub(crate) fn start_control_plane(&mut self) -> Result<()> {
        for dir in ["log", "agents"] {
            let path = self.state.dir.join(dir);
            fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        self.start_controller()?;
        let nodes: Vec<String> = self.state.file.spec.nodes.iter().map(|n| n.name.clone()).collect();
        for node in &nodes {
            self.start_agent(node)?;
        }
        self.apply_topology()?;
        self.start_host_agents()?;
        self.wait_synced()
    }

    /// Starts the controller and waits until it reports that it is ready.
    ///
    /// # Errors
    /// It runs already, exits, or is not ready in time.
    pub fn start_controller(&mut self) -> Result<()> {
        let port = self.rest_port()?;
        let dir = self.state.dir.display();
        let tls = self.tls_address().map_or_else(String::new, |address| format!(", \"{address}\""));
        let config = format!(
            "[store]\npath = \"{dir}/store\"\n\n[grpc]\nlisten = [\"unix:{dir}/controller.sock\"{tls}]\n\n[identity]\ndirectory = \"{dir}/identity\"\n\n[rest]\nlisten = [\"127.0.0.1:{port}\"]\n"
        );
        let path = self.write_config("controller.toml", &config)?;
        let mut command = Command::new(self.daemon(CONTROLLER, "canopy-controller")?);
        command.arg("--config").arg(path);
        self.start(CONTROLLER, command)?;
        self.wait("the controller to be ready", |_| {
            Ok(matches!(http::request(port, "GET", "/readyz", None), Ok((200, _))))
        })
    }

    /// Starts a node's agent; [`Lab::wait_synced`] waits until it has applied the topology.
    ///
    /// # Errors
    /// No such node, or it runs already.
    pub fn start_agent(&mut self, node: &str) -> Result<()> {
        ensure!(self.state.file.spec.nodes.iter().any(|n| n.name == node), "{node:?} is not a node of this lab");
        let dir = self.state.dir.display();
        let pins = self.state.instance.agent_pins().join(node);
        // An agent cannot bind a Unix socket with a longer path: below a long --dir the node has no host socket.
        let host_socket = Some(self.host_socket(node)).filter(|p| p.as_os_str().len() <= 100).unwrap_or_default();
        let controller = match self.tls_address() {
            Some(address) => format!("https://{address}"),
            None => format!("unix:{dir}/controller.sock"),
        };
        let config = format!(
            "node = \"{node}\"\ncontroller = \"{controller}\"\nstate_dir = \"{dir}/agents/{node}\"\npin_dir = \"{}\"\n\n[host_socket]\npath = \"{}\"\n",
            pins.display(),
            host_socket.display()
        ) + &self.metrics_of(node);
        let path = self.write_config(&format!("agent-{node}.toml"), &config)?;
        if self.tls_address().is_some()
            && !self.state.dir.join(format!("agents/{node}/identity/certificate.pem")).exists()
        {
            self.enroll(node).with_context(|| format!("enrolling {node}"))?;
        }
        let program = self.daemon(&format!("agent-{node}"), "canopy-agent")?;
        let mut command = netns::command(&self.state.instance.namespace(node), program);
        command.arg("--config").arg(path);
        self.start(&format!("agent-{node}"), command)
    }

    /// Where the controller serves agents over TLS: on the management link, if there is one; without, they use its Unix socket.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        Some((self.state.management?.of_controller(), TLS_PORT).into())
    }

    /// Gets a node's agent a certificate, as an operator does: with a token of the controller.
    ///
    /// # Errors
    /// The controller or the agent refuses.
    pub fn enroll(&self, node: &str) -> Result<()> {
        let mut command = netns::command(&self.state.instance.namespace(node), self.binary("canopy-agent")?);
        command.arg("--config").arg(self.state.dir.join(format!("agent-{node}.toml"))).arg("enroll");
        self.enroll_as(&format!("node/{node}"), command)
    }

    /// Gives `command` a token for `subject`.
    pub(crate) fn enroll_as(&self, subject: &str, mut command: Command) -> Result<()> {
        let body = json!({"subject": subject});
        let (status, made) = self.rest("POST", "/api/v1/enrollments", Some(&body))?;
        let token =
            made["token"].as_str().with_context(|| format!("the controller made no token ({status}): {made}"))?;
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting canopy-agent enroll")?;
        let mut input = child.stdin.take().context("canopy-agent enroll has no input")?;
        input.write_all(token.as_bytes())?;
        drop(input);
        let done = child.wait_with_output()?;
        ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Ok(())
    }

    /// The agent's metrics at the management link, if there is one.
    fn metrics_of(&self, node: &str) -> String {
        self.management_address(node)
            .map_or_else(String::new, |address| format!("\n[metrics]\nlisten = \"{address}:{METRICS_PORT}\"\n"))
    }

    /// Gives the controller, or the agent of a node, more environment variables when it is started next.
    pub fn set_environment(&mut self, of_agent: Option<&str>, variables: &[(&str, &str)]) {
        let name = of_agent.map_or_else(|| CONTROLLER.to_owned(), |node| format!("agent-{node}"));
        let owned = |(variable, value): &(&str, &str)| ((*variable).to_owned(), (*value).to_owned());
        self.environment.insert(name, variables.iter().map(owned).collect());
    }

    /// Takes the program of the controller, or of the agent of a node, from another directory when it is started next; `None`: from that of
    /// the lab again.
    pub fn set_directory(&mut self, of_agent: Option<&str>, directory: Option<&Path>) {
        let name = of_agent.map_or_else(|| CONTROLLER.to_owned(), |node| format!("agent-{node}"));
        match directory {
            Some(directory) => _ = self.elsewhere.insert(name, directory.to_owned()),
            None => _ = self.elsewhere.remove(&name),
        }
    }

    fn daemon(&self, name: &str, program: &str) -> Result<PathBuf> {
        self.binary_in(self.elsewhere.get(name).unwrap_or(&self.state.bin_dir), program)
    }

    /// Path of the Unix socket on which the agent of a node or of a host serves applications, if it has at most 100 bytes.
    pub fn host_socket(&self, device: &str) -> PathBuf {
        self.state.dir.join(format!("{device}.sock"))
    }

    /// Kills the controller with SIGKILL.
    ///
    /// # Errors
    /// It was not started.
    pub fn kill_controller(&mut self) -> Result<()> {
        self.kill(CONTROLLER)
    }

    /// Kills a node's agent with SIGKILL; what it pinned and attached stays, as after a crash.
    ///
    /// # Errors
    /// It was not started.
    pub fn kill_agent(&mut self, node: &str) -> Result<()> {
        self.kill(&format!("agent-{node}"))
    }

    /// Stops a node's agent with SIGTERM, as a service manager does; what it pinned and attached stays.
    ///
    /// # Errors
    /// It was not started, or does not end within 10 s.
    pub fn stop_agent(&mut self, node: &str) -> Result<()> {
        let name = format!("agent-{node}");
        self.state.processes.get(&name).with_context(|| format!("{name} was not started"))?.stop()?;
        self.kill(&name)
    }

    /// One request to the controller's REST API: status code and JSON body, `null` when it is empty, a string when it
    /// is not JSON.
    ///
    /// # Errors
    /// The controller does not answer.
    pub fn rest(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let body = body.map(Value::to_string);
        let (status, answer) = http::request(self.rest_port()?, method, path, body.as_deref().map(str::as_bytes))?;
        let text = || Value::String(String::from_utf8_lossy(&answer).into_owned());
        Ok((
            status,
            if answer.is_empty() { Value::Null } else { serde_json::from_slice(&answer).unwrap_or_else(|_| text()) },
        ))
    }

    /// Declares a group, or replaces its spec. Returns the resource as the controller has it.
    ///
    /// # Errors
    /// The controller refuses it: the error contains the controller's answer.
    pub fn create_group(&self, name: &str, spec: Value) -> Result<Value> {
        let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": name}, "spec": spec});
        self.put(&format!("/api/v1/groups/{name}"), &group)
    }

    /// Makes the controller's topology the lab's.
    ///
    /// # Errors
    /// The controller refuses it: the error contains the controller's answer.
    pub fn apply_topology(&self) -> Result<()> {
        let spec = serde_json::to_value(self.state.file.topology())?;
        self.put(
            "/api/v1/topology",
            &json!({"apiVersion": "canopy/v1", "kind": "Topology", "metadata": {"name": "default"}, "spec": spec}),
        )
        .map(drop)
    }

    /// Waits until every node runs exactly what the controller desires of it, and every agent that was started serves its hosts.
    ///
    /// # Errors
    /// Not in time, or a program exited; the error contains what the nodes report.
    pub fn wait_synced(&self) -> Result<()> {
        let synced = |lab: &Lab| {
            let (status, topology) = lab.rest("GET", "/api/v1/topology", None)?;
            let count = |field: &str| topology.pointer(&format!("/status/{field}")).and_then(Value::as_u64);
            Ok(status == 200 && count("nodes").is_some() && count("nodes") == count("syncedNodes"))
        };
        self.wait("every node to run the topology", synced).map_err(|e| {
            match self.rest("GET", "/api/v1/nodes?limit=500&summary=true", None) {
                Ok((_, nodes)) => e.context(describe_nodes(&nodes)),
                Err(_) => e,
            }
        })?;
        let is_served = |node: &str| {
            let socket = self.host_socket(node);
            socket.as_os_str().len() > 100 || UnixStream::connect(socket).is_ok()
        };
        self.wait("every agent to serve its hosts", |lab| {
            let started = lab.state.processes.keys().filter_map(|name| name.strip_prefix("agent-"));
            Ok(started.into_iter().all(is_served))
        })
    }

    /// Polls `done` until it returns true; `what` names the condition in the error when the lab's timeout expires
    /// first.
    ///
    /// # Errors
    /// The timeout expired, one of the lab's programs exited, or `done` failed.
    pub fn wait(&self, what: &str, mut done: impl FnMut(&Lab) -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + self.timeout;
        loop {
            for name in self.state.processes.keys() {
                self.running(name).with_context(|| format!("waiting for {what}"))?;
            }
            if done(self).with_context(|| format!("waiting for {what}"))? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!(
                    "waited {} s for {what}; logs are in {}",
                    self.timeout.as_secs(),
                    self.state.dir.join("log").display()
                );
            }
            std::thread::sleep(POLL);
        }
    }

    fn put(&self, path: &str, body: &Value) -> Result<Value> {
        let (status, answer) = self.rest("PUT", path, Some(body))?;
        ensure!((200..300).contains(&status), "the controller refuses PUT {path} ({status}): {answer}");
        Ok(answer)
    }

    /// Port on 127.0.0.1 at which the controller serves REST and metrics.
    ///
    /// # Errors
    /// The lab has no controller.
    pub fn rest_port(&self) -> Result<u16> {
        self.state.rest_port.context("this lab has no controller: it was brought up with --network-only")
    }

    pub(crate) fn write_config(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.state.dir.join(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    pub(crate) fn start(&mut self, name: &str, mut command: Command) -> Result<()> {
        if let Some(p) = self.state.processes.get(name) {
            ensure!(!p.is_alive(), "{name} runs already (process {})", p.pid);
            p.reap();
        }
        // The configuration files are complete: a CANOPY_ variable in the caller's environment would override them.
        for (variable, _) in std::env::vars_os().filter(|(v, _)| v.to_string_lossy().starts_with("CANOPY_")) {
            command.env_remove(variable);
        }
        command.envs(self.environment.get(name).into_iter().flatten().map(|(variable, value)| (variable, value)));
        let process = Process::spawn(&mut command, &self.state.dir.join("log").join(format!("{name}.log")))?;
        self.state.processes.insert(name.to_owned(), process);
        self.state.save()
    }

    pub(crate) fn kill(&mut self, name: &str) -> Result<()> {
        let process = self.state.processes.get(name).with_context(|| format!("{name} was not started"))?;
        process.kill()?;
        process.reap();
        self.state.processes.remove(name);
        self.state.save()
    }

    fn running(&self, name: &str) -> Result<()> {
        match self.state.processes.get(name) {
            Some(p) if !p.is_alive() => bail!("{name} ended; the end of {}:\n{}", p.log.display(), p.log_tail()),
            _ => Ok(()),
        }
    }
}

/// One line per node that has not applied its generation, from the API's list.
fn describe_nodes(nodes: &Value) -> String {
    let items = nodes.get("items").and_then(Value::as_array).into_iter().flatten();
    let line = |n: &Value| {
        let (desired, seen) = (n.pointer("/spec/generation")?, n.pointer("/status/observedGeneration")?);
        let errors = n.pointer("/status/errors")?;
        let done = desired == seen && errors.as_array().is_some_and(Vec::is_empty);
        (!done).then(|| format!("{}: generation {seen} of {desired}, errors {errors}", n["name"]))
    };
    let lines: Vec<String> = items.filter_map(line).collect();
    if lines.is_empty() { "no node reports a reason".into() } else { lines.join("\n") }
}
