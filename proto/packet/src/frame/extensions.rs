// SPDX-License-Identifier: Apache-2.0
//! The headers between BTH and payload, IBTA volume 1 section 9.2, table of OpCodes.

use super::known;
use crate::aeth::Aeth;
use crate::atomic_eth::{AtomicAckEth, AtomicEth};
use crate::bth::Opcode;
use crate::cnp::Cnp;
use crate::error::{EmitError, ParseError, Problem};
use crate::ieth::Ieth;
use crate::immdt::ImmDt;
use crate::reth::Reth;

/// Extension headers of a packet, in wire order. The OpCode determines which are `Some`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Extensions {
    /// RDMA Extended Transport Header.
    pub reth: Option<Reth>,
    /// Atomic Extended Transport Header.
    pub atomic_eth: Option<AtomicEth>,
    /// ACK Extended Transport Header.
    pub aeth: Option<Aeth>,
    /// Atomic ACK Extended Transport Header.
    pub atomic_ack_eth: Option<AtomicAckEth>,
    /// Immediate data.
    pub immdt: Option<ImmDt>,
    /// Invalidate Extended Transport Header.
    pub ieth: Option<Ieth>,
    /// Body of a CNP.
    pub cnp: Option<Cnp>,
}

impl Extensions {
    /// Octets of the longest sequence: an AtomicETH.
    pub const MAX_LEN: usize = AtomicEth::LEN;

    /// Reads the headers that `opcode` requires from the front of `bytes`; also returns the octets after them. Fails if
    /// a header is truncated or the OpCode is neither RC nor CNP.
    pub fn parse(opcode: Opcode, bytes: &[u8]) -> Result<(Self, &[u8]), ParseError> {
        if !known(opcode) {
            let problem = Problem::Unsupported { found: u64::from(opcode.0) };
            return Err(ParseError { header: "BTH", field: "OpCode", problem });
        }
        let mut rest = bytes;
        let wanted = Wanted::by(opcode);
        let extensions = Self {
            reth: next(wanted.reth, &mut rest, Reth::LEN, Reth::parse)?,
            atomic_eth: next(wanted.atomic_eth, &mut rest, AtomicEth::LEN, AtomicEth::parse)?,
            aeth: next(wanted.aeth, &mut rest, Aeth::LEN, Aeth::parse)?,
            atomic_ack_eth: next(wanted.atomic_ack_eth, &mut rest, AtomicAckEth::LEN, AtomicAckEth::parse)?,
            immdt: next(wanted.immdt, &mut rest, ImmDt::LEN, ImmDt::parse)?,
            ieth: next(wanted.ieth, &mut rest, Ieth::LEN, Ieth::parse)?,
            cnp: next(wanted.cnp, &mut rest, Cnp::LEN, Cnp::parse)?,
        };
        Ok((extensions, rest))
    }

    /// Octets of the headers that are `Some`.
    pub fn wire_len(&self) -> usize {
        let len = |present: bool, len: usize| if present { len } else { 0 };
        len(self.reth.is_some(), Reth::LEN)
            + len(self.atomic_eth.is_some(), AtomicEth::LEN)
            + len(self.aeth.is_some(), Aeth::LEN)
            + len(self.atomic_ack_eth.is_some(), AtomicAckEth::LEN)
            + len(self.immdt.is_some(), ImmDt::LEN)
            + len(self.ieth.is_some(), Ieth::LEN)
            + len(self.cnp.is_some(), Cnp::LEN)
    }

    /// Writes the headers to the front of `out`; returns the number of octets written. Fails if `out` is short, or a
    /// header that `opcode` requires is `None`, or another one is `Some`.
    pub fn emit(&self, opcode: Opcode, out: &mut [u8]) -> Result<usize, EmitError> {
        self.check(opcode)?;
        let mut at = 0;
        let mut put = |len: usize, emit: &dyn Fn(&mut [u8]) -> Result<(), EmitError>| {
            emit(out.get_mut(at..).unwrap_or_default())?;
            at += len;
            Ok(())
        };
        self.reth.map_or(Ok(()), |header| put(Reth::LEN, &|out| header.emit(out)))?;
        self.atomic_eth.map_or(Ok(()), |header| put(AtomicEth::LEN, &|out| header.emit(out)))?;
        self.aeth.map_or(Ok(()), |header| put(Aeth::LEN, &|out| header.emit(out)))?;
        self.atomic_ack_eth.map_or(Ok(()), |header| put(AtomicAckEth::LEN, &|out| header.emit(out)))?;
        self.immdt.map_or(Ok(()), |header| put(ImmDt::LEN, &|out| header.emit(out)))?;
        self.ieth.map_or(Ok(()), |header| put(Ieth::LEN, &|out| header.emit(out)))?;
        self.cnp.map_or(Ok(()), |header| put(Cnp::LEN, &|out| header.emit(out)))?;
        Ok(at)
    }

    fn check(&self, opcode: Opcode) -> Result<(), EmitError> {
        if !known(opcode) {
            let problem = Problem::Unsupported { found: u64::from(opcode.0) };
            return Err(EmitError { header: "BTH", field: "OpCode", problem });
        }
        let wanted = Wanted::by(opcode);
        let pairs = [
            ("RETH", wanted.reth, self.reth.is_some()),
            ("AtomicETH", wanted.atomic_eth, self.atomic_eth.is_some()),
            ("AETH", wanted.aeth, self.aeth.is_some()),
            ("AtomicAckETH", wanted.atomic_ack_eth, self.atomic_ack_eth.is_some()),
            ("ImmDt", wanted.immdt, self.immdt.is_some()),
            ("IETH", wanted.ieth, self.ieth.is_some()),
            ("CNP", wanted.cnp, self.cnp.is_some()),
        ];
        match pairs.into_iter().find(|(_, wanted, present)| wanted != present) {
            None => Ok(()),
            Some((field, wanted, _)) => {
                let problem = if wanted { Problem::Missing } else { Problem::Unwanted };
                Err(EmitError { header: opcode.name(), field, problem })
            }
        }
    }
}

/// The headers that an OpCode requires.
struct Wanted {
    reth: bool,
    atomic_eth: bool,
    aeth: bool,
    atomic_ack_eth: bool,
    immdt: bool,
    ieth: bool,
    cnp: bool,
}

impl Wanted {
    fn by(opcode: Opcode) -> Self {
        Self {
            reth: opcode.has_reth(),
            atomic_eth: opcode.has_atomic_eth(),
            aeth: opcode.has_aeth(),
            atomic_ack_eth: opcode.has_atomic_ack_eth(),
            immdt: opcode.has_immdt(),
            ieth: opcode.has_ieth(),
            cnp: opcode == Opcode::CNP,
        }
    }
}

fn next<T>(
    wanted: bool,
    rest: &mut &[u8],
    len: usize,
    parse: fn(&[u8]) -> Result<T, ParseError>,
) -> Result<Option<T>, ParseError> {
    if !wanted {
        return Ok(None);
    }
    let header = parse(rest)?;
    *rest = &rest[len..];
    Ok(Some(header))
}
