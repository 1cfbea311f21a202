// SPDX-License-Identifier: Apache-2.0
//! One packet of a group, captured: what arms it, and the headers that a node saw.

use std::num::NonZeroU32;
use std::time::Duration;

use canopy_units::UnixTime;

use crate::FieldError;
use crate::ids::{GroupId, Psn};

/// Minor version of the southbound contract from which on agents capture.
pub const MINOR_VERSION: u32 = 3;
/// Longest time for which a packet is waited for.
pub const MAX_WITHIN: Duration = Duration::from_secs(5);
/// Octets from the start of a frame that are captured at most. Never of the payload.
pub const MAX_HEAD: usize = 192;
/// Octets of the innermost headers: IPv6, UDP and BTH.
pub const INNER: usize = 60;
/// Longest name of an interface (IFNAMSIZ).
const MAX_PORT: usize = 15;

/// A packet that nodes wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOrder {
    /// Names the capture; frames bear it.
    pub id: NonZeroU32,
    /// The group.
    pub group: GroupId,
    /// PSN of the packet, as the source sends it.
    pub psn: Psn,
    /// How long it is waited for, at most [`MAX_WITHIN`].
    pub within: Duration,
}

impl CaptureOrder {
    /// Checks what a controller sent.
    ///
    /// # Errors
    /// The field that is not valid.
    pub fn new(id: u32, group: u32, psn: u32, within: Duration) -> Result<Self, FieldError> {
        let id = capture_id(id)?;
        let (group, psn) = (GroupId::new("group_id", group.into())?, Psn::new("psn", psn.into())?);
        Ok(Self { id, group, psn, within: within.min(MAX_WITHIN) })
    }
}

/// Where a node saw a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaptureDirection {
    /// As it arrived.
    In,
    /// A copy, as it left.
    Out,
}

/// The headers of a frame that a node saw: up to the BTH, and nothing behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    /// The capture.
    pub id: NonZeroU32,
    /// Whether it arrived or left.
    pub direction: CaptureDirection,
    /// Interface.
    pub port: String,
    /// When, on the node's clock.
    pub time: UnixTime,
    /// Octets of the whole frame.
    pub length: u32,
    /// Where the innermost IPv6 header is.
    pub inner_at: u32,
    /// The first octets, at most [`MAX_HEAD`].
    pub head: Vec<u8>,
    /// The innermost headers.
    pub inner: [u8; INNER],
}

impl CapturedFrame {
    /// Checks what a node reported.
    ///
    /// # Errors
    /// The field that is not valid.
    pub fn checked(self) -> Result<Self, FieldError> {
        let (headers, frame) = (u64::from(self.inner_at) + INNER as u64, u64::from(self.length));
        if headers > frame {
            let detail = format!("the headers end at {headers}, behind the {frame} octets of the frame");
            return Err(FieldError::new("inner_at", detail));
        }
        if self.head.len() as u64 != headers.min(MAX_HEAD as u64) {
            let detail = format!("{} octets, of headers of {headers}", self.head.len());
            return Err(FieldError::new("head", detail));
        }
        let named = 1..=MAX_PORT;
        if !named.contains(&self.port.len()) || !self.port.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
            return Err(FieldError::new("port", "is not the name of an interface"));
        }
        Ok(self)
    }
}

/// # Errors
/// It is 0.
pub fn capture_id(id: u32) -> Result<NonZeroU32, FieldError> {
    NonZeroU32::new(id).ok_or_else(|| FieldError::new("id", "is missing"))
}
