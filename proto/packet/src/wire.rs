// SPDX-License-Identifier: Apache-2.0
//! Operations that every header needs: split off a header, reserve space for one, read and write big-endian integers.

use crate::error::{EmitError, ParseError, Problem};
use core::net::Ipv6Addr;

/// Splits a header of `N` octets off the front of `bytes`.
pub(crate) fn split<'a, const N: usize>(
    bytes: &'a [u8],
    header: &'static str,
) -> Result<(&'a [u8; N], &'a [u8]), ParseError> {
    bytes.split_first_chunk::<N>().ok_or(ParseError {
        header,
        field: "length",
        problem: Problem::Truncated { needed: N, available: bytes.len() },
    })
}

/// The first `N` octets of a buffer to write a header into.
pub(crate) fn room<'a, const N: usize>(out: &'a mut [u8], header: &'static str) -> Result<&'a mut [u8; N], EmitError> {
    let available = out.len();
    out.first_chunk_mut::<N>().ok_or(EmitError {
        header,
        field: "buffer",
        problem: Problem::Truncated { needed: N, available },
    })
}

/// Checks that a value fits a field of `bits` bits (1..=32).
pub(crate) fn fits(header: &'static str, field: &'static str, value: u32, bits: u32) -> Result<u32, EmitError> {
    let max = u32::MAX >> (32 - bits);
    if value <= max {
        return Ok(value);
    }
    let problem = Problem::OutOfRange { min: 0, max: u64::from(max), found: u64::from(value) };
    Err(EmitError { header, field, problem })
}

pub(crate) fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be24<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

pub(crate) fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

pub(crate) fn be64<const N: usize>(bytes: &[u8; N], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

pub(crate) fn addr<const N: usize>(bytes: &[u8; N], at: usize) -> Ipv6Addr {
    let high = u128::from(be64(bytes, at));
    Ipv6Addr::from_bits(high << 64 | u128::from(be64(bytes, at + 8)))
}

/// Writes the low 24 bits of `value`.
pub(crate) fn put24(out: &mut [u8], value: u32) {
    out.copy_from_slice(&value.to_be_bytes()[1..]);
}
