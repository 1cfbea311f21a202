// SPDX-License-Identifier: Apache-2.0
//! Hop counts from the nodes that trees lead from: groups with the same root, or one group that is planned again, need one search of the
//! network. They are kept until a link that goes out of service or comes back makes them other ones; in a Clos few do.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Of a node that is not reached.
pub(crate) const UNREACHED: u16 = u16::MAX;
/// Octets that are kept for one network, at most: from other roots each tree searches anew.
const OCTETS: usize = 64 << 20;

/// Of one root, once it was asked for.
type Row = OnceLock<Arc<[u16]>>;

/// See the module. A copy is empty: it is made for a network with other links, which [`Hops::keep`] fills.
#[derive(Default)]
pub(crate) struct Hops {
    /// By root; without a node until the first is asked for.
    rows: OnceLock<Box<[Row]>>,
    kept: AtomicUsize,
}

impl Clone for Hops {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Without what is kept: two networks are the same whichever trees were built over them.
impl std::fmt::Debug for Hops {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hops").finish_non_exhaustive()
    }
}

impl Hops {
    /// Hop counts from the node of this index in a network of `nodes` nodes, which `search` finds.
    pub(crate) fn from(&self, root: usize, nodes: usize, search: impl FnOnce() -> Vec<u32>) -> Arc<[u16]> {
        let rows = self.rows.get_or_init(|| (0..nodes).map(|_| Row::new()).collect());
        let search = || -> Arc<[u16]> {
            // A network has at most 16,384 nodes.
            search().into_iter().map(|hops| u16::try_from(hops).unwrap_or(UNREACHED)).collect()
        };
        if let Some(row) = rows[root].get() {
            return row.clone();
        }
        if (self.kept.fetch_add(1, Ordering::Relaxed) + 1) * nodes * size_of::<u16>() > OCTETS {
            self.kept.fetch_sub(1, Ordering::Relaxed);
            return search();
        }
        rows[root].get_or_init(search).clone()
    }

    /// Takes over what `old` has of the roots that `is_kept` lets pass, for an empty one of a network of as many nodes.
    pub(crate) fn keep(&self, old: &Self, is_kept: impl Fn(&[u16]) -> bool) {
        let Some(known) = old.rows.get() else { return };
        let rows = self.rows.get_or_init(|| known.iter().map(|_| Row::new()).collect());
        for (row, old) in rows.iter().zip(known) {
            if let Some(hops) = old.get().filter(|hops| is_kept(hops))
                && row.set(hops.clone()).is_ok()
            {
                self.kept.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn what_was_found_is_found_once_and_a_copy_has_nothing() {
        let searches = Cell::new(0);
        let search = |hops: &Hops, root| {
            hops.from(root, 3, || {
                searches.set(searches.get() + 1);
                vec![0, 1, u32::MAX]
            })
        };
        let hops = Hops::default();
        for (root, done) in [(0, 1), (0, 1), (2, 2), (0, 2)] {
            assert_eq!((&*search(&hops, root), searches.get()), (&[0, 1, UNREACHED][..], done));
        }
        search(&hops.clone(), 0);
        assert_eq!(searches.get(), 3);
    }

    #[test]
    fn more_roots_than_there_is_room_for_are_searched_each_time() {
        let hops = Hops::default();
        let nodes = 16_384;
        let most = OCTETS / (nodes * 2);
        let mut searches = 0;
        for _ in 0..2 {
            for root in [0, most - 1, most, most + 1] {
                hops.kept.store(root.min(most), Ordering::Relaxed);
                hops.from(root, nodes, || {
                    searches += 1;
                    vec![7; nodes]
                });
            }
        }
        assert_eq!(searches, 6);
    }
}
