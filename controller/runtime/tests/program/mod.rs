// SPDX-License-Identifier: Apache-2.0
//! The controller's program, with its store and sockets in a directory.

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) fn command(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_canopy-controller"));
    let unix = |name: &str| format!("unix:{}", dir.join(name).display());
    command.args([
        "--store-path",
        dir.join("store").to_str().unwrap(),
        "--grpc-listen",
        &unix("g.sock"),
        "--rest-listen",
        &unix("r.sock"),
        "--log-format",
        "json",
    ]);
    command.env_clear();
    command
}

/// A controller that ends with its test: one that is left holds the output of a test that has failed open, and its runner waits for that.
pub(crate) struct Running(Child);

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A started controller that reported READY=1 by sd_notify.
pub(crate) fn start(dir: &Path) -> Running {
    ready(dir, command(dir).stderr(Stdio::null()))
}

pub(crate) fn ready(dir: &Path, command: &mut Command) -> Running {
    let socket = dir.join("notify");
    _ = std::fs::remove_file(&socket);
    let notify = UnixDatagram::bind(&socket).unwrap();
    notify.set_read_timeout(Some(DEADLINE)).unwrap();
    let child = Running(command.env("NOTIFY_SOCKET", &socket).spawn().unwrap());
    let mut buffer = [0; 64];
    let n = notify.recv(&mut buffer).expect("no READY=1");
    assert_eq!(&buffer[..n], b"READY=1\n");
    child
}

pub(crate) fn ended(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "the controller does not end");
        std::thread::yield_now();
    }
}

/// The answer to a request; `None` if the controller ends before it is whole.
pub(crate) fn exchange(dir: &Path, head: &str, headers: &[String], body: &str) -> Option<String> {
    let mut stream = UnixStream::connect(dir.join("r.sock")).ok()?;
    let headers = headers.iter().map(|header| format!("{header}\r\n")).collect::<String>();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_none_or(|length| length.parse() == Ok(body.len())).then_some(answer)
}
