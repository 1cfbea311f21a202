// SPDX-License-Identifier: Apache-2.0
//! The trace of a request: what its spans have in common (W3C Trace Context; OpenTelemetry's model of spans).

use std::fmt;

use canopy_units::{Monotonic, UnixTime};

use crate::request_id::RequestId;

/// Id of a span within its trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(u64);

impl SpanId {
    /// From random octets; `None` if all are zero.
    pub fn new(octets: [u8; 8]) -> Option<Self> {
        let id = u64::from_be_bytes(octets);
        (id != 0).then_some(Self(id))
    }

    /// Its octets.
    pub fn octets(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// A request whose spans are exported. Only such a request has one: nothing is measured for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Id of the request.
    pub id: RequestId,
    /// Its own span: the parent of all that is done for it.
    pub span: SpanId,
    /// When it arrived, on the controller's clock and on the wall clock.
    pub arrived: (Monotonic, UnixTime),
}

impl Trace {
    /// An instant on the wall clock of the request's arrival: spans keep their order and length if that is set meanwhile.
    pub fn wall(&self, at: Monotonic) -> UnixTime {
        let (arrived, wall) = self.arrived;
        wall + at.since(arrived)
    }
}

/// The span in which a caller sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the caller's trace, and of the request.
    pub id: RequestId,
    /// The caller's span.
    pub span: SpanId,
    /// The caller records its own spans, and wants those that follow.
    pub is_sampled: bool,
}

impl TraceParent {
    /// What a `traceparent` of any version has; a malformed one is as good as none (W3C Trace Context, sections 3.2.2 and 3.2.3).
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = parts.next()?;
        let is_hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?);
        let is_whole = version != "00" || parts.next().is_none();
        let parent = u64::from_str_radix(parent, 16).ok().filter(|_| is_hex(parent, 16));
        let span = SpanId::new(parent?.to_be_bytes())?;
        let is_sampled = u8::from_str_radix(flags, 16).ok().filter(|_| is_hex(flags, 2))? & 1 == 1;
        let is_known = is_hex(version, 2) && version != "ff" && is_whole;
        Some(Self { id: trace.parse().ok().filter(|_| is_known)?, span, is_sampled })
    }
}

/// As a `traceparent` whose spans are sampled (W3C Trace Context, section 3.2.2).
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{:016x}-01", self.id, self.span.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_trace_is_written_as_a_traceparent_and_keeps_its_wall_clock() {
        let arrived = (Monotonic::from_nanos(5), UnixTime::from_nanos(1_000));
        let (id, span) =
            (RequestId::new([0x4b; 16]).unwrap(), SpanId::new([0, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]).unwrap());
        let trace = Trace { id, span, arrived };
        assert_eq!(trace.to_string(), format!("00-{}-00f067aa0ba902b7-01", "4b".repeat(16)));
        assert_eq!(trace.wall(arrived.0 + Duration::from_nanos(7)), UnixTime::from_nanos(1_007));
        assert_eq!(trace.wall(Monotonic::START), arrived.1);
        assert_eq!((SpanId::new([0; 8]), SpanId::new([1; 8]).unwrap().octets()), (None, [1; 8]));
    }
}
