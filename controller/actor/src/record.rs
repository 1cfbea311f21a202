// SPDX-License-Identifier: Apache-2.0
//! The domain's records as the store holds them: JSON.

use canopy_controller_core::{Record, Write};
use canopy_store::Op;

use crate::error::RestoreError;

/// A write as an operation of the store.
pub(crate) fn op(write: &Write) -> Op {
    match write {
        Write::Put(record) => Op::Put { key: record.key(), value: encode(record) },
        Write::Delete { key } => Op::Delete { key: key.clone() },
    }
}

fn encode(record: &Record) -> Vec<u8> {
    // Records are structs of strings, numbers and maps with string or integer keys: serialising them cannot fail.
    serde_json::to_vec(record).expect("records have only string and integer keys")
}

/// The record that `value` contains; `None` if the key is not the domain's.
///
/// # Errors
/// The content is not that of a record at `key`.
pub(crate) fn decode(key: &str, value: &[u8]) -> Result<Option<Record>, RestoreError> {
    let mut json = serde_json::Deserializer::from_slice(value);
    let record = Record::read(key, &mut json).and_then(|record| match record {
        Some(_) => json.end().map(|()| record),
        None => Ok(None),
    });
    record.map_err(|source| RestoreError::Record { key: key.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_records_are_named_and_those_of_others_are_left_alone() {
        for (key, value) in
            [("group/g", "{}"), ("domain/state", "7"), ("topology/default", "not JSON"), ("member/g/h", "")]
        {
            let e = decode(key, value.as_bytes()).unwrap_err();
            assert_eq!(e.to_string(), format!("record {key:?} cannot be read"));
            assert!(std::error::Error::source(&e).is_some());
        }
        for key in ["leader/term", "domain/other", "groups"] {
            assert!(decode(key, b"7").unwrap().is_none(), "{key}");
        }
    }
}
