// SPDX-License-Identifier: Apache-2.0
//! `canopy-pacer` at a host of the lab, its status and its actions.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use canopy_lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A running daemon and a `canopy-pacer watch`. Dropping it ends both.
#[derive(Debug)]
pub struct Pacer {
    daemon: Child,
    watch: Child,
    actions: Option<JoinHandle<Vec<Value>>>,
    socket: PathBuf,
    program: PathBuf,
}

impl Drop for Pacer {
    fn drop(&mut self) {
        for child in [&mut self.watch, &mut self.daemon] {
            _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            _ = child.wait();
        }
    }
}

impl Pacer {
    /// Starts the daemon at `eth0` of `host` and waits until it answers.
    ///
    /// # Errors
    /// It is not built, or exits; the error contains its log.
    pub fn start(lab: &Lab, host: &str, more: &[&str]) -> Result<Self> {
        let program = lab.binary("canopy-pacer")?;
        let socket = lab.dir().join(format!("pacer-{host}.sock"));
        let log = lab.dir().join("log").join(format!("pacer-{host}.log"));
        // `ip netns exec` mounts the host's own /sys, too.
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &lab.state().instance.namespace(host)]).arg(&program);
        c.args(["run", "--interface", "eth0", "--log-json", "--socket"]).arg(&socket).args(more);
        let file = std::fs::File::options().create(true).append(true).open(&log)?;
        let mut daemon = c.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file).spawn()?;
        let up = lab.wait("canopy-pacer to answer", |_| {
            if let Some(status) = daemon.try_wait()? {
                bail!("canopy-pacer: {status}: {}", std::fs::read_to_string(&log).unwrap_or_default());
            }
            Ok(Command::new(&program).arg("status").arg("--socket").arg(&socket).output()?.status.success())
        });
        if let Err(e) = up {
            _ = daemon.kill();
            _ = daemon.wait();
            return Err(e);
        }
        let mut watch = Command::new(&program);
        watch.args(["watch", "--json", "--socket"]).arg(&socket).stdout(Stdio::piped());
        let mut watch = watch.spawn().context("starting canopy-pacer watch")?;
        let lines = BufReader::new(watch.stdout.take().context("its standard output")?).lines();
        let read = move || lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
        Ok(Self { daemon, watch, actions: Some(std::thread::spawn(read)), socket, program })
    }

    /// Registers a queue pair before its first packet: from `qpn` to `dest_qpn` at `peer`.
    ///
    /// # Errors
    /// The daemon refuses.
    pub fn open(&self, qpn: u32, peer: &str, dest_qpn: u32) -> Result<()> {
        let mut c = Command::new(&self.program);
        c.arg("open").arg("--socket").arg(&self.socket).args(["--peer", peer]);
        let out = c.args(["--qpn", &qpn.to_string(), "--dest-qpn", &dest_qpn.to_string()]).output()?;
        ensure!(out.status.success(), "canopy-pacer open: {}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }

    /// The output of `status --json`.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn status(&self) -> Result<Value> {
        let out = Command::new(&self.program).args(["status", "--json", "--socket"]).arg(&self.socket).output()?;
        ensure!(out.status.success(), "canopy-pacer status: {}", String::from_utf8_lossy(&out.stderr));
        Ok(serde_json::from_slice(&out.stdout)?)
    }

    /// Ends the daemon; returns every action that `watch --json` printed.
    ///
    /// # Errors
    /// The thread that reads the watch panicked.
    pub fn stop(mut self) -> Result<Vec<Value>> {
        _ = kill(Pid::from_raw(self.watch.id() as i32), Signal::SIGTERM);
        _ = self.watch.wait();
        let Some(actions) = self.actions.take() else { bail!("stopped twice") };
        actions.join().map_err(|_| anyhow::anyhow!("the reader of canopy-pacer watch panicked"))
    }
}
