// SPDX-License-Identifier: Apache-2.0
//! The logical backup: one header line, then one JSON line per entry, so that an operator can read and repair it.
//!
//! ```text
//! {"format":"canopy-store/1","revision":42,"entries":1,"sha256":"<of revision, newline and all bytes after this line>"}
//! {"key":"group/train-7","text":"..."}        or "hex" for a value that is not UTF-8
//! ```

pub(crate) mod files;

use std::io::{self, BufRead, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::format::FORMAT;
use crate::{Revision, StoreError};

/// What a header's format begins with; behind it is that of the entries.
const NAME: &str = "canopy-store/";

/// Entries of a store at one revision, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision that the entries were read at.
    pub revision: Revision,
    /// Keys and values.
    pub entries: Vec<(String, Vec<u8>)>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    format: String,
    revision: Revision,
    entries: usize,
    sha256: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

impl Snapshot {
    /// Writes the snapshot with its checksum.
    ///
    /// # Errors
    /// The writer failed.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        self.write_as(out, FORMAT)
    }

    /// The same for entries of this format.
    pub(crate) fn write_as(&self, out: &mut dyn Write, format: u32) -> io::Result<()> {
        let mut body = Vec::new();
        for (key, value) in &self.entries {
            let line = match std::str::from_utf8(value) {
                Ok(text) => Line { key: key.clone(), text: Some(text.to_owned()), hex: None },
                Err(_) => Line { key: key.clone(), text: None, hex: Some(hex::encode(value)) },
            };
            serde_json::to_writer(&mut body, &line)?;
            body.push(b'\n');
        }
        let sha256 = checksum(self.revision, &body);
        let format = format!("{NAME}{format}");
        let header = Header { format, revision: self.revision, entries: self.entries.len(), sha256 };
        let header = serde_json::to_string(&header)?;
        writeln!(out, "{header}").and_then(|()| out.write_all(&body)).and_then(|()| out.flush())
    }

    /// Reads a snapshot and checks format, count and checksum.
    ///
    /// # Errors
    /// [`StoreError::Snapshot`] naming what is invalid.
    pub fn read(input: &mut dyn BufRead) -> Result<Self, StoreError> {
        Ok(Self::read_as(input, FORMAT)?.1)
    }

    /// As a version that reads this format at most. Returns the format of the entries, too.
    pub(crate) fn read_as(input: &mut dyn BufRead, known: u32) -> Result<(u32, Self), StoreError> {
        let bad = |e: &dyn std::fmt::Display| StoreError::Snapshot(format!("is damaged: {e}"));
        let mut first = String::new();
        input.read_line(&mut first).map_err(|e| bad(&e))?;
        let header: Header = serde_json::from_str(&first).map_err(|e| bad(&format!("header: {e}")))?;
        let format = header.format.strip_prefix(NAME).and_then(|format| format.parse().ok());
        let Some(format) = format.filter(|format| (1..=known).contains(format)) else {
            let detail = format!("has format {:?}, and this version reads {NAME}{known} at most", header.format);
            return Err(StoreError::Snapshot(detail));
        };
        let mut body = Vec::new();
        input.read_to_end(&mut body).map_err(|e| bad(&e))?;
        if checksum(header.revision, &body) != header.sha256 {
            return Err(bad(&"its checksum does not match its content"));
        }
        let mut entries = Vec::with_capacity(header.entries.min(1 << 20));
        for line in body.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let line: Line = serde_json::from_slice(line).map_err(|e| bad(&format!("entry {}: {e}", entries.len())))?;
            let value = match (line.text, line.hex) {
                (Some(text), None) => text.into_bytes(),
                (None, Some(h)) => hex::decode(h).map_err(|e| bad(&format!("entry {}: {e}", entries.len())))?,
                _ => return Err(bad(&format!("entry {} needs either text or hex", entries.len()))),
            };
            entries.push((line.key, value));
        }
        if entries.len() != header.entries {
            return Err(bad(&format!("{} entries, the header declares {}", entries.len(), header.entries)));
        }
        Ok((format, Self { revision: header.revision, entries }))
    }
}

fn checksum(revision: Revision, body: &[u8]) -> String {
    let mut sha = Sha256::new();
    sha.update(format!("{revision}\n"));
    sha.update(body);
    hex::encode(sha.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(s: &Snapshot) -> Vec<u8> {
        let mut out = Vec::new();
        s.write(&mut out).unwrap();
        out
    }

    #[test]
    fn what_was_written_is_read_and_any_flipped_byte_is_found() {
        let s = Snapshot {
            revision: 7,
            entries: vec![("a".into(), b"{\"x\":1}\n".to_vec()), ("b".into(), vec![0xFF, 0x00])],
        };
        let bytes = written(&s);
        assert_eq!(Snapshot::read(&mut bytes.as_slice()).unwrap(), s);
        for i in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[i] ^= 0x01;
            assert!(Snapshot::read(&mut damaged.as_slice()).is_err(), "byte {i}");
        }
        assert!(Snapshot::read(&mut &bytes[..bytes.len() - 1]).is_err());
        assert!(Snapshot::read(&mut [].as_slice()).is_err());
    }
}
