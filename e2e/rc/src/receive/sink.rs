// SPDX-License-Identifier: Apache-2.0
//! The sink of delivered bytes: hashes them in the order of delivery, writes WRITEs to memory and SENDs to a file.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use sha2::{Digest, Sha256};

use crate::responder::{Delivery, Place};

/// Hashes and stores deliveries.
#[derive(Debug)]
pub struct Sink {
    memory: Vec<u8>,
    out: Option<BufWriter<File>>,
    sha256: Sha256,
    immediates: u64,
}

impl Sink {
    /// A sink with `memory` bytes of zero for WRITEs, and a file for what is received.
    pub fn new(memory: usize, out: Option<File>) -> Self {
        Self { memory: vec![0; memory], out: out.map(BufWriter::new), sha256: Sha256::new(), immediates: 0 }
    }

    /// Stores a delivery. Fails if writing the file fails, or if a WRITE is outside the memory.
    pub fn deliver(&mut self, delivery: &Delivery<'_>) -> io::Result<()> {
        self.immediates += u64::from(delivery.immediate.is_some());
        self.sha256.update(delivery.payload);
        match (delivery.place, &mut self.out) {
            (Place::Stream, Some(out)) => out.write_all(delivery.payload),
            (Place::Stream, None) => Ok(()),
            (Place::Memory(offset), _) => self.store(offset, delivery.payload),
        }
    }

    /// Flushes to the file: what is buffered, and the memory if there is any.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(mut out) = self.out.take() {
            out.write_all(&self.memory)?;
            out.flush()?;
        }
        Ok(())
    }

    /// SHA-256 of all bytes in the order of their delivery, in hexadecimal.
    pub fn sha256(&self) -> String {
        hex::encode(self.sha256.clone().finalize())
    }

    /// SHA-256 of the memory, in hexadecimal, if there is any. Equal to [`Sink::sha256`] when the WRITEs filled it once,
    /// in order.
    pub fn memory_sha256(&self) -> Option<String> {
        (!self.memory.is_empty()).then(|| hex::encode(Sha256::digest(&self.memory)))
    }

    /// Deliveries with immediate data.
    pub fn immediates(&self) -> u64 {
        self.immediates
    }

    fn store(&mut self, offset: u64, payload: &[u8]) -> io::Result<()> {
        let outside = || io::Error::other(format!("a WRITE at offset {offset} is outside the memory"));
        let start = usize::try_from(offset).map_err(|_| outside())?;
        let end = start.checked_add(payload.len()).ok_or_else(outside)?;
        self.memory.get_mut(start..end).ok_or_else(outside)?.copy_from_slice(payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(place: Place, payload: &[u8]) -> Delivery<'_> {
        Delivery { place, payload, immediate: Some(1), ends_message: true }
    }

    #[test]
    fn sends_go_to_the_file_in_order_and_both_hashes_cover_the_right_bytes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut sink = Sink::new(0, Some(file.reopen().unwrap()));
        sink.deliver(&delivery(Place::Stream, b"ab")).unwrap();
        sink.deliver(&delivery(Place::Stream, b"c")).unwrap();
        sink.finish().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"abc");
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sink.sha256(), abc);
        assert_eq!(sink.memory_sha256(), None);
        assert_eq!(sink.immediates(), 2);
    }

    #[test]
    fn writes_go_to_their_offset_and_nowhere_else() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut sink = Sink::new(3, Some(file.reopen().unwrap()));
        sink.deliver(&delivery(Place::Memory(1), b"bc")).unwrap();
        sink.deliver(&delivery(Place::Memory(0), b"a")).unwrap();
        assert!(sink.deliver(&delivery(Place::Memory(2), b"xy")).is_err());
        assert!(sink.deliver(&delivery(Place::Memory(u64::MAX), b"xy")).is_err());
        sink.finish().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"abc");
        assert_eq!(sink.memory_sha256(), Some(hex::encode(Sha256::digest(b"abc"))));
    }
}
