// SPDX-License-Identifier: Apache-2.0
//! Server-sent events of the controller, from an open answer.

use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;

use crate::failure::{Exit, Failure};

/// The controller sends a heartbeat every 5 s; without an event for so long, the connection is lost.
const SILENCE: Duration = Duration::from_secs(15);
/// Largest event, octets.
const MAX_EVENT: usize = 64 << 20;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Where a stream that is opened later continues.
    pub id: Option<String>,
    /// JSON.
    pub data: String,
}

/// A stream that is open.
pub struct Stream {
    body: Incoming,
    /// The connection lasts as long as this.
    _connection: SendRequest<Full<Bytes>>,
    received: Received,
}

impl Stream {
    pub(crate) fn new(body: Incoming, connection: SendRequest<Full<Bytes>>) -> Self {
        Self { body, _connection: connection, received: Received::default() }
    }

    /// The next event; `None` once the controller has ended the stream.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.received.next()? {
                return Ok(Some(event));
            }
            let lost = |why: String| Failure::new(Exit::Error, format!("the connection is lost: {why}"));
            let frame = tokio::time::timeout(SILENCE, self.body.frame()).await;
            let frame = frame.map_err(|_| lost(format!("nothing was received for {SILENCE:?}")))?;
            match frame {
                None => return Ok(None),
                Some(frame) => {
                    let frame = frame.map_err(|e| lost(e.to_string()))?;
                    self.received.octets.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                }
            }
        }
    }
}

/// What was received of events that are not complete.
#[derive(Default)]
struct Received {
    octets: Vec<u8>,
    /// Before this, there is no end of an event.
    searched: usize,
}

impl Received {
    fn next(&mut self) -> Result<Option<Event>, Failure> {
        let rest = self.octets.get(self.searched..).unwrap_or_default();
        let Some(at) = rest.windows(2).position(|pair| pair == b"\n\n") else {
            self.searched = self.octets.len().saturating_sub(1);
            if self.octets.len() > MAX_EVENT {
                return Err(Failure::new(Exit::Error, "the controller sent an event that is too large"));
            }
            return Ok(None);
        };
        let whole: Vec<u8> = self.octets.drain(..self.searched + at + 2).collect();
        self.searched = 0;
        Ok(Some(event(&String::from_utf8_lossy(&whole))))
    }
}

/// Lines of an event; this controller writes one line of data.
fn event(text: &str) -> Event {
    let mut event = Event { name: "message".into(), id: None, data: String::new() };
    for line in text.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
        match field {
            "event" => event.name = value,
            "id" => event.id = Some(value),
            "data" => event.data = value,
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an end of an event that falls between two frames.
    #[test]
    fn events_are_read_whatever_the_frames() {
        let text = "event: added\ndata: {\"a\":\"x: y\"}\n\nevent: synced\nid: 1f.0\ndata: {}\n\n: comment\n\n";
        let of = |name: &str, id: Option<&str>, data: &str| Event {
            name: name.into(),
            id: id.map(str::to_owned),
            data: data.into(),
        };
        let expected =
            [of("added", None, r#"{"a":"x: y"}"#), of("synced", Some("1f.0"), "{}"), of("message", None, "")];
        for size in 1..text.len() {
            let (mut received, mut events) = (Received::default(), Vec::new());
            for part in text.as_bytes().chunks(size) {
                received.octets.extend_from_slice(part);
                while let Some(event) = received.next().unwrap() {
                    events.push(event);
                }
            }
            assert_eq!(events, expected, "frames of {size} octets");
        }
    }
}
