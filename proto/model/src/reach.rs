// SPDX-License-Identifier: Apache-2.0
//! What the host of a stalled receiver answers: evidence for why it acknowledges nothing.

use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::ids::Qpn;

/// Echo Requests to a host for one stall, at most.
pub const MAX_REQUESTS: u8 = 3;

/// What became of the ICMPv6 Echo Requests (RFC 4443 section 4) of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct EchoTally {
    /// Octets of a request, from its IPv6 header on.
    pub bytes: u16,
    /// Requests that were sent, at most two.
    pub requests: u8,
    /// Those with a reply.
    pub replies: u8,
}

/// What became of the Echo Requests to a host: a small one, one as large as the group's largest data packet, and one repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HostReach {
    /// The small ones.
    pub small: EchoTally,
    /// The large ones.
    pub large: EchoTally,
}

/// What a [`HostReach`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostVerdict {
    /// No request has a reply: the host is down or not reachable.
    Silent,
    /// Only the small ones have replies: the host's MTU.
    AnswersSmall,
    /// A large one has a reply: packets of data reach the host.
    AnswersData,
    /// Some small request has a reply, and too few large ones were sent to attribute it to their size.
    Unclear,
}

impl HostReach {
    /// Checks what a node reported.
    ///
    /// # Errors
    /// More replies than requests, or more requests than are ever sent; names the field.
    pub fn new(small: EchoTally, large: EchoTally) -> Result<Self, FieldError> {
        for (field, EchoTally { requests, replies, .. }) in [("small", small), ("large", large)] {
            if replies > requests {
                let detail = format!("{replies} is more than the {requests} requests");
                return Err(FieldError::new(format!("{field}.replies"), detail));
            }
        }
        let requests = small.requests.saturating_add(large.requests);
        if !(1..=MAX_REQUESTS).contains(&requests) {
            let detail = format!("{requests} requests of both sizes, a host gets 1..={MAX_REQUESTS}");
            return Err(FieldError::new("large.requests", detail));
        }
        Ok(Self { small, large })
    }

    /// What it shows.
    pub fn verdict(&self) -> HostVerdict {
        let Self { small, large } = self;
        match (small.replies, large.replies) {
            (0, 0) => HostVerdict::Silent,
            (_, 1..) => HostVerdict::AnswersData,
            // One large request may be lost like the small one was.
            (1.., 0) if small.replies == small.requests && large.requests > 1 => HostVerdict::AnswersSmall,
            (1.., 0) => HostVerdict::Unclear,
        }
    }

    /// Why a receiver with queue pair `qpn` on this host acknowledges nothing, in one sentence; lists what the answers do not distinguish.
    pub fn sentence(&self, host: impl std::fmt::Display, qpn: Qpn) -> String {
        let Self { small, large } = self;
        let requests = small.requests + large.requests;
        match self.verdict() {
            HostVerdict::Silent => format!(
                "{host} answers none of {requests} Echo Requests: the host is down or not reachable, unless it drops Echo Requests"
            ),
            HostVerdict::AnswersSmall => format!(
                "{host} answers Echo Requests of {} bytes but not of {}: its MTU is too small",
                small.bytes, large.bytes
            ),
            HostVerdict::AnswersData => format!(
                "{host} answers Echo Requests of {} bytes, so data reaches it: there is no queue pair {qpn}, or it is not ready to receive",
                large.bytes
            ),
            HostVerdict::Unclear => format!(
                "{host} answers {} of {} Echo Requests of {} bytes and {} of {} of {}: packets to it are lost, or its MTU is too small",
                small.replies, small.requests, small.bytes, large.replies, large.requests, large.bytes
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(small: (u8, u8), large: (u8, u8)) -> Result<HostReach, FieldError> {
        let tally = |bytes, (replies, requests)| EchoTally { bytes, requests, replies };
        HostReach::new(tally(64, small), tally(4180, large))
    }

    #[test]
    fn replies_show_how_far_packets_get() {
        let verdict = |small, large| reach(small, large).unwrap().verdict();
        assert_eq!(verdict((0, 2), (0, 1)), HostVerdict::Silent);
        assert_eq!(verdict((1, 1), (0, 2)), HostVerdict::AnswersSmall);
        for large in [(1, 1), (1, 2)] {
            assert_eq!(verdict((1, 1), large), HostVerdict::AnswersData);
        }
        assert_eq!(verdict((0, 1), (1, 1)), HostVerdict::AnswersData, "the small one was lost by chance");
        assert_eq!(verdict((1, 2), (0, 1)), HostVerdict::Unclear, "so may the large one have been");
        assert_eq!(verdict((1, 1), (0, 1)), HostVerdict::Unclear);
    }

    #[test]
    fn sentences_name_the_cause_and_no_more_than_two_suspects() {
        let qpn = Qpn::new("qpn", 0x77).unwrap();
        let text = |small, large| reach(small, large).unwrap().sentence("r3", qpn);
        assert_eq!(text((1, 1), (0, 2)), "r3 answers Echo Requests of 64 bytes but not of 4180: its MTU is too small");
        assert!(text((0, 2), (0, 1)).starts_with("r3 answers none of 3 Echo Requests: the host is down"));
        assert!(text((1, 1), (1, 1)).contains("there is no queue pair 119, or it is not ready to receive"));
        assert!(
            text((1, 2), (0, 1))
                .contains("1 of 2 Echo Requests of 64 bytes and 0 of 1 of 4180: packets to it are lost, or")
        );
    }

    #[test]
    fn impossible_counts_are_refused_by_field() {
        let field = |small, large| reach(small, large).unwrap_err().field;
        assert_eq!(field((2, 1), (0, 1)), "small.replies");
        assert_eq!(field((1, 1), (2, 1)), "large.replies");
        for (small, large) in [((0, 0), (0, 0)), ((0, 2), (0, 2)), ((0, 255), (0, 255))] {
            assert_eq!(field(small, large), "large.requests");
        }
        assert!(reach((0, 1), (0, 0)).is_ok());
    }
}
