// SPDX-License-Identifier: Apache-2.0
//! Control socket of a delay line, to read its counters and set its delay: one JSON line each way over a Unix socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context, Result};
use canopy_units::{nanos, numbers};
use serde::{Deserialize, Serialize};

use super::Shared;
use super::direction::LineCounters;
use crate::units::Delay;

/// Time limit for one request or answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Upper limit of a request's length, bytes.
const LONGEST: u64 = 4096;

#[derive(Debug, Default, Serialize, Deserialize)]
struct Request {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay: Option<Delay>,
}

/// State of a delay line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LineReport {
    /// The delay of frames that arrive now.
    #[serde(rename = "delayNs", with = "numbers::nanos")]
    pub delay: Duration,
    /// From the link's first end to the other.
    pub a_to_b: LineCounters,
    /// The other direction.
    pub b_to_a: LineCounters,
}

/// Answers until the socket fails; a client that sends an invalid request, or none, is disconnected.
pub(super) fn serve(listener: &UnixListener, shared: &Shared) -> Result<()> {
    loop {
        let (client, _) = listener.accept().context("accepting a client on the control socket")?;
        if let Err(e) = answer(client, shared) {
            eprintln!("control socket: discarding a request: {e:#}");
        }
    }
}

fn answer(client: UnixStream, shared: &Shared) -> Result<()> {
    let request: Request = serde_json::from_str(&line(&client)?)?;
    if let Some(delay) = request.delay {
        shared.delay.store(nanos(delay.get()), Relaxed);
    }
    let report = LineReport {
        delay: Duration::from_nanos(shared.delay.load(Relaxed)),
        a_to_b: shared.counts[0].read(),
        b_to_a: shared.counts[1].read(),
    };
    send(&client, &report)
}

/// Reads the state of the delay line behind `socket`.
///
/// # Errors
/// It does not answer.
pub(crate) fn ask(socket: &Path) -> Result<LineReport> {
    exchange(socket, &Request::default())
}

/// Sets the delay of frames that arrive from now on; frames in transit keep theirs.
///
/// # Errors
/// The line does not answer.
pub(crate) fn set_delay(socket: &Path, delay: Delay) -> Result<LineReport> {
    exchange(socket, &Request { delay: Some(delay) })
}

fn exchange(socket: &Path, request: &Request) -> Result<LineReport> {
    let what = || format!("asking the delay line at {}", socket.display());
    let stream = UnixStream::connect(socket).with_context(what)?;
    send(&stream, request).with_context(what)?;
    serde_json::from_str(&line(&stream).with_context(what)?).with_context(what)
}

fn send(mut stream: &UnixStream, what: &impl Serialize) -> Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream.write_all((serde_json::to_string(what)? + "\n").as_bytes())?)
}

fn line(stream: &UnixStream) -> Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_in_force_when_it_is_answered_and_nonsense_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let shared: &'static Shared = Box::leak(Box::default());
        std::thread::spawn(move || serve(&listener, shared));
        let delay = Duration::from_millis(40);
        assert_eq!(ask(&path).unwrap().delay, Duration::ZERO);
        assert_eq!(set_delay(&path, "40ms".parse().unwrap()).unwrap().delay, delay);
        let mut rude = UnixStream::connect(&path).unwrap();
        rude.write_all(b"{\"delay\": \"11s\"}\n").unwrap();
        assert_eq!(line(&rude).unwrap(), "");
        assert_eq!(shared.delay.load(Relaxed), nanos(delay));
        assert_eq!(ask(&path).unwrap().delay, delay);
    }
}
