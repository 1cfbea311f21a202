// SPDX-License-Identifier: Apache-2.0
//! What is different between two JSON values, by JSON pointer (RFC 6901).
//!
//! Items of a list are recognised by what names them, so that one link that is taken out of a topology is one difference: its `name`, both
//! of its ends, its `host`, or, of strings and numbers, the item itself.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use canopy_model::topology::TopologySpec;
use serde::Serialize;
use serde_json::Value;

/// A value that is there in one of the two only, or is another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Where: in the new value, or, of what is gone, in the old one.
    pub pointer: String,
    /// `None`: there was nothing.
    pub old: Option<Value>,
    /// `None`: there is nothing.
    pub new: Option<Value>,
}

/// All differences, in the order of the new value; each at the deepest place that both values have.
pub fn differences(old: Option<&Value>, new: Option<&Value>) -> Vec<Difference> {
    let mut found = Vec::new();
    compare("", old, new, &mut found);
    found
}

/// The same of the specs of two topologies, each of which has every name once. Only what is different becomes JSON.
pub(crate) fn of_topologies(old: &TopologySpec, new: &TopologySpec) -> Vec<Difference> {
    // Every field: one that is new is missing here.
    let TopologySpec { nodes: _, hosts: _, links: _ } = new;
    let mut found = Vec::new();
    named("/spec/hosts", &old.hosts, &new.hosts, |host| &host.name, &mut found);
    named("/spec/links", &old.links, &new.links, |link| (&link.a, &link.b), &mut found);
    named("/spec/nodes", &old.nodes, &new.nodes, |node| &node.name, &mut found);
    found
}

/// A part of a spec as JSON.
pub(crate) fn json_of(spec: &impl Serialize) -> Value {
    // Specs are structs of strings, numbers and lists: serialising them cannot fail.
    serde_json::to_value(spec).expect("a spec is JSON")
}

/// As [`lists`], of items that `key` names.
fn named<'a, T: Serialize + PartialEq, K: Hash + Eq>(
    at: &str,
    old: &'a [T],
    new: &'a [T],
    key: impl Fn(&'a T) -> K,
    found: &mut Vec<Difference>,
) {
    let is_same = |i: usize| matches!((old.get(i), new.get(i)), (Some(old), Some(new)) if old == new);
    let others = old.iter().enumerate().filter(|(i, _)| !is_same(*i));
    let mut before: HashMap<K, (usize, &T)> = others.map(|(i, item)| (key(item), (i, item))).collect();
    for (i, item) in new.iter().enumerate().filter(|(i, _)| !is_same(*i)) {
        match before.remove(&key(item)) {
            Some((_, was)) if was == item => {}
            was => {
                compare(&format!("{at}/{i}"), was.map(|(_, was)| json_of(was)).as_ref(), Some(&json_of(item)), found)
            }
        }
    }
    let mut gone: Vec<(String, usize, Value)> =
        before.into_values().map(|(i, was)| (json_of(was), i)).map(|(was, i)| (name(&was), i, was)).collect();
    gone.sort_by(|a, b| a.0.cmp(&b.0));
    for (_, i, was) in gone {
        compare(&format!("{at}/{i}"), Some(&was), None, found);
    }
}

fn compare(at: &str, old: Option<&Value>, new: Option<&Value>, found: &mut Vec<Difference>) {
    match (old, new) {
        (old, new) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            for (key, value) in new {
                compare(&format!("{at}/{}", escaped(key)), old.get(key), Some(value), found);
            }
            for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
                compare(&format!("{at}/{}", escaped(key)), Some(value), None, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => lists(at, old, new, found),
        (old, new) => {
            found.push(Difference { pointer: at.to_owned(), old: old.cloned(), new: new.cloned() });
        }
    }
}

fn lists(at: &str, old: &[Value], new: &[Value], found: &mut Vec<Difference>) {
    // Of items with one name, which a refused topology may have, the last stands for all.
    let mut before: BTreeMap<String, (usize, &Value)> =
        old.iter().enumerate().map(|(i, v)| (name(v), (i, v))).collect();
    for (i, value) in new.iter().enumerate() {
        let was = before.remove(&name(value)).map(|(_, was)| was);
        compare(&format!("{at}/{i}"), was, Some(value), found);
    }
    for (i, was) in before.into_values() {
        compare(&format!("{at}/{i}"), Some(was), None, found);
    }
}

/// What names an item of a list.
fn name(item: &Value) -> String {
    let Value::Object(fields) = item else { return item.to_string() };
    let text = |field: &str| fields.get(field).map(Value::to_string);
    let ends = || Some(format!("{}--{}", text("a")?, text("b")?));
    text("name").or_else(ends).or_else(|| text("host")).unwrap_or_else(|| item.to_string())
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(old: &Value, new: &Value) -> Vec<(String, Value, Value)> {
        let found = differences(Some(old), Some(new)).into_iter();
        found.map(|d| (d.pointer, d.old.unwrap_or_default(), d.new.unwrap_or_default())).collect()
    }

    /// Some of these nodes, hosts and links, in an order that the seed gives, with a value that it gives.
    fn topology(seed: u64) -> TopologySpec {
        let bit = |at: usize| seed >> (at % 61) & 1 == 1;
        let mut nodes: Vec<Value> = (0..6)
            .filter(|i| bit(*i))
            .map(|i| json!({"name": format!("n{i}"), "id": i + 1, "tier": 1 + u8::from(bit(i + 7))}))
            .collect();
        let mut links: Vec<Value> = (0..6)
            .filter(|i| bit(i + 13))
            .map(|i| json!({"a": format!("n{i}/eth1"), "b": format!("n{}/eth2", i + 1), "mtu": 4000 + u32::from(bit(i + 20))}))
            .collect();
        let hosts: Vec<Value> = (0..4)
            .filter(|i| bit(i + 27))
            .map(|i| json!({"name": format!("h{i}"), "address": format!("2001:db8:{i}::1"), "prefix": format!("2001:db8:{i}::/64")}))
            .collect();
        if bit(33) {
            nodes.reverse();
        }
        let turned = usize::from(bit(34)).min(links.len());
        links.rotate_left(turned);
        serde_json::from_value(json!({"nodes": nodes, "hosts": hosts, "links": links})).unwrap()
    }

    /// Catches a difference that is missed, one that is none, and one at another place.
    #[test]
    fn topologies_differ_as_their_json_does() {
        // Pairs of which a third differ in one bit, and the others in many.
        let drawn = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (i << 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        for i in 0..3000 {
            let old = drawn(i);
            let new = if i % 3 == 0 { old ^ 1 << (i % 61) } else { drawn(i + 5000) };
            let [old, new] = [old, new].map(topology);
            let [before, after] = [&old, &new].map(|spec| json!({"spec": spec}));
            assert_eq!(of_topologies(&old, &new), differences(Some(&before), Some(&after)), "{i}");
        }
    }

    #[test]
    fn one_link_that_is_gone_is_one_difference() {
        let link = |a: &str, rate: u64| json!({"a": a, "b": "n9/eth1", "rateBps": rate});
        let old = json!({"links": [link("n1/eth1", 1), link("n2/eth1", 1), link("n3/eth1", 1)]});
        let new = json!({"links": [link("n2/eth1", 1), link("n3/eth1", 2)]});
        let expected = [
            ("/links/1/rateBps".to_owned(), json!(1), json!(2)),
            ("/links/0".to_owned(), link("n1/eth1", 1), Value::Null),
        ];
        assert_eq!(of(&old, &new), expected);
        assert_eq!(of(&old, &old), []);
    }

    #[test]
    fn fields_items_and_whole_values_that_come_and_go_are_named() {
        let old = json!({"metadata": {"labels": {"a/b": "1", "x~y": "1"}}, "spec": {"list": [1, 2], "same": [{}]}});
        let new = json!({"metadata": {"labels": {"a/b": "2"}}, "spec": {"list": [2, 3], "same": [{}], "more": null}});
        let expected = [
            ("/metadata/labels/a~1b".to_owned(), json!("1"), json!("2")),
            ("/metadata/labels/x~0y".to_owned(), json!("1"), Value::Null),
            ("/spec/list/1".to_owned(), Value::Null, json!(3)),
            ("/spec/list/0".to_owned(), json!(1), Value::Null),
            ("/spec/more".to_owned(), Value::Null, Value::Null),
        ];
        assert_eq!(of(&old, &new), expected);
        let created = differences(None, Some(&new));
        assert_eq!(created, [Difference { pointer: String::new(), old: None, new: Some(new.clone()) }]);
        assert_eq!(differences(Some(&new), None)[0].old, Some(new));
    }
}
