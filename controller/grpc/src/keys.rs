// SPDX-License-Identifier: Apache-2.0
//! The key with which each node is connected: a second agent in the name of a node has another one, however it got its certificate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use canopy_identity::KeyHash;

/// Watch streams of one node at once: of an agent one, and some that it has left.
const MAX_STREAMS: usize = 8;

/// Streams by node, all of one key.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<HashMap<String, (KeyHash, usize)>>>);

/// A stream of a node, until it is dropped.
pub(crate) struct Stream {
    node: String,
    all: Keys,
}

/// Why a stream was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotOpened {
    /// The node is connected with another key.
    OtherKey,
    /// It has [`MAX_STREAMS`].
    TooMany,
}

impl Keys {
    /// A stream of `node` with this key.
    pub(crate) fn open(&self, node: &str, key: KeyHash) -> Result<Stream, NotOpened> {
        let mut all = self.lock();
        let (own, streams) = all.entry(node.to_owned()).or_insert((key, 0));
        if *own != key {
            return Err(NotOpened::OtherKey);
        }
        if *streams >= MAX_STREAMS {
            return Err(NotOpened::TooMany);
        }
        *streams += 1;
        Ok(Stream { node: node.to_owned(), all: self.clone() })
    }

    /// Whether `node` is connected with another key.
    pub(crate) fn is_other(&self, node: &str, key: KeyHash) -> bool {
        self.lock().get(node).is_some_and(|(own, _)| *own != key)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (KeyHash, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        match all.get_mut(&self.node) {
            Some((_, streams)) if *streams > 1 => *streams -= 1,
            _ => _ = all.remove(&self.node),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Catches a reconnection that ends the agent's right to its name, and a name that is never given back.
    #[test]
    fn a_name_is_of_one_key_until_its_last_stream_ends() {
        let keys = Keys::default();
        let [a, b] = [KeyHash([1; 32]), KeyHash([2; 32])];
        let first = keys.open("n1", a).unwrap();
        // The agent connects again before the controller has noticed that its connection is gone.
        let second = keys.open("n1", a).unwrap();
        assert!(keys.open("n1", b).err() == Some(NotOpened::OtherKey) && keys.open("n2", b).is_ok());
        assert!(keys.is_other("n1", b) && !keys.is_other("n1", a) && !keys.is_other("n2", b));
        drop(first);
        assert!(keys.open("n1", b).is_err());
        drop(second);
        assert!(keys.open("n1", b).is_ok());
        let all: Vec<Stream> = (0..MAX_STREAMS).map(|_| keys.open("n1", a).ok().unwrap()).collect();
        assert_eq!(keys.open("n1", a).err(), Some(NotOpened::TooMany));
        drop(all);
        assert!(keys.lock().is_empty());
    }
}
