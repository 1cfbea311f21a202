// SPDX-License-Identifier: Apache-2.0
//! What is different between two JSON values, by JSON pointer (RFC 6901).
//!
//! Items of a list are recognised by what names them, so that one link that is taken out of a topology is one difference: its `name`, both
//! of its ends, its `host`, or, of strings and numbers, the item itself.

use std::collections::BTreeMap;

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
