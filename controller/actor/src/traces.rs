// SPDX-License-Identifier: Apache-2.0
//! Spans of requests, on their way to an exporter. Without one nothing is measured; with one that is too slow, spans are left out and
//! counted, and nothing waits.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use canopy_controller_core::confirmations::Published;
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::trace::{SpanId, Trace};
use canopy_model::ids::Generation;
use canopy_model::status::Took;
use canopy_units::{Monotonic, UnixTime, nanos};
use tokio::sync::mpsc;

use crate::Controller;

/// Spans of one trace that a span names because they were carried out with it, at most.
pub const MAX_LINKS: usize = 8;

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Of which request.
    pub trace: Trace,
    /// Its id.
    pub id: SpanId,
    /// The span that it is a part of; `None` for the first of a trace.
    pub parent: Option<SpanId>,
    /// The request itself: its parent, if there is one, is a span of the caller.
    pub is_request: bool,
    /// What was done.
    pub name: String,
    /// When it began.
    pub start: UnixTime,
    /// When it ended.
    pub end: UnixTime,
    /// What it was done to, as OpenTelemetry names it where it has a name for it.
    pub attributes: Vec<(&'static str, String)>,
    /// Requests that were carried out by the same deed, [`MAX_LINKS`] at most.
    pub links: Vec<Trace>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Span {
    /// A part of a request, from one instant of the controller's clock to another. `None` if the system has no random numbers.
    pub fn part(trace: Trace, name: impl Into<String>, from: Monotonic, to: Monotonic) -> Option<Self> {
        Some(Self {
            trace,
            id: drawn()?,
            parent: Some(trace.span),
            is_request: false,
            name: name.into(),
            start: trace.wall(from),
            end: trace.wall(to),
            attributes: Vec::new(),
            links: Vec::new(),
            error: None,
        })
    }
}

impl Span {
    /// The same with links to the other ones of these requests, [`MAX_LINKS`] at most: one deed was done for all.
    pub(crate) fn with(self, all: &[Trace]) -> Self {
        let links = all.iter().filter(|trace| trace.span != self.trace.span).take(MAX_LINKS).copied().collect();
        Self { links, ..self }
    }

    /// The same, done by this node.
    pub(crate) fn at(mut self, node: &str) -> Self {
        self.attributes.push(("canopy.node", node.to_owned()));
        self
    }
}

/// A random id of a request that has none of its caller.
pub fn drawn_request() -> Option<RequestId> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).ok()?;
    RequestId::new(octets)
}

/// A random id.
pub fn drawn() -> Option<SpanId> {
    let mut octets = [0; 8];
    getrandom::fill(&mut octets).ok()?;
    SpanId::new(octets)
}

/// Where spans go.
#[derive(Default)]
pub struct Traces {
    exporter: OnceLock<mpsc::Sender<Span>>,
    left_out: AtomicU64,
}

impl Traces {
    /// Spans go to this exporter from now on; only the first one counts.
    pub fn export(&self, exporter: mpsc::Sender<Span>) {
        _ = self.exporter.set(exporter);
    }

    /// Whether there is an exporter.
    pub fn is_on(&self) -> bool {
        self.exporter.get().is_some()
    }

    /// Hands a span over, or leaves it out and counts it. Never waits.
    pub fn record(&self, span: Option<Span>) {
        let (Some(exporter), Some(span)) = (self.exporter.get(), span) else { return };
        if exporter.try_send(span).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Spans that the exporter did not take in time.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl Controller {
    /// Where spans go.
    pub fn traces(&self) -> &Traces {
        self.traces_of_requests()
    }

    /// An update from one generation to another is about to be sent to a node. Returns the newest of the traces that it follows from.
    pub fn sent(&self, node: &str, from: Generation, to: Generation) -> Option<Trace> {
        if !self.traces().is_on() {
            return None;
        }
        let (sent, now) = (self.confirmations(|c| c.sent(node, from, to)), self.now());
        self.done_for(node, "push", &sent, |published| (published.at, now));
        sent.last().map(|published| published.trace)
    }

    /// A node has reconciled traced changes, and has taken so long.
    pub(crate) fn reconciled(&self, node: &str, changes: &[Published], took: Option<Took>, now: Monotonic) {
        let Some(Took { apply, read_back }) = took else {
            return self.done_for(node, "reconcile", changes, |published| (published.at, now));
        };
        let before = |span| Monotonic::from_nanos(now.nanos().saturating_sub(nanos(span)));
        let (written, begun) = (before(read_back), before(read_back + apply));
        // An agent whose clock runs fast has not begun before there was anything to do.
        let since = |published: &Published, at: Monotonic| at.max(published.at);
        self.done_for(node, "apply", changes, |p| (since(p, begun), since(p, written)));
        self.done_for(node, "read back", changes, |p| (since(p, written), now));
    }

    fn done_for(
        &self,
        node: &str,
        what: &str,
        changes: &[Published],
        when: impl Fn(&Published) -> (Monotonic, Monotonic),
    ) {
        let all: Vec<Trace> = changes.iter().map(|published| published.trace).collect();
        for published in changes {
            let (from, to) = when(published);
            let span = Span::part(published.trace, format!("{what} {node}"), from, to);
            self.traces().record(span.map(|span| span.at(node).with(&all)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(id: u8) -> Trace {
        let id = RequestId::new([id; 16]).unwrap();
        Trace { id, span: drawn().unwrap(), arrived: (Monotonic::START, UnixTime::default()) }
    }

    /// Catches a queue without a bound, and one whose exporter holds up what it exports.
    #[test]
    fn what_an_exporter_does_not_take_is_left_out_and_counted() {
        let traces = Traces::default();
        let span = || Span::part(trace(1), "plan", Monotonic::START, Monotonic::START);
        traces.record(span());
        assert_eq!((traces.is_on(), traces.left_out()), (false, 0), "without an exporter there is nothing to count");
        let (exporter, mut spans) = mpsc::channel(1);
        traces.export(exporter);
        (0..3).for_each(|_| traces.record(span()));
        assert_eq!((traces.left_out(), spans.try_recv().is_ok(), spans.try_recv().is_ok()), (2, true, false));
        drop(spans);
        traces.record(span());
        assert_eq!(traces.left_out(), 3, "an exporter that has ended takes nothing");
    }

    #[test]
    fn a_span_links_to_a_few_others_and_not_to_its_own_request() {
        let all: Vec<Trace> = (1..=20).map(trace).collect();
        let span = Span::part(all[0], "store", Monotonic::START, Monotonic::START).unwrap().with(&all);
        assert_eq!(span.links, all[1..=MAX_LINKS]);
    }
}
