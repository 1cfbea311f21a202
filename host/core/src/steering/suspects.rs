// SPDX-License-Identifier: Apache-2.0
//! Which links explain that ways have faults: those that no way without a fault crosses, and that most ways with one do.

use std::collections::{BTreeMap, BTreeSet};

/// A link that explains faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ranked {
    pub(super) link: usize,
    /// Ways with a fault over it.
    pub(super) faulty: usize,
    /// Ways with a fault that the links before it do not explain.
    pub(super) of: usize,
    /// Links that explain as many, itself included.
    pub(super) alike: usize,
}

/// From the links of each way, and whether it has a fault. As long as ways with a fault are left, the links that most of them cross explain
/// those. A way that no link explains is left out: what is wrong with it is no link alone.
pub(super) fn rank(ways: impl Iterator<Item = (BTreeSet<usize>, bool)>) -> Vec<Ranked> {
    let (mut faulty, mut sound) = (Vec::new(), BTreeSet::new());
    for (links, has_fault) in ways {
        if has_fault {
            faulty.push(links);
        } else {
            sound.extend(links);
        }
    }
    let mut ranked = Vec::new();
    while !faulty.is_empty() {
        let mut by_link: BTreeMap<usize, usize> = BTreeMap::new();
        let over = faulty.iter().flatten().filter(|link| !sound.contains(link));
        over.for_each(|link| *by_link.entry(*link).or_default() += 1);
        let Some(most) = by_link.values().max().copied() else { break };
        let best: BTreeSet<usize> =
            by_link.iter().filter(|(_, count)| **count == most).map(|(link, _)| *link).collect();
        let of = faulty.len();
        ranked.extend(best.iter().map(|link| Ranked { link: *link, faulty: most, of, alike: best.len() }));
        faulty.retain(|links| links.is_disjoint(&best));
    }
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranked(ways: &[(&[usize], bool)]) -> Vec<(usize, usize, usize, usize)> {
        let ways = ways.iter().map(|(links, has_fault)| (links.iter().copied().collect(), *has_fault));
        rank(ways).into_iter().map(|of| (of.link, of.faulty, of.of, of.alike)).collect()
    }

    #[test]
    fn the_link_that_all_faulty_ways_cross_and_no_sound_one_explains_them() {
        // From one leaf over two spines to three leaves: links 0 and 1 up, 10 and 11, 20 and 21, 30 and 31 down.
        let sound: [(&[usize], bool); 3] = [(&[0, 10], false), (&[0, 20], false), (&[0, 30], false)];
        let up: [(&[usize], bool); 3] = [(&[1, 11], true), (&[1, 21], true), (&[1, 31], true)];
        assert_eq!(ranked(&[sound, up].concat()), [(1, 3, 3, 1)]);
        let down: [(&[usize], bool); 3] = [(&[1, 11], false), (&[1, 21], true), (&[1, 31], false)];
        assert_eq!(ranked(&[sound, down].concat()), [(21, 1, 1, 1)]);
        // Two faults at once.
        let both: [(&[usize], bool); 3] = [(&[1, 11], true), (&[1, 21], true), (&[1, 31], false)];
        assert_eq!(ranked(&[sound, both].concat()), [(11, 1, 2, 2), (21, 1, 2, 2)]);
        // The one path to a leaf: either link.
        assert_eq!(ranked(&[(&[1, 11], true)]), [(1, 1, 1, 2), (11, 1, 1, 2)]);
        // No link is crossed by faulty ways alone.
        assert_eq!(ranked(&[(&[0, 10], true), (&[0, 11], false), (&[1, 10], false)]), []);
        assert_eq!(ranked(&sound), []);
    }
}
