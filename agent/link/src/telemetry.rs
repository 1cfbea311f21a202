// SPDX-License-Identifier: Apache-2.0
//! Samples and events on their way up: a small queue that drops its oldest, and the stream that drains it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use canopy_model::capture::CapturedFrame;
use canopy_model::congestion::PortCongestion;
use canopy_model::ids::GroupId;
use canopy_model::telemetry::{DropCount, Event, EventCode, GroupTelemetry, LinkLoss, LinkRtt};
use canopy_units::UnixTime;
use tokio::sync::Notify;

mod stream;

pub(crate) use stream::run;

/// Samples held: each replaces the one before, so a few seconds' worth bridge a hiccup.
const SAMPLES: usize = 4;
/// Events held: they do not repeat, so they may wait out a longer outage.
const EVENTS: usize = 256;
/// Captured frames held: a packet and its copies to all branches, twice.
const CAPTURED: usize = 258;
/// Branches in one message, about 100 bytes each, so that no message nears the 4 MiB limit.
const BRANCHES_PER_MESSAGE: usize = 8192;

/// What is sent at once.
struct Taken {
    sample: TelemetrySample,
    /// It was read from the datapath: else it has no groups.
    is_read: bool,
    events: Vec<Event>,
    captured: Vec<CapturedFrame>,
}

/// One reading of the datapath with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySample {
    /// Wall clock, nanoseconds since the Unix epoch.
    pub time: UnixTime,
    /// Per group.
    pub groups: Vec<GroupTelemetry>,
    /// Those of them that only the first sample of a stream needs to have.
    pub at_rest: BTreeSet<GroupId>,
    /// Drops that belong to no group.
    pub node_drops: Vec<DropCount>,
    /// Per port with a STAMP session.
    pub link_rtts: Vec<LinkRtt>,
    /// Per link to another node.
    pub link_losses: Vec<LinkLoss>,
    /// Per port that has thresholds; `None` if the queues were not sampled.
    pub congestion: Option<Vec<PortCongestion>>,
}

/// Holds at most 4 samples and 256 events; a full queue drops its oldest and counts it. Clones share one queue.
#[derive(Clone, Debug, Default)]
pub struct TelemetryQueue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    samples: VecDeque<TelemetrySample>,
    events: VecDeque<Event>,
    captured: VecDeque<CapturedFrame>,
    dropped: u64,
    announced: u64,
}

impl TelemetryQueue {
    /// Queues a sample; never waits.
    pub fn push_sample(&self, sample: TelemetrySample) {
        self.with(|state| push_bounded(&mut state.samples, sample, SAMPLES, &mut state.dropped));
        self.shared.filled.notify_one();
    }

    /// Queues an event; never waits.
    pub fn push_event(&self, event: Event) {
        self.with(|state| push_bounded(&mut state.events, event, EVENTS, &mut state.dropped));
        self.shared.filled.notify_one();
    }

    /// Queues a captured frame; never waits.
    pub fn push_captured(&self, frame: CapturedFrame) {
        self.with(|state| push_bounded(&mut state.captured, frame, CAPTURED, &mut state.dropped));
        self.shared.filled.notify_one();
    }

    /// Samples and events dropped so far because the controller did not take them.
    pub fn dropped(&self) -> u64 {
        self.with(|state| state.dropped)
    }

    /// Waits for the oldest sample together with all events and captured frames. Cancel safe: nothing is taken before it returns.
    async fn pop(&self) -> Taken {
        loop {
            if let Some(taken) = self.with(State::take) {
                return taken;
            }
            self.shared.filled.notified().await;
        }
    }

    /// Nothing panics while the lock is held, so a poisoned queue is still whole.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.shared.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    /// Events and captured frames alone travel in a sample of their own, stamped with the time of the newest.
    fn take(&mut self) -> Option<Taken> {
        let newest_event = self.events.back().map(|event| event.time);
        let newest = newest_event.or_else(|| self.captured.back().map(|frame| frame.time));
        let read = self.samples.pop_front();
        let is_read = read.is_some();
        let sample = read.or_else(|| {
            newest.map(|time| TelemetrySample {
                time,
                groups: vec![],
                at_rest: BTreeSet::new(),
                node_drops: vec![],
                link_rtts: vec![],
                link_losses: vec![],
                congestion: None,
            })
        })?;
        let mut events: Vec<Event> = self.events.drain(..).collect();
        if self.dropped > self.announced {
            let lost = self.dropped - self.announced;
            self.announced = self.dropped;
            events.push(Event {
                time: sample.time,
                code: EventCode::TelemetryDropped,
                group: None,
                branch: None,
                epoch: None,
                detail: format!("{lost} samples and events were dropped because the controller did not take them"),
                reach: None,
            });
        }
        Some(Taken { sample, is_read, events, captured: self.captured.drain(..).collect() })
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize, dropped: &mut u64) {
    if queue.len() >= most {
        queue.pop_front();
        *dropped += 1;
    }
    queue.push_back(item);
}
