// SPDX-License-Identifier: Apache-2.0
//! Long-haul Congestion Notification Packet, draft-tian-ccwg-long-haul-cnp-00 section 6.
//!
//! Twelve octets are the same in both formats:
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Cong. Level  |Act|  reserved |          Parameter            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                      Source QP Number                         |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |  Metric Type  |         Congestion Metric Value (24 bits)     |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~   Extension Header and Extension Objects (optional)           ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```
//!
//! - [`icmp`]: behind an ICMPv6 header of type [`ICMPV6_TYPE`], the default;
//! - [`roce`]: behind the BTH of a CNP that has E set, for endpoints that are known to accept it;
//! - [`extension`]: optional extensions, the same in both.
//!
//! The six reserved bits are zero on transmission and ignored on reception. Everything else must conform to the draft:
//! a Parameter beyond its action's range, or a QP number of more than 24 bits, is refused, because these packets are
//! instructions and carry no authentication.

mod action;
pub mod extension;
pub mod icmp;
mod metric;
pub mod roce;

pub use action::{Action, PERCENT_MAX};
pub use metric::{METRIC_VALUE_MAX, Metric};

use crate::bth::QPN_MAX;
use crate::error::{EmitError, ParseError, Problem};
use crate::wire::{be16, be24, be32, put24, room, split};

const HEADER: &str = "Long-haul CNP";

/// ICMPv6 Type: informational, from the range for private experimentation, until IANA assigns TBD1.
pub const ICMPV6_TYPE: u8 = 200;
/// Class-Num of the extension objects: from the private range of RFC 4884, until IANA assigns TBD2.
pub const CLASS_NUM: u8 = 247;

/// The twelve octets in place; the fields have been checked.
#[derive(Debug, Clone, Copy)]
pub struct LongHaulCnpView<'a> {
    fixed: &'a [u8; LongHaulCnp::LEN],
    action: Action,
    metric: Metric,
    payload: &'a [u8],
}

impl<'a> LongHaulCnpView<'a> {
    /// Reads the twelve octets from the front of `bytes`.
    ///
    /// Fails, naming the field, when `bytes` is short, Parameter is beyond its action's range (Notify: zero; Rate
    /// Reduce and Resume: at most 100), the Source QP Number needs more than 24 bits, or an ECN Marking Rate exceeds 100.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let (fixed, payload) = split::<{ LongHaulCnp::LEN }>(bytes, HEADER)?;
        let action = Action::from_wire(fixed[1], be16(fixed, 2)).map_err(|problem| wrong("Parameter", problem))?;
        check_qp(be32(fixed, 4)).map_err(|problem| wrong("Source QP Number", problem))?;
        let metric = Metric::from_wire(fixed[8], be24(fixed, 9));
        metric.check().map_err(|(field, problem)| wrong(field, problem))?;
        Ok(Self { fixed, action, metric, payload })
    }

    /// Congestion Level: 0 is none, 255 the worst.
    pub fn level(&self) -> u8 {
        self.fixed[0]
    }

    /// Action Flags and Parameter.
    pub fn action(&self) -> Action {
        self.action
    }

    /// Source QP Number, 24 bits: the QP at the traffic source that the CNP addresses.
    pub fn source_qp(&self) -> u32 {
        be32(self.fixed, 4)
    }

    /// Metric Type and Congestion Metric Value.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// All octets after the twelve.
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The fixed body of a Long-haul CNP, without extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LongHaulCnp {
    /// Congestion Level: 0 is none, 255 the worst.
    pub level: u8,
    /// Action Flags and Parameter.
    pub action: Action,
    /// Source QP Number (0..=0xffffff): the QP at the traffic source that the CNP addresses.
    pub source_qp: u32,
    /// Metric Type and Congestion Metric Value.
    pub metric: Metric,
}

impl LongHaulCnp {
    /// Octets of the fixed body.
    pub const LEN: usize = 12;

    /// Reads the twelve octets from the front of `bytes`. Fails as [`LongHaulCnpView::parse`] does.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        Ok(LongHaulCnpView::parse(bytes)?.into())
    }

    /// Writes the twelve octets to the front of `out`, reserved bits as zero; fails when `out` is short or a field is
    /// beyond its limits.
    pub fn emit(&self, out: &mut [u8]) -> Result<(), EmitError> {
        let out = room::<{ Self::LEN }>(out, HEADER)?;
        let wrong = |field, problem| EmitError { header: HEADER, field, problem };
        let (flags, parameter) = self.action.to_wire().map_err(|problem| wrong("Parameter", problem))?;
        check_qp(self.source_qp).map_err(|problem| wrong("Source QP Number", problem))?;
        self.metric.check().map_err(|(field, problem)| wrong(field, problem))?;
        let (metric_type, metric_value) = self.metric.to_wire();
        (out[0], out[1]) = (self.level, flags);
        out[2..4].copy_from_slice(&parameter.to_be_bytes());
        out[4..8].copy_from_slice(&self.source_qp.to_be_bytes());
        out[8] = metric_type;
        put24(&mut out[9..12], metric_value);
        Ok(())
    }
}

impl From<LongHaulCnpView<'_>> for LongHaulCnp {
    fn from(view: LongHaulCnpView<'_>) -> Self {
        Self { level: view.level(), action: view.action(), source_qp: view.source_qp(), metric: view.metric() }
    }
}

/// The field has 32 bits, a QP number 24.
fn check_qp(qp: u32) -> Result<(), Problem> {
    if qp <= QPN_MAX {
        return Ok(());
    }
    Err(Problem::OutOfRange { min: 0, max: u64::from(QPN_MAX), found: u64::from(qp) })
}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: HEADER, field, problem }
}

#[cfg(all(test, feature = "alloc"))]
mod tests;
