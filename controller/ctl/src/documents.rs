// SPDX-License-Identifier: Apache-2.0
//! Files of resources: several YAML documents or JSON values, and lists of resources as `get -o yaml` prints them.

use canopy_controller_api::API_VERSION;
use serde::Deserialize;
use serde_json::Value;

use crate::failure::{Exit, Failure};

/// Largest file read, bytes.
const MAX_FILE: u64 = 64 << 20;

/// The kinds that can be applied, in the order in which they depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The network.
    Topology,
    /// A link or node out of service.
    Drain,
    /// A multicast group.
    Group,
    /// A host's membership of a group.
    Member,
    /// Problems that operators know of.
    Silence,
}

/// One resource from a file.
#[derive(Clone, Debug)]
pub struct Document {
    /// Kind of resource.
    pub kind: Kind,
    /// `group/train-7`, `member/train-7/r1`, `topology/default`.
    pub name: String,
    /// Path of the resource in the API.
    pub path: String,
    /// As it was read.
    pub body: Value,
    /// `FILE document 2`, for messages.
    pub origin: String,
}

/// Reads `file` (`-` = standard input) and puts its resources into the order in which they depend on each other.
///
/// # Errors
/// A usage failure naming file, document and field.
pub fn read(file: &str) -> Result<Vec<Document>, Failure> {
    parse(if file == "-" { "standard input" } else { file }, &text(file)?)
}

/// What `file` has, `-` = standard input.
///
/// # Errors
/// It cannot be read, or is too large.
pub fn text(file: &str) -> Result<String, Failure> {
    use std::io::Read;
    let io = |e: std::io::Error| Failure::new(Exit::Usage, format!("reading {file}: {e}"));
    let mut text = String::new();
    if file == "-" {
        std::io::stdin().take(MAX_FILE + 1).read_to_string(&mut text).map_err(io)?;
    } else {
        std::fs::File::open(file).map_err(io)?.take(MAX_FILE + 1).read_to_string(&mut text).map_err(io)?;
    }
    if text.len() as u64 > MAX_FILE {
        return Err(Failure::new(Exit::Usage, format!("{file} is larger than {MAX_FILE} bytes: split it")));
    }
    Ok(text)
}

/// See [`read`].
///
/// # Errors
/// A usage failure naming file, document and field.
pub fn parse(file: &str, text: &str) -> Result<Vec<Document>, Failure> {
    let mut documents = Vec::new();
    for (i, value) in values(file, text)?.into_iter().enumerate() {
        let origin = format!("{file} document {}", i + 1);
        match value {
            Value::Null => {}
            Value::Object(ref o) if o.get("kind").and_then(Value::as_str).is_some_and(|k| k.ends_with("List")) => {
                let items = o
                    .get("items")
                    .and_then(Value::as_array)
                    .ok_or_else(|| usage(&origin, "items", "is missing: a list has its resources there"))?;
                for (j, item) in items.iter().enumerate() {
                    documents.push(document(format!("{origin} items[{j}]"), item.clone())?);
                }
            }
            other => documents.push(document(origin, other)?),
        }
    }
    if documents.is_empty() {
        return Err(Failure::new(Exit::Usage, format!("{file} holds no resource")));
    }
    documents.sort_by_key(|d| d.kind);
    Ok(documents)
}

/// The documents of a text, of whatever kind.
pub(crate) fn values(file: &str, text: &str) -> Result<Vec<Value>, Failure> {
    let bad =
        |i: usize, e: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{file} document {}: {e}", i + 1));
    if text.trim_start().starts_with(['{', '[']) {
        let stream = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let values: Vec<Value> =
            stream.enumerate().map(|(i, v)| v.map_err(|e| bad(i, &e))).collect::<Result<_, _>>()?;
        return Ok(values.into_iter().flat_map(|v| if let Value::Array(a) = v { a } else { vec![v] }).collect());
    }
    serde_yaml_ng::Deserializer::from_str(text)
        .enumerate()
        .map(|(i, d)| Value::deserialize(d).map_err(|e| bad(i, &e)))
        .collect()
}

fn document(origin: String, body: Value) -> Result<Document, Failure> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    if text("/apiVersion").as_deref() != Some(API_VERSION) {
        return Err(usage(&origin, "apiVersion", &format!("must be {API_VERSION}")));
    }
    let required = |field: &'static str, pointer: &str, why: &str| match text(pointer) {
        Some(s) if is_plain(&s) => Ok(s),
        Some(s) => Err(usage(&origin, field, &format!("{s:?} is not a name: use a-z, 0-9 and '-'"))),
        None => Err(usage(&origin, field, why)),
    };
    let kind = text("/kind").unwrap_or_default();
    let (kind, name, path) = match kind.as_str() {
        "Topology" => {
            let name = required("metadata.name", "/metadata/name", "is missing: the topology's is default")?;
            if name != "default" {
                return Err(usage(&origin, "metadata.name", "must be default: there is one topology"));
            }
            (Kind::Topology, "topology/default".into(), "/api/v1/topology".into())
        }
        "Drain" => {
            let name = required("metadata.name", "/metadata/name", "is missing")?;
            (Kind::Drain, format!("drain/{name}"), format!("/api/v1/drains/{name}"))
        }
        "Silence" => {
            let name = required("metadata.name", "/metadata/name", "is missing")?;
            (Kind::Silence, format!("silence/{name}"), format!("/api/v1/silences/{name}"))
        }
        "Group" => {
            let name = required("metadata.name", "/metadata/name", "is missing")?;
            (Kind::Group, format!("group/{name}"), format!("/api/v1/groups/{name}"))
        }
        "Member" => {
            let group = required("metadata.group", "/metadata/group", "is missing: name the group to join")?;
            let host = required("spec.host", "/spec/host", "is missing: name the host as in the topology")?;
            (Kind::Member, format!("member/{group}/{host}"), format!("/api/v1/groups/{group}/members/{host}"))
        }
        other => {
            return Err(usage(
                &origin,
                "kind",
                &format!("{other:?} cannot be applied: use Topology, Drain, Silence, Group or Member"),
            ));
        }
    };
    Ok(Document { kind, name, path, body, origin })
}

/// Whether `name` can stand in a URL path as it is.
pub fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && name.trim_matches('.') == name
}

fn usage(origin: &str, field: &str, why: &str) -> Failure {
    Failure::new(Exit::Usage, format!("{origin}: {field} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "apiVersion: canopy/v1\nkind: Group\nmetadata: {name: g1}\nspec: {}\n";
    const MEMBER: &str =
        "apiVersion: canopy/v1\nkind: Member\nmetadata: {group: g1}\nspec: {host: r1, role: receiver, qpn: 17}\n";

    fn names(text: &str) -> Vec<String> {
        parse("f", text).unwrap().into_iter().map(|d| d.name).collect()
    }

    #[test]
    fn documents_come_in_the_order_in_which_they_depend() {
        let topology = "apiVersion: canopy/v1\nkind: Topology\nmetadata: {name: default}\nspec: {}\n";
        assert_eq!(
            names(&format!("{MEMBER}---\n---\n{GROUP}---\n{topology}")),
            ["topology/default", "group/g1", "member/g1/r1"]
        );
    }

    #[test]
    fn json_values_arrays_and_lists_are_read() {
        let g = |n: &str| format!(r#"{{"apiVersion":"canopy/v1","kind":"Group","metadata":{{"name":"{n}"}}}}"#);
        assert_eq!(names(&format!("{}\n{}", g("a"), g("b"))), ["group/a", "group/b"]);
        assert_eq!(names(&format!("[{},{}]", g("a"), g("b"))), ["group/a", "group/b"]);
        assert_eq!(
            names(&format!(r#"{{"apiVersion":"canopy/v1","kind":"GroupList","items":[{}]}}"#, g("a"))),
            ["group/a"]
        );
    }

    #[test]
    fn faults_name_document_and_field() {
        let problem = |text: &str| parse("f.yaml", text).unwrap_err();
        assert_eq!(
            problem(&format!("{GROUP}---\n{}", MEMBER.replace("group: g1", ""))).message,
            "f.yaml document 2: metadata.group is missing: name the group to join"
        );
        assert!(problem(&GROUP.replace("canopy/v1", "v9")).message.contains("apiVersion must be canopy/v1"));
        assert!(problem(&GROUP.replace("Group", "Pod")).message.contains("kind \"Pod\" cannot be applied"));
        assert!(problem(&GROUP.replace("g1", "../x")).message.contains("is not a name"));
        assert!(problem("a: [").message.starts_with("f.yaml document 1: "));
        assert!(problem("# nothing\n").message.contains("holds no resource"));
        assert_eq!(problem("a: [").exit, Exit::Usage);
    }
}
