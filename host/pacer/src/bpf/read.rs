// SPDX-License-Identifier: Apache-2.0
//! Notifications from the ring buffer, and the tables of flows and answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use canopy_bpf::pacer::types;
use canopy_bpf::read;
use canopy_bpf::ring::Records;
use canopy_units::Monotonic;
use tokio::sync::mpsc;

use super::Bpf;
use crate::engine::Flow;
use crate::learn::Sighted;

/// Notifications queued for the daemon; beyond that the ring buffer holds 3,800 more and then drops the newest.
const DEPTH: usize = 4096;
/// Minimum pause between two samples of the flows, and the pause as a multiple of the duration of a sample.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
const SAMPLE_PAUSE_FACTOR: u32 = 20;

/// Notifications as they arrive.
pub(crate) type Notices = Records<Notice>;
/// Samples of the flows and answers.
pub(crate) type Sightings = mpsc::Receiver<anyhow::Result<Sighted>>;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) time: Monotonic,
    /// Length of the packet in octets.
    pub(crate) length: usize,
    /// Its first octets.
    pub(crate) data: Vec<u8>,
}

/// What user space needs of a flow, or of the answers to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Time of the first packet.
    pub(crate) first: Monotonic,
    /// Time of the last packet.
    pub(crate) last: Monotonic,
    /// Minimum RTT of the last 5 to 10 s; only in answers.
    pub(crate) rtt: Option<Duration>,
}

impl Bpf {
    /// Starts the thread that reads the ring buffer.
    pub(crate) fn notices(&self) -> anyhow::Result<Notices> {
        let parse = |record: &[u8]| Notice::of(&read(record)?);
        Ok(Records::read(self.pacer.notices()?, "notices", DEPTH, parse)?)
    }

    /// Starts the thread that samples every flow and every answer periodically: there may be thousands, and the
    /// daemon must receive packets meanwhile. It ends when the receiver is dropped.
    pub(crate) fn sightings(&self) -> anyhow::Result<Sightings> {
        let pacer = Arc::clone(&self.pacer);
        // A busy daemon gets at most one outdated sample.
        let (sender, receiver) = mpsc::channel(1);
        let sample = move || -> anyhow::Result<Sighted> {
            let flows = pacer.flows().entries()?.iter().map(|(key, flow)| (peer(key), Seen::flow(flow))).collect();
            let answers = pacer.answers().entries()?;
            let answers: BTreeMap<_, _> = answers.iter().map(|(key, a)| (peer(key), Seen::answers(a))).collect();
            Ok(Sighted { flows, answers })
        };
        let run = move || {
            loop {
                let begin = Instant::now();
                if sender.blocking_send(sample()).is_err() {
                    return;
                }
                thread::sleep(SAMPLE_INTERVAL.max(begin.elapsed() * SAMPLE_PAUSE_FACTOR));
            }
        };
        thread::Builder::new().name("flows".into()).spawn(run).context("starting the flows' reader")?;
        Ok(receiver)
    }
}

fn peer(key: &types::pacer_key) -> Flow {
    Flow { peer: key.peer.into(), qpn: key.qpn }
}

impl Seen {
    fn flow(flow: &types::pacer_flow) -> Self {
        let [first, last] = [flow.first_ns, flow.last_ns].map(Monotonic::from_nanos);
        Self { first, last, rtt: None }
    }

    fn answers(answers: &types::pacer_answers) -> Self {
        let least = [answers.least_ns, answers.before_ns].into_iter().filter(|rtt| *rtt > 0).min();
        let [first, last] = [answers.first_ns, answers.last_ns].map(Monotonic::from_nanos);
        Self { first, last, rtt: least.map(Duration::from_nanos) }
    }
}

impl Notice {
    /// `None` if the record has fewer octets than its length field.
    fn of(notice: &types::pacer_notice) -> Option<Self> {
        let data = notice.data.get(..notice.captured as usize)?.to_vec();
        Some(Self { time: Monotonic::from_nanos(notice.time_ns), length: notice.length as usize, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rtt_is_the_lesser_of_two_windows_and_zero_is_none() {
        let answers = |least_ns, before_ns| {
            let record = types::pacer_answers { first_ns: 1, last_ns: 2, window_ns: 3, least_ns, before_ns };
            Seen::answers(&record)
        };
        assert_eq!(answers(40, 30).rtt, Some(Duration::from_nanos(30)));
        assert_eq!(answers(40, 0).rtt, Some(Duration::from_nanos(40)));
        assert_eq!(answers(0, 0), Seen { first: Monotonic::from_nanos(1), last: Monotonic::from_nanos(2), rtt: None });
    }

    #[test]
    fn a_notice_has_as_much_data_as_was_captured() {
        let mut record = types::pacer_notice { time_ns: 7, length: 300, captured: 3, data: [9; 256] };
        record.data[..3].copy_from_slice(&[1, 2, 3]);
        assert_eq!(
            Notice::of(&record),
            Some(Notice { time: Monotonic::from_nanos(7), length: 300, data: vec![1, 2, 3] })
        );
        record.captured = 257;
        assert_eq!(Notice::of(&record), None);
    }
}
