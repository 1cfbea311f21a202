// SPDX-License-Identifier: Apache-2.0
//! The records of a start: each takes a higher term than all before it.

use canopy_store::Op;

/// The record of the term.
pub(crate) const TERM_KEY: &str = "controller/term";

/// The record of the store's revision at the last start: a restore or an import is behind it by [`canopy_store::RESTORE_GAP`] and more.
pub(crate) const STARTED_KEY: &str = "controller/started";

/// What a start writes, and its term.
pub(crate) fn start_ops(revision: u64, last: u64) -> (u64, Vec<Op>) {
    let term = (revision + 1).max(last + 1);
    let digits = |number: u64| number.to_string().into_bytes();
    let ops = vec![
        Op::Put { key: TERM_KEY.into(), value: digits(term) },
        Op::Put { key: STARTED_KEY.into(), value: digits(revision) },
    ];
    (term, ops)
}
