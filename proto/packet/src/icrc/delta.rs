// SPDX-License-Identifier: Apache-2.0
//! The ICRC of a rewritten packet from the ICRC it had; the arithmetic is explained at the head of [`super`].

use super::{Crc, HEADERS_LEN, mask};
use crate::bth::{Bth, QPN_MAX};
use crate::error::{ParseError, Problem};
use crate::ipv6::Ipv6;
use crate::udp::Udp;
use core::net::Ipv6Addr;

/// Octets of a packet that are replaced by the same number of others.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Their offset from the first octet of the IPv6 header.
    pub offset: usize,
    /// The octets before the change.
    pub old: &'a [u8],
    /// The octets after the change; as long as `old`.
    pub new: &'a [u8],
}

/// `icrc_new ^ icrc_old` of a packet after `changes`.
///
/// `covered` is the number of octets that the ICRC covers: from the IPv6 header to the ICRC itself. Bits that the ICRC
/// masks contribute nothing. Fails if a change alters its length or reaches beyond `covered`. Changes must not overlap:
/// each is a difference from the original packet.
pub fn delta(covered: usize, changes: &[Change<'_>]) -> Result<u32, ParseError> {
    changes.iter().try_fold(0, |sum, change| Ok(sum ^ change.delta(covered)?))
}

/// Difference of the registers directly after the 12th octet of the BTH, if only source, destination and Destination QP
/// (24 bits, upper bits ignored) change.
///
/// It depends on no other part of the packet, so it is computed once per rewrite and reused; see [`super`] for its use.
pub fn header_delta(
    old_src: Ipv6Addr,
    old_dst: Ipv6Addr,
    old_qpn: u32,
    new_src: Ipv6Addr,
    new_dst: Ipv6Addr,
    new_qpn: u32,
) -> u32 {
    let addr = |old: Ipv6Addr, new: Ipv6Addr| (old.to_bits() ^ new.to_bits()).to_be_bytes();
    let qpn = ((old_qpn ^ new_qpn) & QPN_MAX).to_be_bytes();
    let crc = Crc::ZERO.update(&addr(old_src, new_src)).update(&addr(old_dst, new_dst));
    // Equal, so zero in the difference: UDP and the first word of the BTH; then, behind the QPN, the PSN's word.
    crc.shift_zeros(Udp::LEN + 4).update(&qpn).shift_zeros(4).0
}

const _: () = assert!(Ipv6::LEN + Udp::LEN + Bth::LEN == HEADERS_LEN);

impl Change<'_> {
    fn delta(&self, covered: usize) -> Result<u32, ParseError> {
        if self.old.len() != self.new.len() {
            let (expected, found) = (self.old.len() as u64, self.new.len() as u64);
            return Err(wrong("length of a change", Problem::Expected { expected, found }));
        }
        let behind = self.offset.checked_add(self.old.len()).and_then(|end| covered.checked_sub(end));
        let Some(behind) = behind else {
            let (max, found) = (covered.saturating_sub(self.old.len()), self.offset as u64);
            let problem = Problem::OutOfRange { min: 0, max: max as u64, found };
            return Err(wrong("offset of a change", problem));
        };
        let pairs = self.old.iter().zip(self.new);
        let crc = pairs
            .enumerate()
            .fold(Crc::ZERO, |crc, (i, (old, new))| crc.update(&[(old ^ new) & !mask(self.offset + i)]));
        Ok(crc.shift_zeros(behind).0)
    }
}

fn wrong(field: &'static str, problem: Problem) -> ParseError {
    ParseError { header: "ICRC", field, problem }
}
