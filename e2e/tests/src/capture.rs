// SPDX-License-Identifier: Apache-2.0
//! Packets captured by `tcpdump` inside a namespace, independent of the code under test.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use canopy_lab::Lab;
use canopy_packet::bth::Bth;
use canopy_packet::frame::RoceFrame;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Octets of a packet that are captured: more than any packet has here.
const WHOLE: u32 = 2400;
/// The same where only Ethernet, IPv6, UDP and BTH are needed.
const HEADERS: u32 = 96;

/// Which packets of an interface are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// All.
    Both,
    /// Those that it receives.
    In,
    /// Those that it sends.
    Out,
}

/// A running capture; it ends when it is dropped.
#[derive(Debug)]
pub struct Capture {
    child: Child,
    path: PathBuf,
    stderr: Option<JoinHandle<String>>,
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
    /// Starts capturing packets that match `filter` on `interface` of `device`; returns when tcpdump is capturing.
    ///
    /// # Errors
    /// tcpdump is missing or refuses.
    pub fn start(lab: &Lab, device: &str, interface: &str, filter: &str) -> Result<Self> {
        Self::start_one_way(lab, device, interface, Way::Both, filter)
    }

    /// As [`Capture::start`], of the packets of one way. May run next to one of another way.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn start_one_way(lab: &Lab, device: &str, interface: &str, way: Way, filter: &str) -> Result<Self> {
        let name = match way {
            Way::Both => format!("{device}-{interface}.pcap"),
            Way::In => format!("{device}-{interface}-in.pcap"),
            Way::Out => format!("{device}-{interface}-out.pcap"),
        };
        Self::start_at(lab, device, interface, way, filter, WHOLE, lab.dir().join(name))
    }

    /// As [`Capture::start`], headers only: enough for the BTH of many data packets. May run next to a capture of whole packets.
    ///
    /// # Errors
    /// As [`Capture::start`].
    pub fn start_headers(lab: &Lab, device: &str, interface: &str, filter: &str) -> Result<Self> {
        let path = lab.dir().join(format!("{device}-{interface}-headers.pcap"));
        Self::start_at(lab, device, interface, Way::Both, filter, HEADERS, path)
    }

    fn start_at(
        lab: &Lab,
        device: &str,
        interface: &str,
        way: Way,
        filter: &str,
        octets: u32,
        path: PathBuf,
    ) -> Result<Self> {
        // libpcap runs the filter of the first packet in user space, where these two words match nothing: it would be missing.
        ensure!(!filter.contains("inbound") && !filter.contains("outbound"), "{filter}: give the way as an argument");
        let mut c = lab.command(device, "tcpdump")?;
        match way {
            Way::Both => {}
            Way::In => _ = c.args(["-Q", "in"]),
            Way::Out => _ = c.args(["-Q", "out"]),
        }
        c.args(["-i", interface, "-w"]).arg(&path).args([
            "--time-stamp-precision=nano",
            "--immediate-mode",
            "-U",
            "-B",
            "65536",
            "-s",
            &octets.to_string(),
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
        let mut stderr = BufReader::new(child.stderr.take().context("tcpdump's standard error")?);
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            ensure!(stderr.read_line(&mut line)? > 0, "tcpdump at {device} ended before it listened");
        }
        let stderr = std::thread::spawn(move || stderr.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Ok(Self { child, path, stderr: Some(stderr) })
    }

    /// Stops the capture and reads the packets.
    ///
    /// # Errors
    /// The file is not what tcpdump writes, or tcpdump dropped a packet: a test cannot rely on an incomplete capture.
    pub fn stop(mut self) -> Result<Vec<Packet>> {
        self.settle()?;
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).context("stopping tcpdump")?;
        self.child.wait()?;
        let stderr = self.stderr.take().and_then(|reader| reader.join().ok()).unwrap_or_default();
        ensure!(
            stderr.contains("\n0 packets dropped by kernel") || stderr.starts_with("0 packets dropped"),
            "{}: {stderr}",
            self.path.display()
        );
        read(&fs::read(&self.path)?)
    }

    /// Waits until the file has stopped growing: tcpdump has then written what the kernel still held for it.
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

impl Drop for Capture {
    fn drop(&mut self) {
        // Stopped already: nothing to do.
        _ = self.child.kill();
        _ = self.child.wait();
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
    // Two CPUs write into one capture: the order in the file is not the order of the timestamps.
    out.sort_by_key(|p: &Packet| p.time_ns);
    Ok(out)
}

/// Filter for acknowledgements (BTH OpCode 0x11) in plain RoCEv2 over IPv6.
pub const ACKS: &str = "ip6 proto 17 and ip6[42:2] == 4791 and ip6[48] == 0x11";

/// Filter for data packets (SEND and WRITE of RC) in plain RoCEv2 over IPv6.
pub const DATA: &str = "ip6 proto 17 and ip6[42:2] == 4791 and ip6[48] < 0x0c";

/// The AckPSN of an acknowledgement: every packet before the returned PSN is acknowledged. Unwrapped near `near`;
/// true for a NAK.
pub fn acknowledged(p: &Packet, near: u64) -> Result<Option<(u64, bool)>> {
    let f = RoceFrame::parse(&p.bytes).map_err(|e| anyhow::anyhow!("captured ACK: {e}"))?;
    ensure!(f.icrc_is_valid(), "captured ACK with a wrong ICRC");
    let Some(aeth) = f.extensions.aeth else { return Ok(None) };
    let psn = unwrap(f.bth.psn, near);
    // A NAK carries the PSN of the first missing packet, an ACK that of the last one received.
    Ok(Some(if aeth.syndrome.is_ack() { (psn + 1, false) } else { (psn, true) }))
}

/// Checks captured ACKs: whenever the source received an ACK for everything before n, every one of `receivers` had
/// sent one already. `start` is the group's start PSN. Returns the number of ACKs at the source.
///
/// # Errors
/// Nothing was captured at the source, or an acknowledgement was false: its PSN, and when it became true.
pub fn check_no_false_ack(start: u64, source: &[Packet], receivers: &[Vec<Packet>]) -> Result<usize> {
    let mut sent = Vec::with_capacity(receivers.len());
    for packets in receivers {
        sent.push(progress(start, packets)?);
    }
    let received = progress(start, source)?;
    ensure!(!received.is_empty(), "nothing was captured at the source");
    for (time, next) in &received {
        for (i, sent) in sent.iter().enumerate() {
            let held = held_at(sent, *time, start);
            let later = sent.iter().find(|(_, n)| n >= next).map(|(t, _)| t.saturating_sub(*time));
            ensure!(
                held >= *next,
                "the source received an ACK for everything before {next}; receiver {i} had acknowledged {held} by then, and sent that ACK {later:?} ns later"
            );
        }
    }
    Ok(received.len())
}

/// Where the source went back to: capture times, each with the PSN of a data packet that does not follow the one before it. It goes
/// back to the first packet that is not acknowledged. `data` are its packets, `start` the group's start PSN.
///
/// # Errors
/// A packet without a BTH.
pub fn resent(start: u64, data: &[Packet]) -> Result<Vec<(u64, u64)>> {
    let (mut last, mut out) = (start.wrapping_sub(1), Vec::new());
    for p in data {
        let bth =
            p.bytes.get(48..60).and_then(|b| Bth::parse(b).ok()).context("a captured data packet without a BTH")?;
        let psn = unwrap(bth.psn, last);
        if psn <= last {
            out.push((p.time_ns, psn));
        }
        last = psn;
    }
    Ok(out)
}

/// Checks where the source went back to: never behind what a receiver lacks. Each of `receivers` expects the PSN (its ePSN) before which
/// it has acknowledged everything. Returns how often the source went back.
///
/// # Errors
/// The source went back to a PSN that is higher than the ePSN of a receiver: what that receiver lacks is never sent again.
pub fn check_resent(start: u64, data: &[Packet], receivers: &[Vec<Packet>]) -> Result<usize> {
    let expected = receivers.iter().map(|packets| progress(start, packets)).collect::<Result<Vec<_>>>()?;
    ensure!(!data.is_empty(), "no data was captured at the source");
    let resent = resent(start, data)?;
    for (time, psn) in &resent {
        for (i, expected) in expected.iter().enumerate() {
            let next = held_at(expected, *time, start);
            ensure!(*psn <= next, "the source went back to {psn}; receiver {i} expected {next} by then");
        }
    }
    Ok(resent.len())
}

/// The PSN before which everything was acknowledged at `time`.
fn held_at(progress: &[(u64, u64)], time: u64, start: u64) -> u64 {
    progress[..progress.partition_point(|(t, _)| *t <= time)].last().map_or(start, |(_, next)| *next)
}

/// The number near `near` that has this PSN.
fn unwrap(psn: u32, near: u64) -> u64 {
    let delta = ((psn.wrapping_sub(near as u32) << 8) as i32) >> 8;
    near.wrapping_add_signed(delta.into())
}

/// Capture times, each with the PSN before which everything was acknowledged by then.
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
