// SPDX-License-Identifier: Apache-2.0
//! Parts of the description as JSON. A part that is not there is a mistake in this crate, which its tests find.

use serde_json::{Map, Value};

/// A component.
pub(super) fn schema<'a>(document: &'a mut Value, name: &str) -> &'a mut Value {
    let schemas = &mut document["components"]["schemas"];
    debug_assert!(schemas.get(name).is_some(), "there is no schema {name}");
    &mut schemas[name]
}

/// A property of a component.
pub(super) fn property<'a>(document: &'a mut Value, of: &str, name: &str) -> &'a mut Value {
    let properties = &mut schema(document, of)["properties"];
    debug_assert!(properties.get(name).is_some(), "there is no property {of}.{name}");
    &mut properties[name]
}

/// Sets the keywords of a schema.
pub(super) fn merge(schema: &mut Value, keywords: &Value) {
    if let (Some(schema), Some(keywords)) = (schema.as_object_mut(), keywords.as_object()) {
        schema.extend(keywords.clone());
    }
}

/// Every operation, with its path and method.
pub(super) fn operations(document: &mut Value) -> impl Iterator<Item = (String, String, &mut Value)> {
    let paths = document["paths"].as_object_mut().into_iter().flat_map(Map::iter_mut);
    paths.flat_map(|(path, methods)| {
        let methods = methods.as_object_mut().into_iter().flat_map(Map::iter_mut);
        methods.map(move |(method, operation)| (path.clone(), method.clone(), operation))
    })
}

/// Every parameter, with its path and name.
pub(super) fn parameters(document: &mut Value) -> impl Iterator<Item = (String, String, &mut Value)> {
    operations(document).flat_map(|(path, _, operation)| {
        let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
        parameters.map(move |parameter| {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            (path.clone(), name, parameter)
        })
    })
}
