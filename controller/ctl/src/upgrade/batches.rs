// SPDX-License-Identifier: Apache-2.0
//! Nodes that can be away at the same time: those that are left still reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// The nodes and the links between them.
#[derive(Clone, Debug, Default)]
pub struct Network(BTreeMap<String, BTreeSet<String>>);

impl Network {
    /// Nodes by name, and pairs of ends; an end that is no node counts for nothing.
    pub fn new(nodes: impl IntoIterator<Item = String>, links: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut network: BTreeMap<String, BTreeSet<String>> =
            nodes.into_iter().map(|node| (node, BTreeSet::new())).collect();
        for (a, b) in links {
            if network.contains_key(&a) && network.contains_key(&b) {
                network.entry(a.clone()).or_default().insert(b.clone());
                network.entry(b).or_default().insert(a);
            }
        }
        Self(network)
    }

    /// Divides `nodes` into batches of at most `most`, the first of one. A node whose absence alone cuts others off is a batch of its own.
    pub fn batches(&self, nodes: &[String], most: usize) -> Vec<Vec<String>> {
        let mut left: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let mut batches = Vec::new();
        while !left.is_empty() {
            let room = if batches.is_empty() { 1 } else { most.max(1) };
            let mut away = BTreeSet::new();
            self.fill(&mut away, &left, room);
            if away.is_empty() {
                away.insert(left[0]);
            }
            left.retain(|node| !away.contains(node));
            batches.push(away.into_iter().map(str::to_owned).collect());
        }
        batches
    }

    /// Adds what can be away with the others, at most `room` in all. Halves are tried where not all can, so that few searches decide about many nodes.
    fn fill<'a>(&self, away: &mut BTreeSet<&'a str>, candidates: &[&'a str], room: usize) {
        if candidates.is_empty() || away.len() >= room {
            return;
        }
        let all: BTreeSet<&str> = away.iter().chain(candidates).copied().collect();
        if all.len() <= room && self.others_reach_each_other(&all) {
            *away = away.iter().chain(candidates).copied().collect();
        } else if candidates.len() > 1 {
            let (first, second) = candidates.split_at(candidates.len() / 2);
            self.fill(away, first, room);
            self.fill(away, second, room);
        }
    }

    /// Whether nodes that reach each other do so without those in `away` as well.
    fn others_reach_each_other(&self, away: &BTreeSet<&str>) -> bool {
        let whole = self.parts(&BTreeSet::new());
        let without = self.parts(away);
        // Each part of the whole network is one part still.
        let pairs: BTreeSet<(usize, usize)> = without.iter().map(|(node, part)| (whole[node], *part)).collect();
        let parts: BTreeSet<usize> = pairs.iter().map(|(whole, _)| *whole).collect();
        pairs.len() == parts.len()
    }

    /// The part of the network that each node is in, without those in `away`.
    fn parts(&self, away: &BTreeSet<&str>) -> BTreeMap<&str, usize> {
        let mut parts: BTreeMap<&str, usize> = BTreeMap::new();
        for (number, start) in self.0.keys().enumerate() {
            let mut next = vec![start.as_str()];
            while let Some(node) = next.pop() {
                if !away.contains(node) && !parts.contains_key(node) {
                    parts.insert(node, number);
                    next.extend(self.0[node].iter().map(String::as_str));
                }
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(links: &[(&str, &str)]) -> (Network, Vec<String>) {
        let nodes: BTreeSet<String> = links.iter().flat_map(|(a, b)| [(*a).to_owned(), (*b).to_owned()]).collect();
        let network = Network::new(nodes.clone(), links.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())));
        (network, nodes.into_iter().collect())
    }

    /// Figure 1.
    const FIGURE: [(&str, &str); 6] =
        [("n6", "n4"), ("n6", "n5"), ("n4", "n1"), ("n4", "n2"), ("n5", "n2"), ("n5", "n3")];

    #[test]
    fn nodes_of_a_batch_do_not_cut_others_off() {
        let (network, nodes) = network(&FIGURE);
        let batches = network.batches(&nodes, 6);
        assert_eq!(batches[0].len(), 1);
        let mut seen: Vec<String> = batches.concat();
        seen.sort();
        assert_eq!(seen, nodes);
        for batch in &batches[1..] {
            let away: BTreeSet<&str> = batch.iter().map(String::as_str).collect();
            assert!(batch.len() == 1 || network.others_reach_each_other(&away), "{batches:?}");
        }
        // n4 is the only way to n1, and n5 to n3, unless those are away too.
        assert!(!network.others_reach_each_other(&BTreeSet::from(["n4"])));
        assert!(network.others_reach_each_other(&BTreeSet::from(["n4", "n1"])));
        assert!(!network.others_reach_each_other(&BTreeSet::from(["n2", "n6"])));
        assert!(batches.len() < nodes.len(), "{batches:?}");
    }

    #[test]
    fn a_batch_has_no_more_than_its_size_and_a_node_in_the_middle_is_alone() {
        let (star, nodes) = network(&[("hub", "a"), ("hub", "b"), ("hub", "c"), ("hub", "d")]);
        assert_eq!(star.batches(&nodes, 2), [vec!["a"], vec!["b", "c"], vec!["d"], vec!["hub"]]);
        assert_eq!(star.batches(&["hub".to_owned(), "b".to_owned()], 9), [vec!["b"], vec!["hub"]]);
        assert_eq!(star.batches(&[], 9), Vec::<Vec<String>>::new());
    }

    #[test]
    fn parts_that_never_reached_each_other_are_judged_apart() {
        let (two, nodes) = network(&[("a", "b"), ("c", "d")]);
        assert_eq!(two.batches(&nodes, 4), [vec!["a"], vec!["b", "c", "d"]]);
    }

    #[test]
    fn a_wide_network_is_divided_by_few_searches() {
        let links: Vec<(String, String)> = (0..1000)
            .flat_map(|leaf| (0..4).map(move |spine| (format!("leaf{leaf}"), format!("spine{spine}"))))
            .collect();
        let nodes: BTreeSet<String> = links.iter().flat_map(|(a, b)| [a.clone(), b.clone()]).collect();
        let network = Network::new(nodes.clone(), links);
        let batches = network.batches(&nodes.iter().cloned().collect::<Vec<_>>(), 251);
        assert_eq!(batches.concat().len(), nodes.len());
        assert!(batches.iter().all(|batch| batch.iter().filter(|node| node.starts_with("spine")).count() < 4));
        assert!(batches.len() <= 7, "{} batches", batches.len());
    }
}
