// SPDX-License-Identifier: Apache-2.0
//! `explain KIND[.FIELD]`: fields of a kind, from the controller's own description of its API.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::Value;

use crate::failure::{Exit, Failure};
use crate::output::{clean, table};

/// Kinds, with their component of the description.
const KINDS: [(&str, &str); 14] = [
    ("topology", "TopologyResource"),
    ("drain", "DrainResource"),
    ("node", "NodeResource"),
    ("link", "LinkResource"),
    ("host", "HostResource"),
    ("flow", "FlowView"),
    ("group", "GroupResource"),
    ("member", "MemberResource"),
    ("event", "EventItem"),
    ("problem", "ProblemItem"),
    ("incident", "IncidentItem"),
    ("commit", "CommitResource"),
    ("controller", "ControllerResource"),
    ("audit", "AuditItem"),
];
/// Ends of names, with the unit that they stand for. A longer one is before what it ends with.
const UNITS: [(&str, &str); 9] = [
    ("BytesPerMs", "octets per millisecond"),
    ("Bytes", "octets"),
    ("Bps", "bits per second"),
    ("Permille", "thousandths"),
    ("Seconds", "seconds"),
    ("UnixNs", "nanoseconds since the Unix epoch"),
    ("Ms", "milliseconds"),
    ("Us", "microseconds"),
    ("Ns", "nanoseconds"),
];

/// The component that a path begins with, if that is a kind; singular or plural.
pub(super) fn kind(path: &str) -> Option<&'static str> {
    let kind = path.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let is = |name: &str| kind == name || kind.strip_suffix('s') == Some(name);
    KINDS.iter().find(|(name, _)| is(name)).map(|(_, component)| *component)
}

/// The names of all kinds.
pub(super) fn kinds() -> String {
    KINDS.map(|(name, _)| name).join(", ")
}

/// Explains the field at `path` of `component`, or the component itself.
///
/// # Errors
/// There is no such field: names those that there are.
pub(super) fn explain(document: &Value, component: &str, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let document = Document(document);
    let mut at = document.component(component);
    let mut so_far = path.split('.').next().unwrap_or_default().to_owned();
    for name in path.split('.').skip(1) {
        let fields = at.fields(&document);
        let Some(field) = fields.get(name) else {
            let known: Vec<&str> = fields.keys().copied().collect();
            let has = if known.is_empty() { "no fields".to_owned() } else { known.join(", ") };
            return Err(Failure::new(Exit::NotFound, format!("{so_far} has no field {name:?}: it has {has}")));
        };
        at = document.resolved(field);
        so_far = format!("{so_far}.{name}");
    }
    at.write(&document, &so_far, out)
}

struct Document<'a>(&'a Value);

/// A field, or a component: what the description has of it, behind references.
struct Field<'a> {
    /// Where the references end.
    schema: &'a Value,
    /// The outermost: it is about this field, and not about its type.
    description: &'a str,
    default: Option<&'a Value>,
    is_list: bool,
    may_be_null: bool,
}

impl<'a> Document<'a> {
    fn component(&self, name: &str) -> Field<'a> {
        self.resolved(&self.0["components"]["schemas"][name])
    }

    /// Follows references, what may be null, and the items of lists.
    fn resolved(&self, of: &'a Value) -> Field<'a> {
        let mut field = Field { schema: of, description: "", default: None, is_list: false, may_be_null: false };
        loop {
            let schema = field.schema;
            if field.description.is_empty() {
                field.description = schema["description"].as_str().unwrap_or_default();
            }
            field.default = field.default.or(schema.get("default"));
            if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
                field.schema = &self.0["components"]["schemas"][name];
                continue;
            }
            let alternatives = schema["oneOf"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_null = |of: &&Value| of["type"] == "null";
            let others: Vec<&Value> = alternatives.iter().filter(|of| !is_null(of)).collect();
            if let ([other], None) = (others.as_slice(), schema.get("properties")) {
                field.may_be_null |= alternatives.iter().any(|of| is_null(&of));
                field.schema = other;
                continue;
            }
            if schema["type"] == "array" && schema.get("items").is_some() {
                field.is_list = true;
                field.schema = &schema["items"];
                continue;
            }
            return field;
        }
    }
}

impl<'a> Field<'a> {
    /// By name, those of all parts.
    fn fields(&self, document: &Document<'a>) -> BTreeMap<&'a str, &'a Value> {
        let own = self.schema["properties"].as_object().into_iter().flatten();
        let mut fields: BTreeMap<&str, &Value> = own.map(|(name, of)| (name.as_str(), of)).collect();
        for part in self.parts() {
            fields.extend(document.resolved(part).fields(document));
        }
        fields
    }

    fn requires(&self, document: &Document<'a>, name: &str) -> bool {
        let own = self.schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        own.iter().any(|of| of == name)
            || self.parts().iter().any(|part| document.resolved(part).requires(document, name))
    }

    fn parts(&self) -> &'a [Value] {
        self.schema["allOf"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// As a person names the type.
    fn kind(&self) -> String {
        let types = match &self.schema["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ if self.schema.get("allOf").is_some() => vec!["object"],
            _ if self.schema.get("oneOf").is_some() => vec!["one of several forms"],
            _ => vec!["any"],
        };
        let is_null = self.may_be_null || types.contains(&"null");
        let named = types.iter().find(|of| **of != "null").copied().unwrap_or("null");
        let named = match (named, self.schema["format"].as_str()) {
            ("object", _) if self.schema.get("properties").is_none() && self.parts().is_empty() => "map",
            ("string", Some(format @ ("ipv6" | "date-time"))) => format,
            (named, _) => named,
        };
        let list = if self.is_list { "list of " } else { "" };
        format!("{list}{named}{}", if is_null { " or null" } else { "" })
    }

    fn write(&self, document: &Document<'a>, path: &str, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "{path}: {}\n\n{}", self.kind(), clean(self.description))?;
        let facts = self.facts(path);
        if !facts.is_empty() {
            writeln!(out)?;
        }
        for (name, value) in facts {
            writeln!(out, "{:<10}{}", format!("{name}:"), clean(&value))?;
        }
        let fields = self.fields(document);
        if fields.is_empty() {
            return Ok(());
        }
        let row = |(name, of): (&&str, &&'a Value)| {
            let field = document.resolved(of);
            let mark = if self.requires(document, name) { "" } else { "optional" };
            vec![(*name).to_owned(), field.kind(), mark.to_owned(), first_sentence(field.description)]
        };
        writeln!(out)?;
        table(out, &["FIELD", "TYPE", "", "MEANING"], fields.iter().map(row).collect())
    }

    /// Unit, limits, values and default.
    fn facts(&self, path: &str) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        let name = path.rsplit('.').next().unwrap_or_default();
        if let Some((_, unit)) = UNITS.iter().find(|(end, _)| name.ends_with(end)) {
            facts.push(("unit", (*unit).to_owned()));
        }
        if let Some(values) = self.schema["enum"].as_array() {
            let values: Vec<String> = values.iter().map(plain).collect();
            facts.push(("values", values.join(", ")));
        } else if let (Some(least), Some(most)) = (self.schema.get("minimum"), self.schema.get("maximum")) {
            facts.push(("range", format!("{least}..={most}")));
        }
        for (name, keyword) in [("pattern", "pattern"), ("longest", "maxLength"), ("most", "maxProperties")] {
            facts.extend(self.schema.get(keyword).map(|value| (name, plain(value))));
        }
        facts.extend(self.default.filter(|default| !default.is_null()).map(|default| ("default", plain(default))));
        facts
    }
}

/// A string without quotation marks, anything else as JSON.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn first_sentence(text: &str) -> String {
    let text = clean(text);
    text.find(". ").map_or(text.as_str(), |end| &text[..=end]).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Value {
        json!({"components": {"schemas": {
            "GroupResource": {"type": "object", "description": "A group.", "required": ["spec"], "properties": {
                "spec": {"$ref": "#/components/schemas/Spec", "description": "As declared. More of it."},
                "delivery": {"oneOf": [{"$ref": "#/components/schemas/State", "description": "How it goes."}, {"type": "null"}]},
                "nodes": {"type": "array", "description": "Each node.", "items": {"$ref": "#/components/schemas/Node"}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 32}}},
            "Spec": {"type": "object", "description": "A spec.", "properties": {
                "stallAfterMs": {"type": "integer", "minimum": 10, "maximum": 60000, "default": 200, "description": "Time.\nLong."}}},
            "State": {"type": "string", "enum": ["Flowing", "Idle"], "description": "A state."},
            "Node": {"type": "object", "description": "One.", "properties": {"name": {"type": ["string", "null"], "format": "ipv6"}}}}}})
    }

    fn shown(path: &str) -> Result<String, String> {
        let mut out = Vec::new();
        let component = kind(path).unwrap();
        explain(&document(), component, path, &mut out).map_err(|f| f.message)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn a_field_has_type_unit_range_default_and_description() {
        assert_eq!(
            shown("group.spec.stallAfterMs").unwrap(),
            "group.spec.stallAfterMs: integer\n\nTime. Long.\n\nunit:     milliseconds\nrange:    10..=60000\ndefault:  200\n"
        );
        // The description of the field, not of its type.
        assert_eq!(
            shown("groups.delivery").unwrap(),
            "groups.delivery: string or null\n\nHow it goes.\n\nvalues:   Flowing, Idle\n"
        );
        assert!(shown("group.nodes.name").unwrap().starts_with("group.nodes.name: ipv6 or null\n"));
        assert!(shown("group.labels").unwrap().starts_with("group.labels: map\n\n"), "{:?}", shown("group.labels"));
    }

    #[test]
    fn a_kind_lists_its_fields_and_an_unknown_field_is_answered_with_them() {
        let group = shown("group").unwrap();
        assert!(group.starts_with("group: object\n\nA group.\n\nFIELD"), "{group}");
        let row = |name: &str| {
            group.lines().find(|line| line.starts_with(name)).unwrap().split_whitespace().collect::<Vec<_>>()
        };
        assert_eq!(row("spec"), ["spec", "object", "As", "declared."]);
        assert_eq!(row("nodes"), ["nodes", "list", "of", "object", "optional", "Each", "node."]);
        let error = shown("group.spec.stall").unwrap_err();
        assert_eq!(error, "group.spec has no field \"stall\": it has stallAfterMs");
        assert!(shown("group.spec.stallAfterMs.x").unwrap_err().ends_with("it has no fields"));
        assert_eq!((kind("LinkDown"), kind("hosts.status")), (None, Some("HostResource")));
    }
}
