// SPDX-License-Identifier: Apache-2.0
//! Records of change sets in the store, and their keys.

use serde::Serialize;

/// Octets of one record of several resources; a larger resource has one of its own.
pub(crate) const RECORD: usize = 256 << 10;
/// Prefix of all records of change sets.
const PREFIX: &str = "change-set/";

pub(crate) fn serialized(record: &impl Serialize) -> Vec<u8> {
    // Structs of strings, numbers and JSON values: serialising them cannot fail.
    serde_json::to_vec(record).expect("a record is JSON")
}

/// Prefix of the records of a set.
pub(super) fn prefix(number: u64) -> String {
    format!("{PREFIX}{number:016x}/")
}

pub(crate) fn state_key(number: u64) -> String {
    format!("{}state", prefix(number))
}

/// Prefix of what a set is to write.
pub(super) fn items(number: u64) -> String {
    format!("{}item/", prefix(number))
}

/// The record that begins with this item.
pub(crate) fn item_key(number: u64, first: usize) -> String {
    format!("{}{first:08x}", items(number))
}

pub(crate) fn before_key(number: u64, sequence: u64) -> String {
    format!("{}before/{sequence:08x}", prefix(number))
}

pub(super) fn parsed(key: &str) -> Option<(u64, &str)> {
    let (number, rest) = key.strip_prefix(PREFIX)?.split_once('/')?;
    Some((u64::from_str_radix(number, 16).ok()?, rest))
}
