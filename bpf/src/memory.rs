// SPDX-License-Identifier: Apache-2.0
//! What the maps of the node's programs take of the kernel's memory, which counts towards the memory limit of the agent.

use libbpf_rs::MapType;

use crate::error::{Context, Result};
use crate::node;

/// Header of a node of a trie (`struct lpm_trie_node`), of which an element takes two at most.
const TRIE_NODE: u64 = 40;
/// Header of an element of a hash map (`struct htab_elem`), and of one of its buckets.
const ELEMENT: u64 = 48;
const BUCKET: u64 = 16;
const PAGE: u64 = 4096;
/// BPF_F_NO_PREALLOC of the kernel's ABI.
const NO_PREALLOC: u32 = 1;

/// Octets of all maps, as computed from their definitions; the kernel's own figures differ by its allocators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapMemory {
    /// Without a group.
    pub empty: u64,
    /// With as many elements as they can have.
    pub full: u64,
}

/// Definition of a map.
struct Definition {
    kind: MapType,
    key: u64,
    value: u64,
    max: u64,
    /// Elements are allocated as they are added.
    lazy: bool,
}

impl Definition {
    fn memory(&self, cpus: u64) -> MapMemory {
        let (key, value) = (self.key.next_multiple_of(8), self.value.next_multiple_of(8));
        let of_hash = |element: u64| {
            let buckets = self.max.next_power_of_two() * BUCKET;
            let full = buckets + self.max * element;
            MapMemory { empty: if self.lazy { buckets } else { full }, full }
        };
        let fixed = |octets: u64| MapMemory { empty: octets, full: octets };
        match self.kind {
            MapType::Hash | MapType::LruHash => of_hash(ELEMENT + key + value),
            // An element has a pointer to the values.
            MapType::PercpuHash => of_hash(ELEMENT + key + 8 + value * cpus),
            MapType::PercpuArray => fixed(self.max * (8 + value * cpus)),
            MapType::LpmTrie => MapMemory { empty: 0, full: self.max * 2 * (TRIE_NODE + key + value) },
            MapType::RingBuf => fixed(self.max + 3 * PAGE),
            _ => fixed((self.max * value).next_multiple_of(PAGE)),
        }
    }
}

/// All maps of the node's programs on this machine.
///
/// # Errors
/// The programs that are part of this binary cannot be opened, or the system does not have its number of processors.
pub fn of_maps() -> Result<MapMemory> {
    on(libbpf_rs::num_possible_cpus().context("reading the number of processors")?)
}

fn on(cpus: usize) -> Result<MapMemory> {
    let mut sum = MapMemory::default();
    for (kind, [key, value, max, flags]) in node::definitions()? {
        let lazy = flags & NO_PREALLOC != 0;
        let definition = Definition { kind, key: key.into(), value: value.into(), max: max.into(), lazy };
        let MapMemory { empty, full } = definition.memory(cpus as u64);
        sum = MapMemory { empty: sum.empty + empty, full: sum.full + full };
    }
    Ok(sum)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lazy_maps_take_their_buckets_and_others_all_elements() {
        let of = |kind, lazy| Definition { kind, key: 4, value: 12, max: 1000, lazy }.memory(2);
        assert_eq!(of(MapType::Hash, true), MapMemory { empty: 16_384, full: 16_384 + 72_000 });
        assert_eq!(of(MapType::LruHash, false), MapMemory { empty: 88_384, full: 88_384 });
        assert_eq!(of(MapType::PercpuHash, true).full, 16_384 + 1000 * (48 + 8 + 8 + 32));
        assert_eq!(of(MapType::PercpuArray, false).empty, 40_000);
        assert_eq!(of(MapType::Array, false).empty, 16_384);
        assert_eq!(of(MapType::RingBuf, false).empty, 1000 + 12_288);
    }

    #[test]
    fn all_maps_of_the_programs_are_counted() {
        let (one, many) = (on(1).unwrap(), on(64).unwrap());
        // Two hash maps of 2^20 elements have 16 MiB of buckets each.
        assert!(one.empty > 32 << 20 && one.full > 4 * one.empty, "{one:?}");
        assert!(many.empty > one.empty && many.full > one.full, "{many:?}");
    }
}
