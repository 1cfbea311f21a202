// SPDX-License-Identifier: Apache-2.0
//! Commands that share a commit.

use std::collections::BTreeMap;

use canopy_store::{MAX_OPS, ORDINARY_OCTETS, Op};
use tokio::sync::oneshot;

use crate::{CommandError, Done};

pub(crate) type Answer = oneshot::Sender<Result<Done, CommandError>>;

/// Commands that were applied and have their commit before them; nothing of them was published.
#[derive(Default)]
pub(crate) struct Batch {
    /// By key; a later write of a key replaces an earlier one.
    pub(crate) ops: BTreeMap<String, Op>,
    octets: usize,
    pub(crate) answers: Vec<(Answer, Result<Done, CommandError>)>,
    pub(crate) rewires: bool,
}

impl Batch {
    /// Nothing is to be stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(crate) fn has_room(&self, ops: &[Op]) -> bool {
        let new = ops.iter().filter(|op| !self.ops.contains_key(op.key())).count();
        self.ops.len() + new <= MAX_OPS && self.octets + octets(ops) <= ORDINARY_OCTETS
    }

    pub(crate) fn add(&mut self, ops: Vec<Op>) {
        self.octets += octets(&ops);
        self.ops.extend(ops.into_iter().map(|op| (op.key().to_owned(), op)));
    }
}

fn octets(ops: &[Op]) -> usize {
    ops.iter().map(Op::octets).sum()
}
