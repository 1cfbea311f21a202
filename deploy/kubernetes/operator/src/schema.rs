// SPDX-License-Identifier: Apache-2.0
//! From the OpenAPI description of a type of the REST API to the structural schema that Kubernetes takes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// What Kubernetes keeps of a description. Defaults are left to the controller: one that is stored in a resource stays when it changes.
const KEPT: [&str; 10] = [
    "additionalProperties",
    "description",
    "enum",
    "format",
    "items",
    "maximum",
    "minimum",
    "nullable",
    "properties",
    "required",
];

/// The schema of `T`.
pub(crate) fn structural<T: ToSchema>() -> Value {
    let mut named = Vec::new();
    T::schemas(&mut named);
    let text = |schema| serde_json::to_value(schema).unwrap_or_default();
    let components: BTreeMap<String, Value> = named.into_iter().map(|(name, schema)| (name, text(schema))).collect();
    convert(&text(T::schema()), &components)
}

fn convert(from: &Value, components: &BTreeMap<String, Value>) -> Value {
    if let Some(path) = from["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut target = components.get(name).map_or_else(unknown, |found| convert(found, components));
        if let Some(text) = from.get("description") {
            target["description"] = text.clone();
        }
        return target;
    }
    for one_of in ["oneOf", "anyOf", "allOf"] {
        if let Some(branches) = from[one_of].as_array() {
            return choice(from, branches, components);
        }
    }
    let mut to = Map::new();
    let mut is_nullable = false;
    match &from["type"] {
        Value::String(kind) => drop(to.insert("type".into(), json!(kind))),
        // `["string", "null"]`.
        Value::Array(kinds) => {
            is_nullable = kinds.iter().any(|kind| kind == "null");
            let kind = kinds.iter().find(|kind| *kind != "null");
            to.insert("type".into(), kind.cloned().unwrap_or_else(|| json!("string")));
        }
        _ => return described(unknown(), from),
    }
    if is_nullable {
        to.insert("nullable".into(), json!(true));
    }
    for key in KEPT {
        let Some(value) = from.get(key) else { continue };
        let value = match (key, value) {
            ("properties", Value::Object(properties)) => {
                properties.iter().map(|(name, of)| (name.clone(), convert(of, components))).collect()
            }
            // Of a map: a structural schema without them loses what a resource has.
            ("items", of) | ("additionalProperties", of @ Value::Object(_)) => convert(of, components),
            ("additionalProperties", _) => continue,
            // Kubernetes knows no others for numbers.
            ("format", format) if !["int32", "int64", "double"].iter().any(|known| format == known) => continue,
            (_, value) => value.clone(),
        };
        to.insert(key.into(), value);
    }
    Value::Object(to)
}

/// A value that may be absent is nullable; one of several kinds is for the controller to check, because a structural schema has one type.
fn choice(from: &Value, branches: &[Value], components: &BTreeMap<String, Value>) -> Value {
    let is_null = |branch: &&Value| branch["type"] == "null";
    let rest: Vec<&Value> = branches.iter().filter(|branch| !is_null(branch)).collect();
    // Values of an enumeration that have a description each.
    let values: Option<Vec<Value>> = rest
        .iter()
        .map(|branch| branch["enum"].as_array().filter(|_| branch["type"] == "string").cloned())
        .collect::<Option<Vec<_>>>()
        .map(|lists| lists.concat());
    let mut to = match (rest.as_slice(), values) {
        ([one], _) => convert(one, components),
        (_, Some(values)) => json!({"type": "string", "enum": values}),
        _ => unknown(),
    };
    if rest.len() < branches.len() {
        to["nullable"] = json!(true);
    }
    described(to, from)
}

fn described(mut to: Value, from: &Value) -> Value {
    if let Some(text) = from.get("description") {
        to["description"] = text.clone();
    }
    to
}

fn unknown() -> Value {
    json!({"x-kubernetes-preserve-unknown-fields": true})
}
