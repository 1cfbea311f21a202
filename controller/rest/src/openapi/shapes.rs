// SPDX-License-Identifier: Apache-2.0
//! What the derived schemas leave open: kinds and versions, what each kind of resource may have in a request, what a dry run and a stream
//! answer.

use canopy_controller_api::metadata::DEFAULT_TENANT;
use canopy_controller_api::{API_VERSION, Kind};
use serde_json::{Value, json};

use super::document::{merge, operations, parameters, property, schema};
use super::limits::name;
use crate::watch::Topic;

/// Kinds that clients send, with the component of their spec.
const SENT: [(Kind, &str); 5] = [
    (Kind::Topology, "TopologySpec"),
    (Kind::Drain, "DrainSpec"),
    (Kind::Silence, "SilenceSpec"),
    (Kind::Group, "GroupSpec"),
    (Kind::Member, "MemberSpec"),
];

/// Answers, with their kind.
const ANSWERS: [(&str, Kind); 46] = [
    ("List_SessionItem", Kind::SessionList),
    ("List_TenantItem", Kind::TenantList),
    ("List_Revocation", Kind::RevocationList),
    ("List_TokenItem", Kind::TokenList),
    ("TopologyResource", Kind::Topology),
    ("DrainResource", Kind::Drain),
    ("SilenceResource", Kind::Silence),
    ("NodeResource", Kind::Node),
    ("LinkResource", Kind::Link),
    ("HostResource", Kind::Host),
    ("GroupResource", Kind::Group),
    ("MemberResource", Kind::Member),
    ("List_DrainResource", Kind::DrainList),
    ("List_SilenceResource", Kind::SilenceList),
    ("List_NodeResource", Kind::NodeList),
    ("List_LinkResource", Kind::LinkList),
    ("List_HostResource", Kind::HostList),
    ("List_FlowView", Kind::FlowList),
    ("List_GroupResource", Kind::GroupList),
    ("List_MemberResource", Kind::MemberList),
    ("List_EventItem", Kind::EventList),
    ("List_AuditItem", Kind::AuditList),
    ("CommitResource", Kind::Commit),
    ("List_VersionItem", Kind::VersionList),
    ("List_GroupSample", Kind::GroupTelemetryList),
    ("NodeSample", Kind::NodeTelemetry),
    ("WaitedFor", Kind::WaitedFor),
    ("WaitedStrip", Kind::WaitedStrip),
    ("Paths", Kind::Paths),
    ("DecodedPath", Kind::DecodedPath),
    ("Capture", Kind::Capture),
    ("List_CaptureItem", Kind::CaptureList),
    ("ExpectedPacket", Kind::ExpectedPacket),
    ("Charts", Kind::Charts),
    ("Map", Kind::Map),
    ("MapLayer", Kind::MapLayer),
    ("List_ProblemItem", Kind::ProblemList),
    ("List_ProblemCodeItem", Kind::ProblemCodeList),
    ("List_IncidentItem", Kind::IncidentList),
    ("Incident", Kind::Incident),
    ("ControllerResource", Kind::Controller),
    ("List_ControllerResource", Kind::ControllerList),
    ("List_LogLevelItem", Kind::LogLevelList),
    ("DomainStatus", Kind::DomainStatus),
    ("DryRun", Kind::DryRun),
    ("Validated", Kind::Validated),
];

/// Closes what is open.
pub(super) fn put(document: &mut Value) {
    put_requests(document);
    put_versions(document);
    for (answer, kind) in ANSWERS {
        merge(property(document, answer, "kind"), &json!({"enum": [kind]}));
        if let Some(item) = answer.strip_prefix("List_") {
            property(document, answer, "items")["items"] = reference(item);
        }
    }
    put_dry_runs(document);
    put_streams(document);
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn put_requests(document: &mut Value) {
    let metadata = schema(document, "MetadataInput").clone();
    for (kind, spec) in SENT {
        let input = schema(document, &format!("Input_{spec}"));
        input["properties"]["kind"] = json!({"type": "string", "enum": [kind]});
        input["properties"]["metadata"] = reference(&format!("MetadataInput_{kind}"));
        let mut metadata = metadata.clone();
        let fields = &mut metadata["properties"];
        let described = |text: &str, mut keywords: Value| {
            keywords["description"] = text.into();
            keywords
        };
        fields["name"] = match kind {
            Kind::Topology => described("`default`.", json!({"type": "string", "enum": ["default"]})),
            Kind::Member => described("Its host's name, or left out.", json!({"type": ["string", "null"]})),
            _ => described("Unique among resources of its kind, a DNS-1123 label.", name()),
        };
        fields["tenant"] = match kind {
            Kind::Group => {
                let mut keywords = name();
                keywords["type"] = json!(["string", "null"]);
                described("The tenant that it is created in, and stays in; `default` when left out.", keywords)
            }
            Kind::Member => described("The group's, or left out.", json!({"type": "null"})),
            _ => described("`default`, or left out.", json!({"enum": [DEFAULT_TENANT, null]})),
        };
        if kind == Kind::Member {
            merge(&mut fields["labels"], &json!({"maxProperties": 0, "description": "Members carry none."}));
        } else {
            metadata["required"] = json!(["name"]);
            metadata["properties"]["group"] = described("Of members only.", json!({"type": "null"}));
        }
        document["components"]["schemas"][format!("MetadataInput_{kind}")] = metadata;
    }
    // One target, and the acceptance of a loss for nodes only.
    merge(
        schema(document, "DrainSpec"),
        &json!({"oneOf": [
            {"required": ["link"], "properties": {"link": {"type": "string"}, "node": {"type": "null"}, "acceptLoss": {"const": false}}},
            {"required": ["node"], "properties": {"node": {"type": "string"}, "link": {"type": "null"}}}]}),
    );
    // One target; of objects with an end.
    let targets = ["problem", "node", "link", "group", "host"];
    let one = targets.map(|target| {
        let others = targets.iter().filter(|other| **other != target);
        let mut properties: serde_json::Map<_, _> =
            others.map(|other| ((*other).to_owned(), json!({"type": "null"}))).collect();
        properties.insert(target.to_owned(), json!({"type": "string"}));
        let mut required = vec![target];
        if target != "problem" {
            required.push("until");
            properties.insert("until".to_owned(), json!({"type": "string"}));
        }
        json!({"required": required, "properties": properties})
    });
    merge(schema(document, "SilenceSpec"), &json!({"oneOf": one}));
    for (_, spec) in SENT {
        let limited = schema(document, spec).clone();
        *property(document, &format!("Input_{spec}"), "spec") = limited;
    }
    let any: Vec<Value> = SENT.iter().map(|(_, spec)| reference(&format!("Input_{spec}"))).collect();
    for takes in ["Validate", "ChangeSetInput"] {
        property(document, takes, "items")["items"] = json!({"anyOf": any});
    }
}

/// Every `apiVersion` is the one that there is.
fn put_versions(value: &mut Value) {
    match value {
        Value::Object(object) => {
            for (key, of) in object {
                if key == "apiVersion" && of["type"] == "string" {
                    merge(of, &json!({"enum": [API_VERSION]}));
                }
                put_versions(of);
            }
        }
        Value::Array(array) => array.iter_mut().for_each(put_versions),
        _ => {}
    }
}

/// With `dryRun`, a write that would be carried out answers 200 with what it would do.
fn put_dry_runs(document: &mut Value) {
    for (_, method, operation) in operations(document) {
        let parameters = operation.get("parameters").and_then(Value::as_array);
        if !parameters.is_some_and(|all| all.iter().any(|parameter| parameter["name"] == "dryRun")) {
            continue;
        }
        let written = match method.as_str() {
            "delete" => None,
            _ => Some(operation["responses"]["201"]["content"]["application/json"]["schema"].clone()),
        };
        let answers = written.into_iter().chain([reference("DryRun")]).collect::<Vec<_>>();
        operation["responses"]["200"]["content"]["application/json"]["schema"] = json!({"anyOf": answers});
    }
}

/// The events of a stream.
fn put_streams(document: &mut Value) {
    let names = "(added|modified|deleted)";
    let kinds = Topic::ALL.map(Topic::name);
    let topics = format!("({})", kinds.join("|"));
    document["components"]["schemas"]["WatchEvent"] = json!({
        "type": "object",
        "description": "One server-sent event.",
        "required": ["event", "data"],
        "properties": {
            "event": {"type": "string", "description": "`added`, `modified` or `deleted`, behind the kind and a point in a stream of several kinds; `synced` after the present state; `heartbeat`; `gone` and `bye` at the end.",
                "pattern": format!(r"^({names}|{topics}\.{names}|({topics}\.)?(synced|gone)|heartbeat|bye)$")},
            "id": {"type": "string", "description": "Send as `after` to continue behind this event."},
            "data": {"type": "string", "description": "The resource, or what the event is about, as JSON on one line."}}});
    for (_, name, parameter) in parameters(document) {
        if name == "topics" {
            // Separated by commas.
            merge(parameter, &json!({"style": "form", "explode": false}));
            parameter["schema"] = json!({"type": "array", "items": {"type": "string", "enum": kinds}, "minItems": 1, "uniqueItems": true});
        }
    }
    for (_, _, operation) in operations(document) {
        if let Some(stream) = operation.pointer_mut("/responses/200/content/text~1event-stream") {
            stream["schema"] = reference("WatchEvent");
        }
    }
}
