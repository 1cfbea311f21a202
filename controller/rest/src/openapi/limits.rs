// SPDX-License-Identifier: Apache-2.0
//! Limits of fields and parameters, from the constants that the checks use: none is written here a second time.

use std::ops::RangeInclusive;
use std::time::Duration;

use canopy_controller_actor::change_sets::MAX_ITEMS;
use canopy_controller_actor::commit::{MAX_TIMEOUT, MIN_TIMEOUT};
use canopy_controller_actor::events::RING;
use canopy_controller_core::audit::Action;
use canopy_controller_core::chart::series::Series;
use canopy_controller_core::chart::store::MAX_STEP;
use canopy_controller_core::fields::{DrainField, Field, GroupField, HostField, LinkField, NodeField, ProblemField};
use canopy_controller_core::incident::MAX_INCIDENTS;
use canopy_controller_core::limits::{MAX_HOSTS, MAX_LINKS, MAX_NODES};
use canopy_controller_core::map::Layer;
use canopy_controller_core::role::Role;
use canopy_model::drain::MAX_REASON;
use canopy_model::group::{CNP_WINDOW, MAX_FLIGHT, MAX_RECEIVERS, PATH_MTUS, STALL_AFTER};
use canopy_model::ids::{GroupId, MAX_NAME, NodeId, PortIndex, Psn, Qpn, TreeId};
use canopy_model::labels::{MAX_LABEL_PREFIX, MAX_LABEL_WORD, MAX_LABELS};
use canopy_model::log_level::{LEVELS, MAX_FILTER};
use canopy_model::retirement::TIMEOUT_SECONDS;
use canopy_model::silence::MAX_NOTE;
use canopy_model::topology::{
    MAX_LINK_MTU, MAX_LINK_RTT, MAX_PORT, MIN_BUFFER, MIN_K_BASE, MIN_LINK_MTU, NODE_TIERS, V_ECN_PERMILLE,
};
use serde_json::{Value, json};

use super::document::{merge, parameters, property, schema};
use crate::routes::single_sign_on::MAX_PART;
use crate::routes::{captures, flows, history, log_levels, page, paths, problems, tokens, waited};
use crate::sessions::CODE_LENGTH;
use crate::watch::LASTS;

/// Limits of a field: component, property, keywords.
type Limit = (&'static str, &'static str, Value);

/// A name as `check_name` accepts it.
pub(super) fn name() -> Value {
    json!({"type": "string", "pattern": name_pattern(), "maxLength": MAX_NAME, "minLength": 1})
}

fn name_pattern() -> String {
    format!("^[a-z0-9]([a-z0-9-]{{0,{}}}[a-z0-9])?$", MAX_NAME - 2)
}

/// A filter of log lines as `LogFilter` accepts it.
fn log_filter() -> Value {
    let directive = format!("([a-z0-9_:]+=)?({})", LEVELS.join("|"));
    json!({"pattern": format!("^{directive}(,{directive})*$"), "maxLength": MAX_FILTER})
}

/// Limits of the fields of requests.
pub(super) fn of_fields() -> Vec<Limit> {
    let subject = format!("^(node|host)/[a-z0-9]([a-z0-9-]{{0,{}}}[a-z0-9])?$", MAX_NAME - 2);
    let buffer = range(MIN_BUFFER.get()..=u64::MAX);
    let v_ecn = range((*V_ECN_PERMILLE.start()).into()..=(*V_ECN_PERMILLE.end()).into());
    let v_growth = range(1..=u64::MAX);
    vec![
        ("GroupSpec", "pathMtu", json!({"enum": PATH_MTUS})),
        ("GroupSpec", "cnpWindowUs", spans(&CNP_WINDOW, |span| span.as_micros())),
        ("GroupSpec", "stallAfterMs", spans(&STALL_AFTER, |span| span.as_millis())),
        ("GroupSpec", "maxFlight", range(1..=MAX_FLIGHT.into())),
        ("GroupSpec", "minReceivers", range(1..=MAX_RECEIVERS.into())),
        ("DrainSpec", "reason", json!({"minLength": 1, "maxLength": MAX_REASON, "pattern": r"\S"})),
        ("RetireSpec", "reason", json!({"minLength": 1, "maxLength": MAX_REASON, "pattern": r"\S"})),
        ("RetireSpec", "timeoutSeconds", range(TIMEOUT_SECONDS)),
        ("SilenceSpec", "note", json!({"minLength": 1, "maxLength": MAX_NOTE, "pattern": r"\S"})),
        ("SilenceSpec", "problem", json!({"pattern": ID})),
        ("MemoryRegion", "length", range(1..=u64::MAX)),
        ("MemberSpec", "host", name()),
        ("MemberSpec", "address", json!({"format": "ipv6"})),
        ("TopologySpec", "nodes", json!({"minItems": 1, "maxItems": MAX_NODES})),
        ("TopologySpec", "hosts", json!({"maxItems": MAX_HOSTS})),
        ("TopologySpec", "links", json!({"maxItems": MAX_LINKS})),
        ("NodeDecl", "name", name()),
        ("NodeDecl", "site", json!({"pattern": name_pattern(), "maxLength": MAX_NAME, "minLength": 1})),
        ("NodeDecl", "tier", range((*NODE_TIERS.start()).into()..=(*NODE_TIERS.end()).into())),
        ("HostDecl", "name", name()),
        ("HostDecl", "address", json!({"format": "ipv6"})),
        ("HostDecl", "prefix", json!({"format": "ipv6-prefix"})),
        ("LinkDecl", "mtu", range(MIN_LINK_MTU.into()..=MAX_LINK_MTU.into())),
        ("LinkDecl", "rttUs", range(1..=u64::try_from(MAX_LINK_RTT.as_micros()).unwrap_or(u64::MAX))),
        ("LinkDecl", "alpha", range(1..=u16::MAX.into())),
        ("LinkDecl", "kBaseBytes", range(MIN_K_BASE.get()..=u64::MAX)),
        ("LinkDecl", "bufferBytes", of_ends(&buffer)),
        ("LinkDecl", "vEcn", of_ends(&v_ecn)),
        ("LinkDecl", "vGrowthBytesPerMs", of_ends(&v_growth)),
        ("CommitBegin", "timeoutSeconds", spans(&(MIN_TIMEOUT..=MAX_TIMEOUT), |span| span.as_secs().into())),
        ("CommitExtend", "timeoutSeconds", spans(&(MIN_TIMEOUT..=MAX_TIMEOUT), |span| span.as_secs().into())),
        ("CaptureRequest", "psn", range(Psn::RANGE)),
        ("CaptureRequest", "withinSeconds", range(captures::WITHIN)),
        ("LogLevelRequest", "node", json!({"pattern": name_pattern(), "maxLength": MAX_NAME, "minLength": 1})),
        ("LogLevelRequest", "level", log_filter()),
        ("LogLevelRequest", "forSeconds", range(log_levels::HOLDS)),
        ("CommitExtend", "id", json!({"pattern": ID})),
        ("CommitEnd", "id", json!({"pattern": ID})),
        ("MetadataInput", "labels", labels()),
        ("NodeDecl", "labels", labels()),
        ("TokenInput", "name", name()),
        ("TokenInput", "tenant", json!({"pattern": name_pattern(), "maxLength": MAX_NAME, "minLength": 1})),
        ("TokenInput", "role", json!({"enum": Role::ALL})),
        ("TokenInput", "forSeconds", range(tokens::LIVES)),
        ("TokenInput", "certificateRequest", json!({"minLength": 1, "maxLength": tokens::MAX_REQUEST})),
        ("SubjectRequest", "subject", json!({"pattern": subject})),
        ("ProviderAnswer", "code", json!({"minLength": 1, "maxLength": MAX_PART})),
        ("ProviderAnswer", "state", json!({"minLength": 1, "maxLength": MAX_PART})),
        ("ProviderAnswer", "issuer", json!({"maxLength": MAX_PART})),
        ("AuthorityRequest", "acceptLoss", json!({"items": {"type": "string", "pattern": subject}})),
        ("SignIn", "code", json!({"pattern": format!("^[A-Za-z0-9_-]{{{CODE_LENGTH}}}$")})),
        ("Validate", "items", json!({"maxItems": MAX_ITEMS})),
        ("ChangeSetInput", "items", json!({"minItems": 1, "maxItems": MAX_ITEMS})),
    ]
}

/// Names of a pending commit and of a plan.
const ID: &str = "^[0-9a-f]{16}$";
/// A key in quotes or without.
const IDEMPOTENCY_KEY: &str = r#"^("[ !#-\[\]-~]{1,128}"|[!#-\[\]-~]{1,128})$"#;

/// Puts every limit into the description.
pub(super) fn put(document: &mut Value) {
    put_widths(document);
    for id in [
        ("NodeId", NodeId::RANGE),
        ("PortIndex", PortIndex::RANGE),
        ("Qpn", Qpn::RANGE),
        ("Psn", Psn::RANGE),
        ("TreeId", TreeId::RANGE),
        ("GroupId", GroupId::RANGE),
    ] {
        merge(schema(document, id.0), &range(id.1));
    }
    // Interface names in ASCII: the limit is in octets, and a schema counts characters. The server also takes others.
    let endpoint = format!("^[a-z0-9]([a-z0-9-]{{0,{}}}[a-z0-9])?/[!-.0-~]{{1,{MAX_PORT}}}$", MAX_NAME - 2);
    merge(schema(document, "Endpoint"), &json!({"pattern": endpoint}));
    for (of, field, keywords) in of_fields() {
        let property = property(document, of, field);
        if keywords.get("oneOf").is_some() {
            let description = property.get("description").cloned().unwrap_or_default();
            *property = json!({"description": description});
        }
        merge(property, &keywords);
    }
    for (path, name, parameter) in parameters(document) {
        if let Some(keywords) = of_parameter(&path, &name) {
            merge(&mut parameter["schema"], &keywords);
        }
        // A header or a parameter is there or not: it is never null.
        if parameter["schema"]["type"] == json!(["string", "null"]) {
            parameter["schema"]["type"] = "string".into();
        }
    }
}

fn of_parameter(path: &str, name: &str) -> Option<Value> {
    let up_to = |most: usize| range(1..=most as u64);
    Some(match (path, name) {
        (
            "/api/v1/groups" | "/api/v1/nodes" | "/api/v1/links" | "/api/v1/hosts" | "/api/v1/tenants"
            | "/api/v1/paths",
            "limit",
        ) => up_to(page::MAX_PAGE),
        ("/api/v1/audit", "limit") => up_to(history::MAX_PAGE),
        ("/api/v1/events", "limit") => up_to(RING),
        ("/api/v1/problems", "limit") => up_to(problems::MAX_LIMIT),
        ("/api/v1/incidents", "limit") => up_to(MAX_INCIDENTS),
        ("/api/v1/flows", "limit") => up_to(flows::MAX_LIMIT),
        ("/api/v1/charts", "object") => {
            json!({"pattern": "^(fleet|(group|node)/[^/]+|link/[^/]+/[^/]+|branch/[^/]+/[^/]+/[0-9a-f:.]+)$"})
        }
        ("/api/v1/charts", "series") => json!({"enum": Series::ALL}),
        ("/api/v1/charts", "step") => range(1..=MAX_STEP),
        ("/api/v1/audit", "action") => json!({"enum": Action::ALL}),
        ("/api/v1/groups/{group}/waited-for" | "/api/v1/groups/{group}/waited-for/strip", "limit") => {
            up_to(waited::MAX_LIMIT)
        }
        ("/api/v1/audit", "continue") => json!({"pattern": "^[0-9]{1,19}$"}),
        // The hexadecimal digits of a name.
        ("/api/v1/groups" | "/api/v1/nodes" | "/api/v1/hosts" | "/api/v1/tenants", "continue") => {
            json!({"pattern": format!("^(2d|3[0-9]|6[1-9a-f]|7[0-9a]){{1,{MAX_NAME}}}$")})
        }
        // Those of `node/port`.
        ("/api/v1/links", "continue") => {
            let (node, port) = ("(2d|3[0-9]|6[1-9a-f]|7[0-9a])", "(2[1-9a-e]|[3-6][0-9a-f]|7[0-9a-e])");
            json!({"pattern": format!("^{node}{{1,{MAX_NAME}}}2f{port}{{1,{MAX_PORT}}}$")})
        }
        // The hexadecimal digits of a number.
        ("/api/v1/paths", "continue") => json!({"pattern": "^(3[0-9]){1,19}$"}),
        ("/api/v1/paths", "from" | "to") | ("/api/v1/paths/decode", "at") => self::name(),
        ("/api/v1/paths/decode", "segmentsLeft") => range(0..=u8::MAX.into()),
        ("/api/v1/paths/decode", "address") => json!({"format": "ipv6"}),
        ("/api/v1/paths/decode", "segments") => {
            let more = paths::MAX_SEGMENTS - 1;
            json!({"pattern": format!("^[0-9A-Fa-f:.]{{2,45}}(,[0-9A-Fa-f:.]{{2,45}}){{0,{more}}}$")})
        }
        (_, "labelSelector") => json!({"pattern": selector()}),
        ("/api/v1/groups", "fieldSelector") => json!({"pattern": field_selector::<GroupField>()}),
        ("/api/v1/nodes", "fieldSelector") => json!({"pattern": field_selector::<NodeField>()}),
        ("/api/v1/hosts", "fieldSelector") => json!({"pattern": field_selector::<HostField>()}),
        ("/api/v1/links", "fieldSelector") => json!({"pattern": field_selector::<LinkField>()}),
        ("/api/v1/drains", "fieldSelector") => json!({"pattern": field_selector::<DrainField>()}),
        ("/api/v1/problems", "fieldSelector") => json!({"pattern": field_selector::<ProblemField>()}),
        ("/api/v1/versions", "kind") => json!({"enum": history::VERSIONED}),
        // A sequence number for the list, a token for the stream.
        ("/api/v1/events", "after") => json!({"pattern": r"^([0-9a-f]{16}\.)?[0-9]{1,19}$"}),
        ("/api/v1/events", "before") => json!({"pattern": "^[0-9]{1,19}$"}),
        ("/api/v1/map/layers/{layer}", "layer") => json!({"enum": Layer::ALL.map(Layer::name)}),
        (_, "since") => json!({"pattern": r"^[0-9a-f]{16}\.[0-9]{1,19}$"}),
        (_, "set") => json!({"pattern": ID}),
        (_, "capture") => json!({"pattern": "^[0-9a-f]{8}$"}),
        (_, "after") => json!({"pattern": r"^[0-9a-f]{16}\.[0-9]{1,19}$"}),
        (_, "timeoutSeconds") => range(LASTS),
        (_, "If-Match") => json!({"pattern": r#"^(\*|"[!#-~]+")$"#, "minLength": 1}),
        (_, "If-None-Match") => json!({"enum": ["*"]}),
        (_, "Idempotency-Key") => json!({"pattern": IDEMPOTENCY_KEY}),
        (_, "Canopy-Manager") => json!({"pattern": "^[A-Za-z0-9_.-]{1,63}$"}),
        (_, "If-Plan-Match" | "Canopy-Commit") => json!({"pattern": ID}),
        (_, "group" | "drain" | "host" | "token") if path.contains(&format!("{{{name}}}")) => self::name(),
        _ => return None,
    })
}

fn range(range: RangeInclusive<u64>) -> Value {
    json!({"minimum": range.start(), "maximum": range.end()})
}

fn spans(range: &RangeInclusive<Duration>, unit: fn(&Duration) -> u128) -> Value {
    let number = |span| u64::try_from(unit(span)).unwrap_or(u64::MAX);
    self::range(number(range.start())..=number(range.end()))
}

/// A number of both ends of a link, or of each.
fn of_ends(limits: &Value) -> Value {
    let number = |types: Value| {
        let mut number = json!({"type": types, "format": "uint64"});
        merge(&mut number, limits);
        number
    };
    let end = number(json!(["integer", "null"]));
    json!({"oneOf": [number(json!("integer")),
        {"type": "object", "additionalProperties": false, "properties": {"a": end, "b": end}}, {"type": "null"}]})
}

fn labels() -> Value {
    let word = "[A-Za-z0-9._-]";
    json!({"maxProperties": MAX_LABELS,
        "propertyNames": {"type": "string", "pattern": format!("^({word}{{0,{MAX_LABEL_PREFIX}}}/)?{word}{{1,{MAX_LABEL_WORD}}}$")},
        "additionalProperties": {"type": "string", "pattern": format!("^{word}{{0,{MAX_LABEL_WORD}}}$")}})
}

/// What `Selector::parse` accepts.
fn selector() -> String {
    let (key, value) = ("[A-Za-z0-9._/-]+", "[A-Za-z0-9._-]*");
    let values = format!(r"\( *{value} *(, *{value} *)*\)");
    let requirement = format!(" *(! *{key}|{key} *((==?|!=) *{value})?|{key} +(not)?in *{values})? *");
    format!("^{requirement}(,{requirement})*$")
}

/// What `FieldSelector::parse` accepts.
fn field_selector<F: Field>() -> String {
    let value = |field: &F| match field.values().join("|") {
        // Everything but spaces, `!`, `,` and `=`.
        any if any.is_empty() => r#"["-+\--<>-~]*"#.to_owned(),
        values => format!("({values})"),
    };
    let of_fields = F::ALL.iter().map(|field| format!("{} *(==?|!=) *{}", field.name(), value(field)));
    let requirement = format!(" *({})? *", of_fields.collect::<Vec<_>>().join("|"));
    format!("^{requirement}(,{requirement})*$")
}

/// Unsigned numbers of 32 and 64 bits, which the generator describes as signed ones.
fn put_widths(value: &mut Value) {
    match value {
        Value::Object(object) => {
            let (format, most) = match object.get("format").and_then(Value::as_str) {
                Some("int32") => ("uint32", u64::from(u32::MAX)),
                Some("int64") => ("uint64", u64::MAX),
                _ => ("", 0),
            };
            if !format.is_empty() && object.get("minimum").and_then(Value::as_u64).is_some() {
                object.insert("format".into(), format.into());
                object.entry("maximum").or_insert(most.into());
            }
            object.values_mut().for_each(put_widths);
        }
        Value::Array(array) => array.iter_mut().for_each(put_widths),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::selector::Selector;
    use canopy_model::drain::DrainSpec;
    use canopy_model::group::GroupSpec;
    use canopy_model::ids::check_name;
    use canopy_model::retirement::RetireSpec;
    use canopy_model::topology::TopologySpec;

    use super::*;

    /// Whether the server's checks accept `value` in a field of a request that is otherwise valid.
    fn accepts(of: &str, field: &str, value: Value) -> bool {
        let mut topology = json!({"nodes": [{"name": "n1", "id": 1}, {"name": "n2", "id": 2}], "links": [{"a": "n1/eth1", "b": "n2/eth1"}]});
        match of {
            "GroupSpec" => {
                serde_json::from_value::<GroupSpec>(json!({field: value})).is_ok_and(|g| g.validate().is_ok())
            }
            "DrainSpec" => {
                let mut drain = json!({"node": "n1", "reason": "optics"});
                drain[field] = value;
                serde_json::from_value::<DrainSpec>(drain).is_ok_and(|d| d.validate("d").is_ok())
            }
            "RetireSpec" => {
                serde_json::from_value::<RetireSpec>(json!({field: value})).is_ok_and(|of| of.validate().is_ok())
            }
            "NodeDecl" => {
                topology["nodes"][0][field] = value;
                serde_json::from_value::<TopologySpec>(topology).is_ok_and(|t| t.validate().is_ok())
            }
            "LinkDecl" => {
                topology["links"][0][field] = value;
                serde_json::from_value::<TopologySpec>(topology).is_ok_and(|t| t.validate().is_ok())
            }
            other => panic!("{other} is not known here"),
        }
    }

    /// Catches a limit of the description that is not the one of the check: the server accepts both ends of the range and nothing beyond.
    #[test]
    fn the_server_accepts_each_range_to_its_ends_and_nothing_beyond() {
        let mut checked = 0;
        for (of, field, keywords) in of_fields() {
            let numbers = keywords.get("oneOf").map_or(&keywords, |one| &one[0]);
            let (Some(least), Some(most)) = (numbers["minimum"].as_u64(), numbers["maximum"].as_u64()) else {
                continue;
            };
            if matches!(
                of,
                "MemoryRegion" | "CaptureRequest" | "LogLevelRequest" | "TokenInput" | "CommitBegin" | "CommitExtend"
            ) {
                continue;
            }
            checked += 1;
            for good in [least, most] {
                assert!(accepts(of, field, good.into()), "{of}.{field} {good}");
            }
            let below = least.checked_sub(1);
            for bad in below.into_iter().chain(most.checked_add(1)) {
                assert!(!accepts(of, field, bad.into()), "{of}.{field} {bad}");
            }
            if keywords.get("oneOf").is_some() {
                assert!(
                    accepts(of, field, json!({"b": least})) && !accepts(of, field, json!({"b": least - 1})),
                    "{of}.{field}"
                );
            }
        }
        assert_eq!(checked, 13);
        for mtu in PATH_MTUS {
            assert!(accepts("GroupSpec", "pathMtu", mtu.into()) && !accepts("GroupSpec", "pathMtu", (mtu + 1).into()));
        }
        for (count, is_good) in [(0, false), (1, true), (MAX_REASON, true), (MAX_REASON + 1, false)] {
            assert_eq!(accepts("DrainSpec", "reason", "é".repeat(count).into()), is_good, "{count}");
            assert_eq!(accepts("RetireSpec", "reason", "é".repeat(count).into()), is_good, "{count}");
        }
        for (port, is_good) in [(0, false), (1, true), (MAX_PORT, true), (MAX_PORT + 1, false)] {
            assert_eq!(accepts("LinkDecl", "a", format!("n1/{}", "x".repeat(port)).into()), is_good, "{port}");
        }
    }

    #[test]
    fn identifiers_and_names_end_where_the_description_has_it() {
        type Check = fn(u64) -> bool;
        let ids: [(RangeInclusive<u64>, Check); 3] = [
            (NodeId::RANGE, |v| NodeId::new("", v).is_ok()),
            (Qpn::RANGE, |v| Qpn::new("", v).is_ok()),
            (Psn::RANGE, |v| Psn::new("", v).is_ok()),
        ];
        for (range, check) in ids {
            assert!(check(*range.start()) && check(*range.end()) && !check(range.end() + 1), "{range:?}");
            assert!(range.start().checked_sub(1).is_none_or(|below| !check(below)), "{range:?}");
        }
        for (count, is_good) in [(0, false), (1, true), (MAX_NAME, true), (MAX_NAME + 1, false)] {
            assert_eq!(check_name("", &"a".repeat(count)).is_ok(), is_good, "{count}");
        }
        assert_eq!(name()["pattern"], "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$");
    }

    #[test]
    fn selectors_are_what_the_description_has() {
        // Only a run of the schema's engine shows that the pattern is the parser's; the test of the description does it.
        for good in
            ["", "a", "a,,b", " a == b ,c!=d", "x.io/a=", "a=", "! a", "a in(b,c )", "in notin (,x)", "a  in ()"]
        {
            assert!(Selector::parse("", good).is_ok(), "{good:?}");
        }
        for bad in
            ["=", "a b", "a!b", "a=b=c", "a=b/c", "\ta", "a=!", "é", "a in", "a in b", "ain(b)", "!a=b", "a in (b c)"]
        {
            assert!(Selector::parse("", bad).is_err(), "{bad:?}");
        }
    }
}
