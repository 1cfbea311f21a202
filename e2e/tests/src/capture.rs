// SPDX-License-Identifier: Apache-2.0
//! Packets as `tcpdump` saw them inside a namespace, independent of the code under test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use canopy_lab::Lab;
use canopy_packet::frame::RoceFrame;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running capture.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    path: PathBuf,
    said: JoinHandle<String>,
}

/// A captured packet from its IPv6 header on, possibly cut short.
#[derive(Clone, Debug)]
pub struct Packet {
    /// Nanoseconds since the Unix epoch; one clock for the whole machine.
    pub time_ns: u64,
    /// Bytes.
    pub bytes: Vec<u8>,
}

impl Capture {
    /// Starts capturing what `filter` selects on `interface` of `device`; returns when tcpdump listens.
    ///
    /// # Errors
    /// tcpdump is missing or refuses.
    pub fn start(lab: &Lab, device: &str, interface: &str, filter: &str) -> Result<Self> {
        let path = lab.dir().join(format!("{device}-{interface}.pcap"));
        let mut c = lab.command(device, "tcpdump")?;
        c.args(["-i", interface, "-w"]).arg(&path).args([
            "--time-stamp-precision=nano",
            "--immediate-mode",
            "-U",
            "-B",
            "65536",
            "-s",
            "2400",
            "-Z",
            "root",
            filter,
        ]);
        let mut child = c
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting tcpdump (apt-get install tcpdump)")?;
        let mut said = BufReader::new(child.stderr.take().context("tcpdump's standard error")?);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            ensure!(said.read_line(&mut line)? > 0, "tcpdump at {device} ended before it listened");
        }
        let said = std::thread::spawn(move || said.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Ok(Self { child, path, said })
    }

    /// Stops and reads what was captured.
    ///
    /// # Errors
    /// The file is not what tcpdump writes, or tcpdump missed a packet: a capture with holes proves nothing.
    pub fn stop(mut self) -> Result<Vec<Packet>> {
        self.settle()?;
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).context("stopping tcpdump")?;
        self.child.wait()?;
        let said = self.said.join().unwrap_or_default();
        ensure!(
            said.contains("\n0 packets dropped by kernel") || said.starts_with("0 packets dropped"),
            "{}: {said}",
            self.path.display()
        );
        read(&fs::read(&self.path)?)
    }

    /// Waits until the file has stopped growing: what the kernel still holds for tcpdump is written by then.
    fn settle(&self) -> Result<()> {
        let size = || fs::metadata(&self.path).map(|m| m.len());
        let (mut last, mut since) = (size()?, Instant::now());
        while since.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(10));
            if size()? != last {
                (last, since) = (size()?, Instant::now());
            }
        }
        Ok(())
    }

    /// Where the capture is written.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }
}

/// Little-endian pcap with nanosecond stamps and Ethernet frames.
fn read(file: &[u8]) -> Result<Vec<Packet>> {
    let word = |at: usize| file.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    ensure!(
        word(0) == Some(0xA1B2_3C4D) && word(20) == Some(1),
        "not a nanosecond Ethernet pcap of this machine's byte order"
    );
    let (mut at, mut out) = (24, Vec::new());
    while let (Some(s), Some(ns), Some(len)) = (word(at), word(at + 4), word(at + 8)) {
        let Some(frame) = file.get(at + 16..at + 16 + len as usize) else { break };
        out.push(Packet {
            time_ns: u64::from(s) * 1_000_000_000 + u64::from(ns),
            bytes: frame.get(14..).unwrap_or_default().to_vec(),
        });
        at += 16 + len as usize;
    }
    // Two processors write into one capture: the file's order is not the order of the stamps.
    out.sort_by_key(|p: &Packet| p.time_ns);
    Ok(out)
}

/// Filter for acknowledgements (BTH OpCode 0x11) in plain RoCEv2 over IPv6.
pub const ACKS: &str = "ip6 proto 17 and ip6[42:2] == 4791 and ip6[48] == 0x11";

/// What an acknowledgement says: everything before `next` is held. Unwrapped near `near`.
pub fn acknowledged(p: &Packet, near: u64) -> Result<Option<(u64, bool)>> {
    let f = RoceFrame::parse(&p.bytes).map_err(|e| anyhow::anyhow!("captured ACK: {e}"))?;
    ensure!(f.icrc_is_valid(), "captured ACK with a wrong ICRC");
    let Some(aeth) = f.extensions.aeth else { return Ok(None) };
    let delta = ((f.bth.psn.wrapping_sub(near as u32) << 8) as i32) >> 8;
    let psn = near.wrapping_add_signed(delta.into());
    // A NAK names the first missing packet, an ACK the last that is held.
    Ok(Some(if aeth.syndrome.is_ack() { (psn + 1, false) } else { (psn, true) }))
}

/// From captures of ACKs alone: whenever the source was told "everything before n is held", every one of `receivers` had
/// already said so. `start` is the group's start PSN. Returns how many ACKs the source got.
///
/// # Errors
/// Nothing was captured at the source, or an acknowledgement was false: which, and when it came true.
pub fn check_no_false_ack(start: u64, source: &[Packet], receivers: &[Vec<Packet>]) -> Result<usize> {
    let mut said = Vec::with_capacity(receivers.len());
    for packets in receivers {
        said.push(progress(start, packets)?);
    }
    let told = progress(start, source)?;
    ensure!(!told.is_empty(), "nothing was captured at the source");
    for (time, next) in &told {
        for (i, said) in said.iter().enumerate() {
            let held = said[..said.partition_point(|(t, _)| t <= time)].last().map_or(start, |(_, n)| *n);
            let later = said.iter().find(|(_, n)| n >= next).map(|(t, _)| t.saturating_sub(*time));
            ensure!(
                held >= *next,
                "the source was told {next}, receiver {i} had said {held} by then, and said so {later:?} ns later"
            );
        }
    }
    Ok(told.len())
}

/// Capture times, and everything before what was acknowledged by then.
fn progress(start: u64, packets: &[Packet]) -> Result<Vec<(u64, u64)>> {
    let (mut near, mut out) = (start, Vec::new());
    for p in packets {
        if let Some((next, _)) = acknowledged(p, near)? {
            near = near.max(next);
            out.push((p.time_ns, near));
        }
    }
    Ok(out)
}
