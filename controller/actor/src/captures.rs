// SPDX-License-Identifier: Apache-2.0
//! Captures of one packet, in memory only: one at a time, and the last ones.

use std::collections::{HashSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_core::capture::{Capture, CapturePlan, CaptureState, psn_ahead};
use canopy_controller_core::chart::series::{ChartObject, Series};
use canopy_controller_core::principal::Principal;
use canopy_model::capture::{CaptureOrder, CapturedFrame};
use canopy_model::ids::{GroupId, Psn};
use canopy_units::{Monotonic, UnixTime, UnwrappedPsn};
use tokio::sync::watch;

use crate::Controller;

/// Captures that are kept, with the one under way.
const KEPT: usize = 32;
/// How far ahead of what the source sends the packet is: the headend's sample is up to a second old, and the order takes its way.
const LEAD: Duration = Duration::from_secs(2);
/// Unwrapped PSNs start here.
const TURN: u64 = 1 << 24;
/// Points of a chart whose newest shows the present rate.
const RECENT: usize = 5;

/// Why a packet is not captured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// There is no such group.
    #[error("there is no group {0:?}")]
    NoGroup(String),
    /// No data can pass.
    #[error("group {0:?} has no tree: no data can pass before a source and a receiver have joined")]
    NoTree(String),
    /// One at a time.
    #[error("{by} captures a packet of group {group:?}, for {left:?} more: try again then")]
    Running {
        /// The group.
        group: String,
        /// Who armed it.
        by: String,
        /// How long it may take.
        left: Duration,
    },
    /// No node of the tree can.
    #[error("no agent of the group's tree captures packets: connect or upgrade the agents of {}", .0.join(", "))]
    Unable(Vec<String>),
    /// The operating system gives no random numbers.
    #[error("cannot draw the name of a capture: the operating system gives no random numbers")]
    Random,
}

/// A capture as it is now.
#[derive(Clone, Debug)]
pub struct CaptureNow {
    /// The capture.
    pub capture: Capture,
    /// How far it is.
    pub state: CaptureState,
    /// PSNs by which the headend's highest one rose since it was armed; `None` while the headend does not report.
    pub sent: Option<u64>,
}

/// What nodes are to capture.
#[derive(Debug)]
pub(crate) struct Armed {
    order: CaptureOrder,
    nodes: HashSet<String>,
    ends: Monotonic,
}

/// Everything about captures that the controller keeps.
#[derive(Default)]
pub(crate) struct CaptureBook {
    kept: Mutex<VecDeque<Kept>>,
    /// Every stream of a node wakes up for it: once in five seconds at most, for a person.
    armed: watch::Sender<Option<Arc<Armed>>>,
}

struct Kept {
    capture: Capture,
    /// The PSN that the source was to send next when it was armed, and when the headend was last read before the capture ended.
    from: UnwrappedPsn,
    to: Option<UnwrappedPsn>,
}

/// Packets to capture, for one node.
pub struct CaptureOrders {
    node: String,
    armed: watch::Receiver<Option<Arc<Armed>>>,
    controller: Controller,
}

impl CaptureOrders {
    /// The next packet for this node; waits for ever if there is none. Cancel safe.
    pub async fn next(&mut self) -> CaptureOrder {
        loop {
            if self.armed.changed().await.is_err() {
                return std::future::pending().await;
            }
            let armed = self.armed.borrow_and_update().clone();
            let Some(armed) = armed.filter(|armed| armed.nodes.contains(&self.node)) else { continue };
            let within = armed.ends.since(self.controller.now());
            if !within.is_zero() {
                return CaptureOrder { within, ..armed.order };
            }
        }
    }
}

impl Controller {
    /// Arms the capture of one packet of a group: the one with this PSN, or one that the source is about to send.
    ///
    /// # Errors
    /// See [`CaptureError`].
    pub fn arm_capture(
        &self,
        group: &str,
        psn: Option<Psn>,
        within: Duration,
        by: Principal,
    ) -> Result<CaptureNow, CaptureError> {
        let plan = self.expected_packet(group).ok_or_else(|| CaptureError::NoGroup(group.to_owned()))?;
        let plan = plan.ok_or_else(|| CaptureError::NoTree(group.to_owned()))?;
        if plan.able.is_empty() {
            return Err(CaptureError::Unable(plan.unable));
        }
        let to = self.highest(&plan);
        let from = to.filter(|high| high.get() > 0).unwrap_or_else(|| UnwrappedPsn(TURN + u64::from(plan.start.get())));
        let next = Psn::new("psn", from.wire().into()).unwrap_or(plan.start);
        let psn = psn.unwrap_or_else(|| psn_ahead(next, self.packet_rate(group), LEAD));
        let id = draw().ok_or(CaptureError::Random)?;
        let now = self.now();
        let mut kept = self.kept_captures();
        if let Some(last) = kept.back().filter(|last| last.capture.state(now) == CaptureState::Armed) {
            let (of, left) = (&last.capture, last.capture.ends.since(now));
            return Err(CaptureError::Running { group: of.plan.group.clone(), by: of.by.to_string(), left });
        }
        let order = CaptureOrder { id, group: plan.group_id, psn, within };
        let armed = Armed { order, nodes: plan.able.iter().cloned().collect(), ends: now + within };
        tracing::info!(group, %psn, id, %by, "capturing a packet");
        let capture = Capture::new(id, plan, psn, within, (UnixTime::now(), now), by);
        let one = Kept { capture, from, to };
        let shown = one.now(now);
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(one);
        // Under the lock, so that a frame finds its capture.
        self.captures().armed.send_replace(Some(Arc::new(armed)));
        Ok(shown)
    }

    /// A capture of this group; `None` if it is not kept, or none of this group.
    pub fn capture(&self, group: &str, id: NonZeroU32) -> Option<CaptureNow> {
        let now = self.now();
        let group_id = self.read(|d| d.group_id(group));
        let mut kept = self.kept_captures();
        let found = kept.iter_mut().find(|k| k.capture.id == id && k.is_of(group, group_id))?;
        // What the source sends later is none of this capture; the last sample before its end arrives a second later.
        if now < found.capture.ends + LEAD {
            found.to = self.highest(&found.capture.plan);
        }
        Some(found.now(now))
    }

    /// The captures of a group that are kept, the newest first; `None`: there is no such group.
    pub fn captures_of(&self, group: &str) -> Option<Vec<CaptureNow>> {
        let group_id = Some(self.read(|d| d.group_id(group))?);
        let now = self.now();
        let kept = self.kept_captures();
        Some(kept.iter().rev().filter(|k| k.is_of(group, group_id)).map(|k| k.now(now)).collect())
    }

    /// Where a packet of a group passes, and what it has to be there; `Some(None)` without a tree. `None`: there is no such group.
    pub fn expected_packet(&self, group: &str) -> Option<Option<CapturePlan>> {
        self.read(|d| d.capture_plan(group))
    }

    /// Takes in frames that a node captured. Those of no capture, or of one that the node has no part in, are left out.
    pub fn captured(&self, node: &str, frames: Vec<CapturedFrame>) {
        let mut kept = self.kept_captures();
        for frame in frames {
            let of = kept.iter_mut().find(|k| k.capture.id == frame.id);
            match of.filter(|k| k.capture.plan.able.iter().any(|able| able == node)) {
                Some(of) => of.capture.add(node, frame),
                None => tracing::debug!(node, id = frame.id, "a frame of a capture that is not known"),
            }
        }
    }

    /// Packets to capture at `node`, from the one under way on.
    pub fn capture_orders(&self, node: &str) -> CaptureOrders {
        let mut armed = self.captures().armed.subscribe();
        armed.mark_changed();
        CaptureOrders { node: node.to_owned(), armed, controller: self.clone() }
    }

    fn kept_captures(&self) -> MutexGuard<'_, VecDeque<Kept>> {
        self.captures().kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more than the highest PSN that the headend reported.
    fn highest(&self, plan: &CapturePlan) -> Option<UnwrappedPsn> {
        let of_headend = self.telemetry().node(&plan.headend)?;
        of_headend.groups.get(&plan.group_id).map(|group| group.high)
    }

    /// Packets per second that the headend counted last; 0 where it counted none.
    fn packet_rate(&self, group: &str) -> f64 {
        let object = ChartObject::Group(group.to_owned());
        let Ok(Some(charted)) = self.chart(&object, Some(Series::Packets), None, None, None) else { return 0.0 };
        let recent = charted.charts.iter().flat_map(|chart| chart.points.iter().rev().take(RECENT));
        recent.flatten().next().map_or(0.0, |point| point.max.into())
    }
}

impl Kept {
    /// Not of a group that had the name before.
    fn is_of(&self, group: &str, id: Option<GroupId>) -> bool {
        self.capture.plan.group == group && Some(self.capture.plan.group_id) == id
    }

    fn now(&self, now: Monotonic) -> CaptureNow {
        let state = self.capture.state(now);
        let sent = self.to.map(|to| to.since(self.from));
        CaptureNow { capture: self.capture.clone(), state, sent }
    }
}

fn draw() -> Option<NonZeroU32> {
    let mut octets = [0; 4];
    getrandom::fill(&mut octets).ok()?;
    // Zero is no name.
    NonZeroU32::new(u32::from_ne_bytes(octets) | 1)
}
