// SPDX-License-Identifier: Apache-2.0
//! Background processes that outlive the process that started them, identified by pid and start time.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

/// A process that this lab started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Process identifier.
    pub pid: i32,
    /// Clock ticks since boot at which it started: distinguishes a reused pid.
    pub start_time: u64,
    /// File that its output is appended to.
    pub log: PathBuf,
}

impl Process {
    /// Starts `command` in its own process group (so that the terminal's Ctrl-C does not reach it), output appended
    /// to `log`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn spawn(command: &mut Command, log: &Path) -> Result<Self> {
        let shown = command.get_program().to_string_lossy().into_owned();
        let out = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("opening {}", log.display()))?;
        let err = out.try_clone()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {shown}"))?;
        let pid = i32::try_from(child.id())?;
        let start_time = stat(pid).with_context(|| format!("reading the start time of {shown}"))?.start_time;
        Ok(Self { pid, start_time, log: log.to_owned() })
    }

    /// True while any of its threads runs: the main thread may be a zombie while others still hold files and locks of
    /// the process.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|s| s.start_time == self.start_time && (s.state != 'Z' || s.threads > 1))
    }

    /// Signals it, unless it has ended.
    ///
    /// # Errors
    /// Not permitted.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        if self.is_alive() {
            match kill(Pid::from_raw(self.pid), signal) {
                Ok(()) | Err(nix::errno::Errno::ESRCH) => {}
                Err(e) => bail!("sending {signal} to process {}: {e}", self.pid),
            }
        }
        Ok(())
    }

    /// Stops it (SIGTERM) and waits until it is gone.
    ///
    /// # Errors
    /// Not permitted, or it does not end within 10 s.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::SIGTERM)?;
        if !wait_gone(std::slice::from_ref(self), Duration::from_secs(10)).is_empty() {
            bail!("process {} did not end within 10 s of SIGTERM", self.pid);
        }
        Ok(())
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    ///
    /// # Errors
    /// Not permitted, or it does not die within 10 s.
    pub(crate) fn kill(&self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        if !wait_gone(std::slice::from_ref(self), Duration::from_secs(10)).is_empty() {
            bail!("process {} survived SIGKILL for 10 s", self.pid);
        }
        Ok(())
    }

    /// Removes the zombie of one that [`Process::spawn`] started and that has ended.
    pub(crate) fn reap(&self) {
        // ECHILD if another canopy-lab process started it: then init reaps it.
        let _ = waitpid(Pid::from_raw(self.pid), Some(WaitPidFlag::WNOHANG));
    }

    /// The last lines of its log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
        let tail = || -> std::io::Result<String> {
            let mut file = fs::File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(2000)))?;
            let mut bytes = Vec::new();
            file.take(2000).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        tail().unwrap_or_else(|e| format!("(no log: {e})"))
    }
}

/// Ends all of them: SIGTERM, up to `grace` for an orderly end, then SIGKILL.
///
/// # Errors
/// Not permitted, or one survives SIGKILL.
pub(crate) fn stop_all(processes: &[Process], grace: Duration) -> Result<()> {
    for p in processes {
        p.signal(Signal::SIGTERM)?;
    }
    wait_gone(processes, grace).into_iter().try_for_each(Process::kill)
}

/// The process that has this pid now, if any; for processes that this lab did not start.
pub(crate) fn adopt(pid: i32) -> Option<Process> {
    stat(pid).map(|s| Process { pid, start_time: s.start_time, log: PathBuf::new() })
}

fn wait_gone(processes: &[Process], limit: Duration) -> Vec<&Process> {
    let deadline = Instant::now() + limit;
    loop {
        let left: Vec<&Process> = processes.iter().filter(|p| p.is_alive()).collect();
        if left.is_empty() || Instant::now() >= deadline {
            return left;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The directory of the running program; a test's is one below the others'.
pub(crate) fn beside_this_program() -> Result<PathBuf> {
    let exe = env::current_exe().context("finding this program's directory")?;
    let dir = exe.parent().context("finding this program's directory")?;
    Ok(if dir.file_name() == Some(OsStr::new("deps")) { dir.parent().unwrap_or(dir) } else { dir }.to_owned())
}

/// Fields 3, 20 and 22 of /proc/PID/stat, see proc(5).
struct Stat {
    state: char,
    threads: u32,
    start_time: u64,
}

/// The command name, field 2, is in parentheses and may itself contain any of them.
fn stat(pid: i32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        threads: fields.get(17)?.parse().ok()?,
        start_time: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_ends_and_a_reused_pid_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let p = Process::spawn(Command::new("sleep").arg("1000"), &dir.path().join("log")).unwrap();
        let reused = Process { start_time: p.start_time + 1, ..p.clone() };
        assert!(!reused.is_alive());
        reused.kill().unwrap();
        assert!(p.is_alive(), "killed a process whose start time differs");
        stop_all(std::slice::from_ref(&p), Duration::from_secs(10)).unwrap();
        assert!(!p.is_alive());
    }

    #[test]
    fn one_that_ignores_sigterm_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let p = Process::spawn(
            Command::new("sh").args(["-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"]),
            &log,
        )
        .unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while p.log_tail() != "ready" {
            assert!(Instant::now() < deadline && p.is_alive());
            std::thread::sleep(Duration::from_millis(5));
        }
        stop_all(std::slice::from_ref(&p), Duration::from_millis(50)).unwrap();
        assert!(!p.is_alive());
    }

    #[test]
    fn one_whose_first_thread_has_ended_is_alive_until_the_last_has() {
        let dir = tempfile::tempdir().unwrap();
        // The main thread leaves by itself; another holds what the process holds.
        let program = "import ctypes, threading, time\n\
            threading.Thread(target=time.sleep, args=(1000,)).start()\n\
            ctypes.CDLL(None).pthread_exit(None)";
        let p = Process::spawn(Command::new("python3").args(["-c", program]), &dir.path().join("log")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while stat(p.pid).is_none_or(|s| s.state != 'Z') {
            assert!(Instant::now() < deadline, "the first thread did not end: {}", p.log_tail());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(p.is_alive(), "a process with a running thread was called dead");
        p.kill().unwrap();
        assert!(!p.is_alive());
    }
}
