// SPDX-License-Identifier: Apache-2.0
//! Bodies of calls: a message is passed on when all of it is there, in time and within its limits, and nothing is decoded of any other.
//!
//! A message is a flag octet, its length in four octets, and its content (gRPC over HTTP/2, Length-Prefixed-Message).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use canopy_daemon::limits::{Account, Limit, Place};
use http_body::{Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;

use crate::caller::Source;
use crate::items;

/// Largest request message, bytes: agents send at most this much.
pub const MAX_REQUEST_BYTES: usize = 4 << 20;
/// A message must be whole so long after its first octet; all of a call that has one so long after its beginning.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// What a part of a message costs besides its octets: parts may be of one octet each.
const PART: usize = 64;
/// Flag and length.
const PREFIX: usize = 5;
/// The only call with more than one message.
const TELEMETRY: &str = "/canopy.v1.NodeService/StreamTelemetry";
const REPORT: &str = "/canopy.v1.NodeService/Report";

/// What is received of a call.
pub(crate) struct Whole {
    body: Body,
    account: Account<Source>,
    items: &'static [items::Items],
    /// More messages may follow, at any time.
    is_stream: bool,
    received: BytesMut,
    /// Runs while a message is awaited that has to come.
    until: Option<Pin<Box<Sleep>>>,
    has_ended: bool,
    has_passed_on: bool,
}

impl Whole {
    pub(crate) fn new(body: Body, path: &str, account: Account<Source>) -> Self {
        let (items, is_stream) = match path {
            TELEMETRY => (items::TELEMETRY, true),
            REPORT => (items::REPORT, false),
            _ => (&[][..], false),
        };
        let until = (!is_stream).then(|| Box::pin(sleep(MESSAGE_TIMEOUT)));
        Self {
            body,
            account,
            items,
            is_stream,
            received: BytesMut::new(),
            until,
            has_ended: false,
            has_passed_on: false,
        }
    }

    /// The length of the message that is being received, with its prefix.
    fn length(&self) -> Option<usize> {
        let prefix = self.received.first_chunk::<PREFIX>()?;
        let [_, a, b, c, d] = *prefix;
        Some(PREFIX + u32::from_be_bytes([a, b, c, d]) as usize)
    }

    /// The next message, if all of it is there. One that is too long is passed on as it is, to be refused by its prefix.
    fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let Some(length) = self.length() else { return Ok(None) };
        if length > PREFIX + MAX_REQUEST_BYTES {
            return Ok(Some(self.received.split().freeze()));
        }
        if self.received.len() < length {
            return Ok(None);
        }
        let message = self.received.split_to(length).freeze();
        if self.received.len() < length {
            // In a buffer of its own, so that it does not hold that of the message.
            self.received = BytesMut::from(&self.received[..]);
        }
        items::check(&message[PREFIX..], self.items)?;
        if self.is_stream {
            self.until = (!self.received.is_empty()).then(|| Box::pin(sleep(MESSAGE_TIMEOUT)));
        }
        self.has_passed_on = true;
        Ok(Some(message))
    }

    fn take(&mut self, part: &Bytes) -> Result<(), Status> {
        self.account.take(part.len() + PART).map_err(|over| {
            Limit::RequestOctets.refuse();
            Status::resource_exhausted(format!("octets of messages: {over}: try again later"))
        })?;
        if self.until.is_none() {
            self.until = Some(Box::pin(sleep(MESSAGE_TIMEOUT)));
        }
        self.received.extend_from_slice(part);
        Ok(())
    }
}

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        // What was passed on before has been taken in by now.
        if std::mem::take(&mut this.has_passed_on) {
            let rest = this.received.len();
            this.account.keep(if rest == 0 { 0 } else { rest + PART });
        }
        loop {
            if let Some(message) = this.next()? {
                return Poll::Ready(Some(Ok(Frame::data(message))));
            }
            if this.has_ended {
                // What is not whole is passed on, to be refused as that.
                let rest = this.received.split().freeze();
                return Poll::Ready((!rest.is_empty()).then(|| Ok(Frame::data(rest))));
            }
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(part) => this.take(&part)?,
                    Err(other) => return Poll::Ready(Some(Ok(other))),
                },
                Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
                Poll::Ready(None) => this.has_ended = true,
                Poll::Pending => break,
            }
        }
        if let Some(until) = &mut this.until
            && until.as_mut().poll(cx).is_ready()
        {
            Limit::MessageTime.refuse();
            let late = format!("the message is not whole {MESSAGE_TIMEOUT:?} after it began");
            return Poll::Ready(Some(Err(Status::deadline_exceeded(late))));
        }
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.received.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

/// An answer whose call has its place until it ends.
pub(crate) struct Held {
    body: Body,
    _place: Option<Place<Source>>,
}

impl Held {
    pub(crate) fn new(body: Body, place: Option<Place<Source>>) -> Self {
        Self { body, _place: place }
    }
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use canopy_control::pb;
    use canopy_daemon::limits::Budget;
    use prost::Message;
    use tonic::Code;

    use super::*;

    /// What a client has sent; more may come, unless it has ended.
    struct Sent(VecDeque<Bytes>, bool);

    impl http_body::Body for Sent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            match self.0.pop_front() {
                Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
                None if self.1 => Poll::Ready(None),
                None => Poll::Pending,
            }
        }
    }

    fn message(content: &[u8]) -> Vec<u8> {
        [&[0][..], &(content.len() as u32).to_be_bytes(), content].concat()
    }

    fn whole(parts: &[&[u8]], has_ended: bool, path: &str, budget: &Budget<Source>) -> Whole {
        let parts = parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
        Whole::new(Body::new(Sent(parts, has_ended)), path, budget.open(Source::Machine))
    }

    async fn next(whole: &mut Whole) -> Option<Result<Bytes, Code>> {
        use http_body::Body as _;
        let frame = poll_fn(|cx| Pin::new(&mut *whole).poll_frame(cx)).await?;
        Some(frame.map(|frame| frame.into_data().unwrap()).map_err(|status| status.code()))
    }

    #[tokio::test]
    async fn messages_are_passed_on_one_by_one_and_whole() {
        let budget = Budget::new(1000, 500);
        let (first, third) = (message(b"\x0A\x03abc"), message(b"\x0A\x03xyz"));
        let all = [&first[..], &message(b""), &third].concat();
        let octets: Vec<&[u8]> = all.chunks(1).collect();
        for parts in [vec![&all[..]], all.chunks(7).collect(), octets[..6].to_vec()] {
            let is_whole = parts.len() < 6;
            let mut whole = whole(&parts, true, TELEMETRY, &budget);
            if is_whole {
                for wanted in [first.clone(), message(b""), third.clone()] {
                    assert_eq!(next(&mut whole).await, Some(Ok(wanted.into())));
                }
            } else {
                // What is not whole is refused by who decodes it.
                assert_eq!(next(&mut whole).await, Some(Ok(Bytes::copy_from_slice(&all[..6]))));
            }
            assert_eq!(next(&mut whole).await, None);
        }
    }

    /// Catches octets that cost nothing, parts of one octet that cost no more than that, and what is never given back.
    #[tokio::test]
    async fn octets_are_counted_until_the_message_was_taken_in() {
        let budget = Budget::new(4000, 1000);
        let long = message(&[7; 900]);
        let mut stream = whole(&[&long, &long, &long], true, TELEMETRY, &budget);
        for _ in 0..3 {
            assert_eq!(next(&mut stream).await, Some(Ok(long.clone().into())));
        }
        // The last one is counted until the next one is asked for.
        assert_eq!(next(&mut whole(&[&long], true, TELEMETRY, &budget)).await, Some(Err(Code::ResourceExhausted)));
        assert_eq!(next(&mut stream).await, None);
        let stalled = whole(&[&long[..800]], false, TELEMETRY, &budget);
        let mut stalled = Box::pin(stalled);
        assert!(futures::poll!(poll_fn(|cx| http_body::Body::poll_frame(stalled.as_mut(), cx))).is_pending());
        let mut other = whole(&[&long], true, TELEMETRY, &budget);
        assert_eq!(next(&mut other).await, Some(Err(Code::ResourceExhausted)));
        drop((stalled, other));
        assert_eq!(next(&mut whole(&[&long], true, TELEMETRY, &budget)).await, Some(Ok(long.clone().into())));
        let octets: Vec<&[u8]> = long.chunks(1).collect();
        assert_eq!(next(&mut whole(&octets, true, TELEMETRY, &budget)).await, Some(Err(Code::ResourceExhausted)));
    }

    /// Catches charges that grow with a stream, where no part ends with a message: parts are as long as the client's buffers, whatever is in them.
    #[tokio::test]
    async fn a_part_that_ends_in_the_next_message_is_counted_while_that_is_not_taken_in() {
        let budget = Budget::new(4000, 1000);
        let one = message(&[7; 300]);
        let sent = [&one[..]; 20].concat();
        let mut stream = whole(&sent.chunks(404).collect::<Vec<_>>(), true, TELEMETRY, &budget);
        for n in 0..20 {
            assert_eq!(next(&mut stream).await, Some(Ok(one.clone().into())), "message {n}");
            assert!(stream.received.capacity() < 1000, "message {n} holds the buffer of those before");
        }
        assert_eq!(next(&mut stream).await, None);
    }

    /// Catches a call that waits for good, and a stream that ends because its next message is not due.
    #[tokio::test(start_paused = true)]
    async fn a_message_is_there_in_time() {
        let budget = Budget::new(4000, 1000);
        let long = message(&[7; 100]);
        for (path, sent) in [(TELEMETRY, &long[..50]), (REPORT, &[][..]), (REPORT, &long[..50])] {
            let mut whole = whole(&[sent], false, path, &budget);
            assert_eq!(next(&mut whole).await, Some(Err(Code::DeadlineExceeded)), "{path} {}", sent.len());
        }
        // The first sample of a stream may be due in an hour.
        let mut silent = whole(&[], false, TELEMETRY, &budget);
        assert!(tokio::time::timeout(MESSAGE_TIMEOUT * 10, next(&mut silent)).await.is_err());
        let mut idle = whole(&[&long], false, TELEMETRY, &budget);
        assert!(next(&mut idle).await.unwrap().is_ok());
        let begun = [&long[..], &long[..9]].concat();
        let mut begins = whole(&[&begun], false, TELEMETRY, &budget);
        assert!(next(&mut begins).await.unwrap().is_ok());
        assert_eq!(
            next(&mut begins).await,
            Some(Err(Code::DeadlineExceeded)),
            "the second one has begun with the first"
        );
        let more = tokio::time::timeout(MESSAGE_TIMEOUT * 10, next(&mut idle)).await;
        assert!(more.is_err(), "a stream ended between two messages: {more:?}");
        // A call with one message has to end.
        let mut endless = whole(&[&long], false, REPORT, &budget);
        assert!(next(&mut endless).await.unwrap().is_ok());
        assert_eq!(next(&mut endless).await, Some(Err(Code::DeadlineExceeded)));
    }

    /// Catches a path that is not that of the call.
    #[tokio::test]
    async fn items_are_counted_in_the_calls_that_have_them() {
        let budget = Budget::new(8 << 20, 8 << 20);
        let report = pb::ReportRequest { errors: vec![Default::default(); 20_000], ..Default::default() };
        let sample = pb::StreamTelemetryRequest { groups: vec![Default::default(); 20_000], ..Default::default() };
        for (path, content) in [(REPORT, report.encode_to_vec()), (TELEMETRY, sample.encode_to_vec())] {
            let mut whole = whole(&[&message(&content)], true, path, &budget);
            assert_eq!(next(&mut whole).await, Some(Err(Code::ResourceExhausted)), "{path}");
        }
    }
}
