// SPDX-License-Identifier: Apache-2.0
//! A store in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::store::keys_below;
use crate::{Op, RESTORE_GAP, Revision, Snapshot, Store, StoreError, check_ops};

/// Keeps all entries in memory; not durable.
#[derive(Default)]
pub struct MemStore(Mutex<State>);

#[derive(Default)]
struct State {
    revision: Revision,
    entries: BTreeMap<String, Vec<u8>>,
}

impl MemStore {
    /// An empty store at revision 0.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        self.0.lock().map_err(|_| StoreError::failed("locking", "a thread panicked while writing"))
    }
}

impl Store for MemStore {
    fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.state()?.revision)
    }

    fn commit(&self, expected: Revision, ops: &[Op]) -> Result<Revision, StoreError> {
        check_ops(ops)?;
        let mut state = self.state()?;
        if state.revision != expected {
            return Err(StoreError::Conflict { expected, actual: state.revision });
        }
        for op in ops {
            match op {
                Op::Put { key, value } => state.entries.insert(key.clone(), value.clone()),
                Op::Delete { key } => state.entries.remove(key),
            };
        }
        state.revision += 1;
        Ok(state.revision)
    }

    fn scan(&self, prefix: &str) -> Result<Snapshot, StoreError> {
        let state = self.state()?;
        let entries = state.entries.range(prefix.to_owned()..).take_while(|(k, _)| k.starts_with(prefix));
        Ok(Snapshot { revision: state.revision, entries: entries.map(|(k, v)| (k.clone(), v.clone())).collect() })
    }

    fn newest(&self, prefix: &str, below: Option<&str>, limit: usize) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let state = self.state()?;
        let Some(keys) = keys_below(prefix, below) else { return Ok(Vec::new()) };
        let newest = state.entries.range(keys).rev().take(limit);
        Ok(newest.map(|(k, v)| (k.clone(), v.clone())).collect())
    }

    fn import(&self, snapshot: &Snapshot) -> Result<Revision, StoreError> {
        let mut state = self.state()?;
        if !state.entries.is_empty() {
            return Err(StoreError::NotEmpty(state.entries.len()));
        }
        state.entries = snapshot.entries.iter().cloned().collect();
        state.revision = state.revision.max(snapshot.revision) + RESTORE_GAP;
        Ok(state.revision)
    }
}
