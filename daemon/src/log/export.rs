// SPDX-License-Identifier: Apache-2.0
//! Sends log lines to an OpenTelemetry collector (OTLP over gRPC), next to standard error. A collector that is away or slow costs lines,
//! which are counted, and nothing else.
//!
//! A thread of its own sends them: what its libraries log about it goes to standard error alone, or each message would cause the next.

use std::cell::Cell;
use std::mem::replace;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use opentelemetry::{InstrumentationScope, SpanId, TraceId};
use opentelemetry_appender_tracing::layer::{OpenTelemetryTracingBridge, TracingSpanAttributes};
use opentelemetry_otlp::{LogExporter, WithExportConfig};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter as _, LogProcessor, SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::otlp::{BATCH, GATHER, QUEUE, Service, TIMEOUT};

/// How long the end of the process waits for its last lines.
const FINISH: Duration = Duration::from_secs(1);
/// How long it waits before it tries again to have them follow a queue that is full.
const AGAIN: Duration = Duration::from_millis(10);
/// Octets of the texts of all lines that wait, at most: a line may have what a caller has sent. A message of all of them is one that
/// collectors take, 4 MiB as a rule.
const OCTETS: usize = 3 << 20;
/// Fields that name the request a line belongs to: its id, and what the controller sends to agents.
const REQUEST: &str = "request_id";
const TRACEPARENT: &str = "traceparent";

/// Lines that the collector of this process did not take in time.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
/// The queue of this process, once lines are sent.
static SENT: OnceLock<mpsc::Sender<Message>> = OnceLock::new();

thread_local! {
    /// What this thread logs is about sending.
    static SENDS: Cell<bool> = const { Cell::new(false) };
}

/// Lines that `log.endpoint` did not take in time; 0 without one.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// Waits until the last lines are sent, for a second at most; for the end of the process.
pub fn finish() {
    let Some(queue) = SENT.get() else { return };
    let deadline = Instant::now() + FINISH;
    let (done, wait) = channel();
    let mut last = Message::Last(done);
    while let Err(mpsc::error::TrySendError::Full(full)) = queue.try_send(last) {
        if Instant::now() >= deadline {
            return;
        }
        std::thread::sleep(AGAIN);
        last = full;
    }
    _ = wait.recv_timeout(deadline.saturating_duration_since(Instant::now()));
}

/// What makes records of lines.
pub(super) type Bridge = OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>;

/// Begins to send what the layer gets. Must be called once.
///
/// # Errors
/// The endpoint is no URL, or there is no thread.
pub(super) fn start(endpoint: &str, service: &Service<'_>) -> Result<Bridge, String> {
    let runtime = Builder::new_current_thread().enable_all().on_thread_start(sends).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let exporter = exporter(endpoint, service, &runtime)?;
    let (lines, queue) = mpsc::channel(QUEUE);
    _ = SENT.set(lines.clone());
    let run = move || {
        sends();
        runtime.block_on(run(exporter, queue, &LEFT_OUT));
    };
    std::thread::Builder::new().name("log-export".to_owned()).spawn(run).map_err(|error| error.to_string())?;
    Ok(bridge(Queue::new(lines, &LEFT_OUT)))
}

fn bridge(queue: Queue) -> Bridge {
    let provider = SdkLoggerProvider::builder().with_log_processor(queue).build();
    // The fields of spans are in the lines on standard error, too.
    let bridge = OpenTelemetryTracingBridge::builder(&provider);
    bridge.with_tracing_span_attributes(TracingSpanAttributes::all()).build()
}

fn sends() {
    SENDS.set(true);
}

fn exporter(endpoint: &str, service: &Service<'_>, runtime: &Runtime) -> Result<LogExporter, String> {
    // Its connection is made by tasks of this runtime.
    let _within = runtime.enter();
    let built = LogExporter::builder().with_tonic().with_endpoint(endpoint).with_timeout(TIMEOUT).build();
    let mut exporter = built.map_err(|error| error.to_string())?;
    exporter.set_resource(&service.resource());
    Ok(exporter)
}

/// What waits to be sent.
#[derive(Debug)]
enum Message {
    Line(Box<Line>),
    /// Answered, by being dropped, when what was before is sent.
    Last(#[expect(dead_code, reason = "dropping it is the answer")] Sender<()>),
}

#[derive(Debug)]
struct Line {
    record: SdkLogRecord,
    scope: InstrumentationScope,
    /// Is free again once the line is sent.
    _room: OwnedSemaphorePermit,
}

/// Takes lines from every thread, and never waits.
#[derive(Debug)]
struct Queue {
    lines: mpsc::Sender<Message>,
    /// Octets that may be added.
    room: Arc<Semaphore>,
    left_out: &'static AtomicU64,
}

impl Queue {
    fn new(lines: mpsc::Sender<Message>, left_out: &'static AtomicU64) -> Self {
        Self { lines, room: Arc::new(Semaphore::new(OCTETS)), left_out }
    }

    /// Whether there was room for the line.
    fn add(&self, record: &SdkLogRecord, scope: &InstrumentationScope) -> bool {
        let room = u32::try_from(octets(record)).ok();
        let room = room.and_then(|octets| self.room.clone().try_acquire_many_owned(octets).ok());
        room.is_some_and(|room| {
            let line = Line { record: record.clone(), scope: scope.clone(), _room: room };
            self.lines.try_send(Message::Line(Box::new(line))).is_ok()
        })
    }
}

impl LogProcessor for Queue {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if let Some((trace, span)) = request(record) {
            record.set_trace_context(trace, span, None);
        }
        if !self.add(record, scope) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn event_enabled(&self, _: Severity, _: &str, _: Option<&str>) -> bool {
        !SENDS.get()
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Octets of the texts of a line.
fn octets(record: &SdkLogRecord) -> usize {
    let of = |value: &AnyValue| match value {
        AnyValue::String(text) => text.as_str().len(),
        AnyValue::Bytes(octets) => octets.len(),
        // Numbers; lines have no lists.
        _ => 8,
    };
    record.body().map_or(0, of)
        + record.attributes_iter().map(|(key, value)| key.as_str().len() + of(value)).sum::<usize>()
}

/// The request that a line is about, by its id, which is that of its trace.
fn request(record: &SdkLogRecord) -> Option<(TraceId, SpanId)> {
    let text = |wanted: &str| {
        record.attributes_iter().find(|(key, _)| key.as_str() == wanted).and_then(|(_, value)| match value {
            AnyValue::String(text) => Some(text.as_str()),
            _ => None,
        })
    };
    if let Some(id) = text(REQUEST) {
        return Some((TraceId::from_hex(id).ok()?, SpanId::INVALID));
    }
    let mut parts = text(TRACEPARENT)?.split('-').skip(1);
    Some((TraceId::from_hex(parts.next()?).ok()?, SpanId::from_hex(parts.next()?).ok()?))
}

/// Sends what arrives until no more can arrive.
async fn run(exporter: LogExporter, mut queue: mpsc::Receiver<Message>, left_out: &AtomicU64) {
    let mut is_failing = false;
    loop {
        let mut batch = Vec::new();
        if queue.recv_many(&mut batch, BATCH).await == 0 {
            return;
        }
        let is_last = |batch: &[Message]| matches!(batch.last(), Some(Message::Last(_)));
        let more = async {
            while batch.len() < BATCH && !is_last(&batch) {
                let room = BATCH - batch.len();
                if queue.recv_many(&mut batch, room).await == 0 {
                    return;
                }
            }
        };
        _ = tokio::time::timeout(GATHER, more).await;
        let lines: Vec<_> = batch.iter().filter_map(Message::line).collect();
        if lines.is_empty() {
            continue;
        }
        match exporter.export(LogBatch::new(&lines)).await {
            Err(error) => {
                left_out.fetch_add(lines.len() as u64, Ordering::Relaxed);
                if !replace(&mut is_failing, true) {
                    tracing::warn!(%error, "cannot send log lines to log.endpoint: they are left out there until it answers");
                }
            }
            Ok(()) if replace(&mut is_failing, false) => tracing::info!("log.endpoint takes log lines again"),
            Ok(()) => {}
        }
    }
}

impl Message {
    fn line(&self) -> Option<(&SdkLogRecord, &InstrumentationScope)> {
        match self {
            Self::Line(line) => Some((&line.record, &line.scope)),
            Self::Last(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use opentelemetry::logs::{Logger as _, LoggerProvider as _};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    const SERVICE: Service<'static> = Service { name: "canopy-test", instance: Some("n1") };

    /// A layer whose lines wait in this queue.
    fn layer(depth: usize, left_out: &'static AtomicU64) -> (Bridge, mpsc::Receiver<Message>) {
        let (lines, queue) = mpsc::channel(depth);
        (bridge(Queue::new(lines, left_out)), queue)
    }

    /// Catches a queue without a bound, and one that makes those wait who log.
    #[test]
    fn what_the_collector_does_not_take_is_left_out_and_counted() {
        static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
        let (layer, mut queue) = layer(2, &LEFT_OUT);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            (0..5).for_each(|i| tracing::info!(i, "a line"));
        });
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 3);
        assert!(queue.try_recv().is_ok() && queue.try_recv().is_ok() && queue.try_recv().is_err());
    }

    /// Catches a bound in lines alone: callers decide how long a line is.
    #[test]
    fn long_lines_wait_up_to_a_number_of_octets() {
        static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
        let (layer, mut queue) = layer(8, &LEFT_OUT);
        let subscriber = tracing_subscriber::registry().with(layer);
        let _until_the_end = tracing::subscriber::set_default(subscriber);
        let log = |name: String| tracing::info_span!("join", name).in_scope(|| tracing::info!("refused"));
        (0..4).for_each(|_| log("x".repeat(OCTETS / 3)));
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 2, "the name of the field and the text of the line count, too");
        // A short one still has room, and so has a long one once another is sent.
        log("x".to_owned());
        drop(queue.try_recv().unwrap());
        log("x".repeat(OCTETS / 3));
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 2);
        log("x".repeat(OCTETS));
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 3);
    }

    /// Catches a line about a request without the id of its trace, and another field of the name `id` that is taken for it.
    #[test]
    fn a_line_has_the_trace_of_its_request() {
        static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
        let (layer, mut queue) = layer(8, &LEFT_OUT);
        let (id, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            tracing::info_span!("request", request_id = %id).in_scope(|| tracing::info!("within a request"));
            tracing::info!(traceparent = format!("00-{id}-{span}-01"), "an update");
            tracing::info!(id, request_id = "none", "of none");
        });
        let mut next = || {
            let Message::Line(line) = queue.try_recv().unwrap() else { panic!("a line") };
            line.record.trace_context().map(|context| (context.trace_id.to_string(), context.span_id.to_string()))
        };
        assert_eq!(next(), Some((id.to_owned(), "0".repeat(16))));
        assert_eq!(next(), Some((id.to_owned(), span.to_owned())));
        assert_eq!(next(), None);
    }

    /// Catches a thread whose own lines make it send more of them, for ever.
    #[test]
    fn what_is_logged_about_sending_is_not_sent() {
        static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
        let (layer, mut queue) = layer(8, &LEFT_OUT);
        let subscriber = tracing_subscriber::registry().with(layer);
        let logs = std::thread::spawn(move || {
            tracing::subscriber::with_default(subscriber, || {
                tracing::info!("a line");
                sends();
                tracing::info!("about sending");
            });
        });
        logs.join().unwrap();
        assert!(queue.try_recv().is_ok() && queue.try_recv().is_err());
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 0, "they are not left out either");
    }

    /// Catches a collector that refuses whose lines nothing counts.
    #[test]
    fn lines_that_a_collector_refuses_are_counted() {
        static LEFT_OUT: AtomicU64 = AtomicU64::new(0);
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let exporter = exporter(&format!("http://{gone}"), &SERVICE, &runtime).unwrap();
        let (lines, queue) = mpsc::channel(8);
        let queue_of_lines = Queue::new(lines.clone(), &LEFT_OUT);
        let provider = SdkLoggerProvider::builder().with_log_processor(queue_of_lines).build();
        let logger = provider.logger("");
        for _ in 0..3 {
            logger.emit(logger.create_log_record());
        }
        let (done, wait) = channel();
        lines.try_send(Message::Last(done)).unwrap();
        drop((logger, provider, lines));
        runtime.block_on(run(exporter, queue, &LEFT_OUT));
        assert_eq!(LEFT_OUT.load(Ordering::Relaxed), 3);
        assert!(wait.recv().is_err(), "the last one is answered by being dropped");
    }
}
