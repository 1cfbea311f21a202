// SPDX-License-Identifier: Apache-2.0
//! What the links would carry if the source sent one unicast to each receiver.

use std::collections::{BTreeMap, VecDeque};

use anyhow::{Context, Result, ensure};
use canopy_model::topology::Endpoint;
use canopy_units::Octets;
use serde::{Deserialize, Serialize};

use crate::wires::LinkCounters;

/// One link in a run: what it carried, and what unicasts of the same bytes would have carried on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LinkUse {
    /// The end nearer to the source (the file's first where neither is).
    pub near: Endpoint,
    /// The end nearer to the receivers.
    pub far: Endpoint,
    /// Bytes from the source's side to the receivers' side.
    #[serde(rename = "downBytes")]
    pub down: Octets,
    /// Bytes back: acknowledgements.
    #[serde(rename = "upBytes")]
    pub up: Octets,
    /// Unicasts with this link on their shortest path.
    pub unicasts: u64,
    /// Bytes of these unicasts towards the receivers.
    #[serde(rename = "unicastDownBytes")]
    pub unicast_down: Octets,
    /// Bytes of these unicasts back to the source.
    #[serde(rename = "unicastUpBytes")]
    pub unicast_up: Octets,
}

/// Compares a run with one unicast per receiver along shortest paths (fewest links). Each unicast is assumed to carry
/// on every link of its path what the source sent on its own link, and back what the receiver sent on its own. Among
/// paths of equal length the unicast takes the one that carried the run's bytes, so that the two can be compared link
/// by link.
///
/// # Errors
/// A host is not at any of the links, or is cut off.
pub fn compare(links: &[LinkCounters], source: &str, receivers: &[String]) -> Result<Vec<LinkUse>> {
    let mut uses: Vec<LinkUse> = links.iter().map(untouched).collect();
    let ways = ways_from(source, links);
    let sent =
        |host: &str| links.iter().find_map(|l| sent_by(l, host)).with_context(|| format!("host {host:?} has no link"));
    let data = sent(source)?;
    for receiver in receivers {
        let acks = sent(receiver)?;
        let mut at = receiver.as_str();
        while at != source {
            let &(index, previous) = ways.get(at).with_context(|| format!("no path from {source} to {receiver}"))?;
            let (link, used) = (&links[index], &mut uses[index]);
            if link.a.device == at && used.unicasts == 0 {
                *used =
                    LinkUse { near: link.b.clone(), far: link.a.clone(), down: used.up, up: used.down, ..used.clone() };
            }
            ensure!(used.far.device == at, "shortest paths use {} in both directions", link.a);
            used.unicasts += 1;
            used.unicast_down += data;
            used.unicast_up += acks;
            at = previous;
        }
    }
    Ok(uses)
}

fn untouched(l: &LinkCounters) -> LinkUse {
    let (down, up) = (l.a_to_b.passed_octets, l.b_to_a.passed_octets);
    LinkUse {
        near: l.a.clone(),
        far: l.b.clone(),
        down,
        up,
        unicasts: 0,
        unicast_down: Octets::ZERO,
        unicast_up: Octets::ZERO,
    }
}

fn sent_by(l: &LinkCounters, device: &str) -> Option<Octets> {
    if l.a.device == device {
        Some(l.a_to_b.passed_octets)
    } else {
        (l.b.device == device).then_some(l.b_to_a.passed_octets)
    }
}

/// For each device, the last link of its shortest path from `source` and the device before it.
fn ways_from<'a>(source: &'a str, links: &'a [LinkCounters]) -> BTreeMap<&'a str, (usize, &'a str)> {
    let mut distance: BTreeMap<&str, u32> = BTreeMap::from([(source, 0)]);
    let mut ways: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut queue = VecDeque::from([source]);
    while let Some(here) = queue.pop_front() {
        let next = distance[here] + 1;
        for (index, link) in links.iter().enumerate() {
            let there = match (link.a.device.as_str(), link.b.device.as_str()) {
                (a, b) if a == here => b,
                (a, b) if b == here => a,
                _ => continue,
            };
            let known = distance.get(there).copied();
            if known.is_none() {
                distance.insert(there, next);
                queue.push_back(there);
            }
            let busier = ways.get(there).is_none_or(|&(other, _)| link.octets() > links[other].octets());
            if known.is_none() || (known == Some(next) && busier) {
                ways.insert(there, (index, here));
            }
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::LabFile;
    use crate::loss::EndCounters;

    fn carried(octets: u64) -> EndCounters {
        EndCounters { passed_packets: 1, passed_octets: Octets(octets), ..EndCounters::default() }
    }

    fn figure1(busy: &str) -> Vec<LinkCounters> {
        let file = LabFile::parse(include_str!("../../topologies/figure1.yaml")).unwrap();
        let counters = |l: crate::file::Link| {
            let bytes = if l.label() == busy || l.a.device == "s1" { 1000 } else { 0 };
            let b_to_a = if l.b.device.starts_with('r') { 10 } else { 0 };
            LinkCounters { a: l.a, b: l.b, a_to_b: carried(bytes), b_to_a: carried(b_to_a) }
        };
        file.links().map(counters).collect()
    }

    fn receivers() -> Vec<String> {
        (1..=5).map(|i| format!("r{i}")).collect()
    }

    #[test]
    fn five_unicasts_of_figure_1_put_five_copies_on_the_first_link_and_one_on_the_last() {
        let uses = compare(&figure1("n4/eth3--n2/eth1"), "s1", &receivers()).unwrap();
        let copies: Vec<(String, u64)> =
            uses.iter().map(|u| (format!("{}-{}", u.near.device, u.far.device), u.unicasts)).collect();
        let expected = [
            ("s1-n6", 5),
            ("n6-n4", 3),
            ("n6-n5", 2),
            ("n4-n1", 2),
            ("n4-n2", 1),
            ("n5-n2", 0),
            ("n5-n3", 2),
            ("n1-r1", 1),
            ("n1-r2", 1),
            ("n2-r3", 1),
            ("n3-r4", 1),
            ("n3-r5", 1),
        ];
        assert_eq!(copies, expected.map(|(l, n)| (l.to_owned(), n)));
        assert_eq!((uses[0].unicast_down, uses[0].unicast_up), (Octets(5000), Octets(50)));
        assert_eq!((uses[0].down, uses[0].up), (Octets(1000), Octets::ZERO));
    }

    #[test]
    fn of_two_equal_paths_the_busy_one_counts() {
        let uses = compare(&figure1("n5/eth2--n2/eth2"), "s1", &receivers()).unwrap();
        assert_eq!((uses[1].unicasts, uses[2].unicasts, uses[4].unicasts, uses[5].unicasts), (2, 3, 0, 1));
    }

    #[test]
    fn a_link_that_the_file_has_backwards_is_turned_round() {
        let mut links = figure1("");
        let first = links[0].clone();
        links[0] = LinkCounters { a: first.b, b: first.a, a_to_b: first.b_to_a, b_to_a: first.a_to_b };
        let uses = compare(&links, "s1", &receivers()).unwrap();
        assert_eq!((uses[0].near.device.as_str(), uses[0].down), ("s1", Octets(1000)));
    }
}
