// SPDX-License-Identifier: Apache-2.0
//! Typed views of maps.

use std::marker::PhantomData;

use libbpf_rs::{ErrorKind, MapCore, MapFlags};

use crate::batch::{batch, name};
use crate::error::{Context, Result};
use crate::plain::{Plain, bytes, read};

/// A map with keys `K` and values `V`.
pub struct Map<'a, K, V> {
    map: &'a dyn MapCore,
    flags: MapFlags,
    of: PhantomData<(K, V)>,
}

impl<'a, K: Plain, V: Plain> Map<'a, K, V> {
    pub(crate) fn new(map: &'a dyn MapCore) -> Self {
        Self { map, flags: MapFlags::ANY, of: PhantomData }
    }

    /// A map whose values have a lock: they are read under it.
    pub(crate) fn locked(map: &'a dyn MapCore) -> Self {
        Self { flags: MapFlags::LOCK, ..Self::new(map) }
    }

    /// The map's name.
    pub fn name(&self) -> String {
        name(self.map)
    }

    /// One value.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let value = self.map.lookup(bytes(key), self.flags).with_context(|| format!("reading map {}", self.name()))?;
        Ok(value.as_deref().and_then(read))
    }

    /// Adds or replaces an entry.
    ///
    /// # Errors
    /// The map is full, or the kernel refuses.
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        let written = self.map.update(bytes(key), bytes(value), MapFlags::ANY);
        written.with_context(|| format!("writing map {}", self.name()))
    }

    /// Deletes an entry; a missing one is no error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn delete(&self, key: &K) -> Result<()> {
        match self.map.delete(bytes(key)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            other => other.with_context(|| format!("deleting from map {}", self.name())),
        }
    }

    /// Entries that the map has room for.
    pub fn capacity(&self) -> u32 {
        self.map.max_entries()
    }

    /// All keys; as many system calls as keys.
    pub fn keys(&self) -> Vec<K> {
        self.map.keys().filter_map(|key| read(&key)).collect()
    }

    /// All entries of a hash map, in few system calls. Entries that are added or removed meanwhile may be missing.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn entries(&self) -> Result<Vec<(K, V)>> {
        batch(self.map, self.flags.bits(), 1)
            .map(|all| all.into_iter().map(|(key, mut v)| (key, v.remove(0))).collect())
    }
}

/// A hash map, or an array, with keys `K` and one value `V` for each processor.
pub struct PerCpu<'a, K, V> {
    map: &'a dyn MapCore,
    of: PhantomData<(K, V)>,
}

impl<'a, K: Plain, V: Plain> PerCpu<'a, K, V> {
    pub(crate) fn new(map: &'a dyn MapCore) -> Self {
        Self { map, of: PhantomData }
    }

    /// Entries that the map has room for; in an array they are 0, 1, and so on, and all exist.
    pub fn capacity(&self) -> u32 {
        self.map.max_entries()
    }

    /// Zeroes the values of all processors.
    ///
    /// # Errors
    /// The map is full, or the kernel refuses.
    pub fn zero(&self, key: &K) -> Result<()> {
        let processors = libbpf_rs::num_possible_cpus().context("counting processors")?;
        let zeros = vec![vec![0; size_of::<V>()]; processors];
        let written = self.map.update_percpu(bytes(key), &zeros, MapFlags::ANY);
        written.with_context(|| format!("writing map {}", name(self.map)))
    }

    /// The values of all processors; empty if there is no entry.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn get(&self, key: &K) -> Result<Vec<V>> {
        let values = self.map.lookup_percpu(bytes(key), MapFlags::ANY);
        let values = values.with_context(|| format!("reading map {}", name(self.map)))?;
        Ok(values.into_iter().flatten().filter_map(|v| read(&v)).collect())
    }

    /// Deletes an entry; a missing one is no error.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn delete(&self, key: &K) -> Result<()> {
        Map::<K, V>::new(self.map).delete(key)
    }

    /// All keys; as many system calls as keys.
    pub fn keys(&self) -> Vec<K> {
        Map::<K, V>::new(self.map).keys()
    }

    /// All entries, each with the values of all processors, in few system calls.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn entries(&self) -> Result<Vec<(K, Vec<V>)>> {
        let processors = libbpf_rs::num_possible_cpus().context("counting processors")?;
        batch(self.map, 0, processors)
    }
}
