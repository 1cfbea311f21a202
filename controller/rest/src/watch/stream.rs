// SPDX-License-Identifier: Apache-2.0
//! One watcher's stream.
//!
//! ```text
//! present state --synced--> changes --------- timeoutSeconds, or the controller ends --> bye
//!                             |  ^  |
//!        token `after` -------+--+  +------- the cursor has fallen out ----------------> gone
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use canopy_controller_actor::{CommandError, Controller};
use canopy_controller_core::tenant::Scope;
use canopy_units::UnixTime;
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until};

use super::Slot;
use super::frame::{bye, frame, json, of_topic};
use super::present::Present;
use super::ring::{Gone, Ring};

/// A client that gets no event for some of these has lost its connection.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Why a stream ends, for clients.
enum End {
    Timeout,
    Stopping,
    Gone,
}

/// What the events of one kind are read from.
struct Source {
    controller: Controller,
    ring: Arc<Ring>,
    published: watch::Receiver<u64>,
    /// `None` if the client's token is of another ring.
    cursor: Option<u64>,
    /// What the watcher sees.
    scope: Scope,
    /// `None` once all of it was sent.
    present: Option<Present>,
    /// One watcher at a time reads the present state, so that many that begin together do not keep writes waiting.
    turn: Arc<Semaphore>,
    /// The kind, in a stream of several.
    topic: Option<&'static str>,
}

impl Source {
    /// The next events. Dropping the future loses none.
    async fn next(&mut self) -> Result<Vec<Bytes>, End> {
        let frames = self.read().await?;
        Ok(match self.topic {
            Some(topic) => frames.iter().map(|frame| of_topic(topic, frame)).collect(),
            None => frames,
        })
    }

    async fn read(&mut self) -> Result<Vec<Bytes>, End> {
        let mut cursor = self.cursor.ok_or(End::Gone)?;
        if let Some(present) = &mut self.present {
            tokio::task::yield_now().await;
            let _turn = self.turn.acquire().await;
            // Nothing is awaited after this: what was read is returned.
            let page = present.next(&self.controller).await.map_err(|_: CommandError| End::Stopping)?;
            return Ok(page.unwrap_or_else(|| {
                self.present = None;
                let token = self.ring.token(cursor);
                vec![frame("synced", Some(&token), &json(&json!({"token": token})))]
            }));
        }
        loop {
            // Before the read, so that no publication falls between it and the wait.
            self.published.mark_unchanged();
            let (frames, next) = self.ring.after(cursor, &self.scope).map_err(|Gone| End::Gone)?;
            cursor = next;
            self.cursor = Some(cursor);
            if !frames.is_empty() {
                return Ok(frames);
            }
            // An error means that the ring was dropped, which this prevents.
            _ = self.published.changed().await;
        }
    }
}

/// A watcher with its connection slot.
pub(super) struct Watcher {
    sources: Vec<Source>,
    waiting: VecDeque<Bytes>,
    heartbeat: Interval,
    until: Instant,
    closing: watch::Receiver<bool>,
    has_ended: bool,
    _slot: Slot,
}

/// Where a watcher begins in one kind.
pub(super) struct From {
    pub(super) ring: Arc<Ring>,
    pub(super) cursor: Option<u64>,
    pub(super) present: Option<Present>,
    /// See [`Source::topic`].
    pub(super) topic: Option<&'static str>,
}

/// What a watcher begins with.
pub(super) struct Begin {
    pub(super) controller: Controller,
    pub(super) from: Vec<From>,
    /// What the watcher sees.
    pub(super) scope: Scope,
    /// The first event, if there is one.
    pub(super) first: Option<Bytes>,
    pub(super) turn: Arc<Semaphore>,
    pub(super) lasts: Duration,
    pub(super) closing: watch::Receiver<bool>,
    pub(super) slot: Slot,
}

impl Watcher {
    pub(super) fn new(begin: Begin) -> Self {
        let Begin { controller, from, scope, first, turn, lasts, closing, slot } = begin;
        let now = Instant::now();
        let mut heartbeat = interval_at(now + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let source = |From { ring, cursor, present, topic }| {
            let (published, turn) = (ring.published(), turn.clone());
            let (controller, scope) = (controller.clone(), scope.clone());
            Source { controller, ring, published, cursor, scope, present, turn, topic }
        };
        let sources = from.into_iter().map(source).collect();
        let (waiting, until) = (first.into_iter().collect(), now + lasts);
        Self { sources, waiting, heartbeat, until, closing, has_ended: false, _slot: slot }
    }

    /// The next event; `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.waiting.pop_front() {
                return Some(frame);
            }
            if self.has_ended {
                return None;
            }
            // In this order, so that neither the end nor a heartbeat waits for changes that never cease.
            let next = tokio::select! {
                biased;
                () = closed(&mut self.closing) => Err(End::Stopping),
                () = sleep_until(self.until) => Err(End::Timeout),
                _ = self.heartbeat.tick() => {
                    return Some(frame("heartbeat", None, &json(&json!({"timeUnixNs": UnixTime::now().nanos()}))));
                }
                next = next_of(&mut self.sources) => next,
            };
            match next {
                Ok(frames) => self.waiting.extend(frames),
                Err(end) => return Some(self.end(end)),
            }
        }
    }

    fn end(&mut self, why: End) -> Bytes {
        self.has_ended = true;
        match why {
            End::Timeout => bye("timeoutSeconds have passed: continue with `after`"),
            End::Stopping => bye("the controller is stopping"),
            End::Gone => {
                let reason = "the controller does not have the changes after this token: watch again without `after`";
                frame("gone", None, &json(&json!({"reason": reason})))
            }
        }
    }
}

/// The next events of any kind; kinds that change at the same time take turns. Dropping the future loses none.
async fn next_of(sources: &mut [Source]) -> Result<Vec<Bytes>, End> {
    let nexts = sources.iter_mut().map(|source| Box::pin(source.next()));
    let (next, at, _) = futures::future::select_all(nexts).await;
    // The one that had something is asked last, so that a kind that changes all the time does not hide the others.
    sources[at..].rotate_left(1);
    next
}

/// An error means that what served the stream is gone, which is treated as closing.
async fn closed(closing: &mut watch::Receiver<bool>) {
    _ = closing.wait_for(|closing| *closing).await;
}
