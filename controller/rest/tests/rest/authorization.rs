// SPDX-License-Identifier: Apache-2.0
//! Every operation as every identity. The expected roles are written here by hand, and are not the table that the server reads.

use std::collections::BTreeSet;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use serde_json::{Value, json};

use crate::support::{Answer, Api};

/// Needs nothing.
const ANYBODY: &[&str] = &[
    "get /livez",
    "get /readyz",
    "get /version",
    "get /api/v1/sign-in",
    "post /api/v1/sign-in",
    "delete /api/v1/sign-in",
    "post /api/v1/single-sign-on",
    "post /api/v1/single-sign-on/answer",
];
/// Those by which a browser comes in: a credential that is sent all the same is not looked up.
const WAYS_IN: &[&str] = &[
    "get /api/v1/sign-in",
    "post /api/v1/sign-in",
    "post /api/v1/single-sign-on",
    "post /api/v1/single-sign-on/answer",
];
const METRICS: &[&str] = &["get /metrics", "get /api/v1/prometheus/targets", "get /api/v1/caller"];
const VIEWER: &[&str] = &[
    "get /api/v1/audit",
    "get /api/v1/change-sets",
    "get /api/v1/change-sets/{set}",
    "get /api/v1/charts",
    "get /api/v1/commit",
    "get /api/v1/controllers",
    "get /api/v1/drains",
    "get /api/v1/drains/{drain}",
    "get /api/v1/events",
    "get /api/v1/flows",
    "get /api/v1/groups",
    "get /api/v1/groups/{group}",
    "get /api/v1/groups/{group}/captures",
    "get /api/v1/groups/{group}/captures/{capture}",
    "get /api/v1/groups/{group}/members",
    "get /api/v1/groups/{group}/members/{host}",
    "get /api/v1/groups/{group}/packet",
    "get /api/v1/groups/{group}/telemetry",
    "get /api/v1/groups/{group}/waited-for",
    "get /api/v1/groups/{group}/waited-for/strip",
    "get /api/v1/hmac",
    "get /api/v1/hosts",
    "get /api/v1/hosts/{host}",
    "get /api/v1/incidents",
    "get /api/v1/incidents/{incident}",
    "get /api/v1/links",
    "get /api/v1/links/{node}/{port}",
    "get /api/v1/map",
    "get /api/v1/map/layers/{layer}",
    "get /api/v1/log-levels",
    "get /api/v1/nodes",
    "get /api/v1/nodes/{node}",
    "get /api/v1/nodes/{node}/telemetry",
    "get /api/v1/paths",
    "get /api/v1/paths/decode",
    "get /api/v1/problem-codes",
    "get /api/v1/problems",
    "get /api/v1/problems/{id}",
    "get /api/v1/authority",
    "get /api/v1/revocations",
    "get /api/v1/silences",
    "get /api/v1/silences/{silence}",
    "get /api/v1/status",
    "get /api/v1/sessions",
    "get /api/v1/tenants",
    "get /api/v1/tokens",
    "get /api/v1/topology",
    "get /api/v1/versions",
    "get /api/v1/watch",
    "delete /api/v1/sessions/{session}",
    "post /api/v1/sign-in-codes",
    "post /api/v1/validate",
];
const OPERATOR: &[&str] = &[
    "post /api/v1/change-sets",
    "post /api/v1/change-sets/{set}/undo",
    "post /api/v1/commit",
    "post /api/v1/commit/cancel",
    "post /api/v1/commit/confirm",
    "post /api/v1/commit/extend",
    "post /api/v1/drains",
    "put /api/v1/drains/{drain}",
    "delete /api/v1/drains/{drain}",
    "post /api/v1/groups",
    "put /api/v1/groups/{group}",
    "delete /api/v1/groups/{group}",
    "post /api/v1/groups/{group}/captures",
    "post /api/v1/groups/{group}/members",
    "put /api/v1/groups/{group}/members/{host}",
    "delete /api/v1/groups/{group}/members/{host}",
    "post /api/v1/log-levels",
    "post /api/v1/silences",
    "post /api/v1/tokens",
    "post /api/v1/tokens/{token}/rotate",
    "delete /api/v1/tokens/{token}",
    "put /api/v1/silences/{silence}",
    "delete /api/v1/silences/{silence}",
];
const ADMIN: &[&str] = &[
    "put /api/v1/topology",
    "delete /api/v1/topology",
    "post /api/v1/hmac/rotate",
    "post /api/v1/authority",
    "post /api/v1/enrollments",
    "post /api/v1/revocations",
    "post /api/v1/nodes/{node}/retire",
    "delete /api/v1/nodes/{node}/retire",
];

/// Those for which a role in a tenant is enough, of what the tenant has; all others need one of the domain.
const OF_TENANTS: &[&str] = &[
    "get /api/v1/caller",
    "get /api/v1/audit",
    "get /api/v1/change-sets",
    "get /api/v1/change-sets/{set}",
    "post /api/v1/change-sets",
    "post /api/v1/change-sets/{set}/undo",
    "get /api/v1/charts",
    "get /api/v1/events",
    "get /api/v1/groups",
    "get /api/v1/groups/{group}",
    "get /api/v1/groups/{group}/captures",
    "get /api/v1/groups/{group}/captures/{capture}",
    "get /api/v1/groups/{group}/members",
    "get /api/v1/groups/{group}/members/{host}",
    "get /api/v1/groups/{group}/packet",
    "get /api/v1/groups/{group}/telemetry",
    "get /api/v1/groups/{group}/waited-for",
    "get /api/v1/groups/{group}/waited-for/strip",
    "get /api/v1/problem-codes",
    "get /api/v1/problems",
    "get /api/v1/problems/{id}",
    "get /api/v1/sessions",
    "get /api/v1/tenants",
    "get /api/v1/tokens",
    "get /api/v1/versions",
    "get /api/v1/watch",
    "get /metrics",
    "delete /api/v1/sessions/{session}",
    "post /api/v1/sign-in-codes",
    "post /api/v1/validate",
    "post /api/v1/groups",
    "put /api/v1/groups/{group}",
    "delete /api/v1/groups/{group}",
    "post /api/v1/groups/{group}/captures",
    "post /api/v1/groups/{group}/members",
    "put /api/v1/groups/{group}/members/{host}",
    "delete /api/v1/groups/{group}/members/{host}",
    "post /api/v1/tokens",
    "post /api/v1/tokens/{token}/rotate",
    "delete /api/v1/tokens/{token}",
];

/// Operations with the lowest role that may use them.
fn expected() -> impl Iterator<Item = (&'static str, Option<Role>)> {
    let of = |all: &'static [&'static str], role| all.iter().map(move |operation| (*operation, role));
    of(ANYBODY, None)
        .chain(of(METRICS, Some(Role::Metrics)))
        .chain(of(VIEWER, Some(Role::Viewer)))
        .chain(of(OPERATOR, Some(Role::Operator)))
        .chain(of(ADMIN, Some(Role::Admin)))
}

fn path(operation: &str) -> (String, String) {
    let (method, path) = operation.split_once(' ').unwrap();
    // None of them exists: what is permitted does nothing.
    let concrete: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { "none" } else { part }).collect();
    (method.to_uppercase(), concrete.join("/"))
}

/// Refused for who sends it, and with what is to be done.
#[track_caller]
fn assert_by_role(answer: &Answer, role: Option<Role>, needed: Option<Role>, what: &str) {
    let code = (answer.status.as_u16() >= 400).then(|| answer.problem().1);
    let is_refused = matches!(code.as_deref(), Some("Unauthenticated" | "RoleNeeded"));
    match (role, needed) {
        (_, None) => assert!(!is_refused, "{what}: {}", answer.text),
        (None, Some(_)) => {
            assert_eq!((answer.status.as_u16(), code.as_deref()), (401, Some("Unauthenticated")), "{what}");
            assert_eq!(answer.header("www-authenticate"), "Bearer", "{what}");
        }
        (Some(role), Some(needed)) if role < needed => {
            assert_eq!((answer.status.as_u16(), code.as_deref()), (403, Some("RoleNeeded")), "{what}");
            assert!(
                answer.text.contains(needed.name()) && answer.text.contains(role.name()),
                "{what}: {}",
                answer.text
            );
        }
        _ => assert!(!is_refused, "{what}: {}", answer.text),
    }
}

#[test]
fn every_operation_has_its_role_here_and_in_the_description() {
    let description = canopy_controller_rest::openapi();
    let mut described = BTreeSet::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{method} {path}");
            let here = expected().find(|(operation, _)| *operation == name);
            let role = here.unwrap_or_else(|| panic!("{name} has no expected role")).1;
            assert_eq!(operation["x-canopy-role"].as_str(), role.map(Role::name), "{name}");
            let scope = role.map(|_| if OF_TENANTS.contains(&name.as_str()) { "tenant" } else { "domain" });
            assert_eq!(operation["x-canopy-scope"].as_str(), scope, "{name}");
            described.insert(name);
        }
    }
    for (operation, _) in expected() {
        assert!(described.contains(operation), "{operation} is not served");
    }
}

#[tokio::test]
async fn every_operation_is_for_its_role_and_those_above() {
    let api = Api::start().await;
    for role in [None, Some(Role::Metrics), Some(Role::Viewer), Some(Role::Operator), Some(Role::Admin)] {
        let caller = api.by(Principal::operator("mallory", Some(1000)), role);
        for (operation, needed) in expected() {
            let (method, path) = path(operation);
            let answer = caller.send(&method, &path, &[], "").await;
            assert_by_role(&answer, role, needed, &format!("{operation} as {role:?}"));
        }
        // Behind no operation of the description.
        for (path, needed) in
            [("/plain", Some(Role::Viewer)), ("/readyz?verbose", Some(Role::Viewer)), ("/api/v1/openapi.json", None)]
        {
            for method in ["GET", "HEAD"] {
                let answer = caller.send(method, path, &[], "").await;
                let may = role >= needed;
                assert_eq!(answer.status.is_success(), may, "{method} {path} as {role:?}: {}", answer.text);
            }
        }
    }
}

/// Catches an operation on the domain that a tenant's caller may use, one on its groups that it may not, and a role in one tenant that counts
/// in another.
#[tokio::test]
async fn every_operation_is_for_the_roles_of_a_tenant_as_far_as_it_is_the_tenants() {
    let api = Api::start().await;
    assert_eq!(api.put("/api/v1/topology", &crate::support::topology()).await.status, 201);
    let of_acme = crate::support::with(crate::support::group("acme-g"), |g| g["metadata"]["tenant"] = json!("acme"));
    assert_eq!(api.put("/api/v1/groups/acme-g", &of_acme).await.status, 201);
    for (tenant, role) in ["acme", "other"].into_iter().flat_map(|tenant| Role::ALL.map(|role| (tenant, role))) {
        let caller = api.of_tenant(tenant, role);
        for (operation, needed) in expected() {
            let what = format!("{operation} as {role} of {tenant}");
            let (method, _) = path(operation);
            let target = operation.split_once(' ').unwrap().1.replace("{group}", "acme-g").replace("{host}", "r1");
            let target: Vec<&str> =
                target.split('/').map(|part| if part.starts_with('{') { "none" } else { part }).collect();
            let is_deletion = operation == "delete /api/v1/groups/{group}";
            // It is there for the next caller: a dry run.
            let target = target.join("/") + if is_deletion { "?dryRun=true" } else { "" };
            let answer = caller.send(&method, &target, &[], "").await;
            let code = (answer.status.as_u16() >= 400).then(|| answer.problem().1);
            let Some(needed) = needed else { continue };
            if !OF_TENANTS.contains(&operation) || role < needed {
                assert_eq!(
                    (answer.status.as_u16(), code.as_deref()),
                    (403, Some("RoleNeeded")),
                    "{what}: {}",
                    answer.text
                );
                assert!(answer.text.contains(&format!("{role} in tenant {tenant}")), "{what}: {}", answer.text);
                continue;
            }
            assert!(!matches!(code.as_deref(), Some("Unauthenticated" | "RoleNeeded")), "{what}: {}", answer.text);
            let is_of_group = operation.contains("{group}") && operation != "put /api/v1/groups/{group}";
            let not_there = answer.text.contains("there is no group");
            assert_eq!(not_there, is_of_group && tenant == "other", "{what}: {}", answer.text);
        }
        for path in ["/plain", "/readyz?verbose"] {
            assert_eq!(caller.get(path).await.status, 403, "{path} as {role} of {tenant}");
        }
    }
}

/// Catches a request without a caller that is taken for a permitted one.
#[tokio::test]
async fn a_request_of_which_nothing_is_known_may_do_nothing() {
    let Api { controller, .. } = Api::start().await;
    let api = Api { router: canopy_controller_rest::router(controller.clone()), controller };
    for (operation, needed) in expected() {
        let (method, path) = path(operation);
        assert_by_role(&api.send(&method, &path, &[], "").await, None, needed, operation);
    }
}

fn bearer(token: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {token}"))
}

async fn made(api: &Api, name: &str, role: Role) -> String {
    let answer = api.post("/api/v1/tokens", &json!({"name": name, "role": role})).await;
    assert_eq!((answer.status.as_u16(), answer.header("cache-control")), (201, "no-store"), "{}", answer.text);
    answer.json()["token"].as_str().unwrap().to_owned()
}

/// Catches a token that has the rights of its connection, and one that is more than its role.
#[tokio::test]
async fn a_token_has_its_own_role_whatever_the_connection() {
    let api = Api::start().await;
    let stranger = api.by(Principal::operator("stranger", Some(1001)), None);
    for role in Role::ALL {
        let token = made(&api, role.name(), role).await;
        let header = bearer(&token);
        for caller in [&api, &stranger] {
            for (operation, needed) in expected() {
                let (method, path) = path(operation);
                let answer = caller.send(&method, &path, &[(header.0, &header.1)], "").await;
                assert_by_role(&answer, Some(role), needed, &format!("{operation} with a token of {role}"));
            }
        }
    }
    let revoked = made(&api, "revoked", Role::Admin).await;
    assert_eq!(api.delete("/api/v1/tokens/revoked").await.status, 204);
    for wrong in ["canopy_pat_", "canopy_pat_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", &revoked] {
        let header = bearer(wrong);
        // A code begins a session whatever else is sent.
        for (operation, _) in expected().filter(|(operation, _)| !WAYS_IN.contains(operation)) {
            let (method, path) = path(operation);
            let answer = api.send(&method, &path, &[(header.0, &header.1)], "").await;
            assert_eq!((answer.status.as_u16(), answer.problem().1.as_str()), (401, "TokenNotValid"), "{operation}");
            assert!(!answer.text.contains("AAAA") && !answer.text.contains(&revoked), "the token is repeated");
        }
    }
}

/// Catches a token that makes others, which would outlive its revocation, and one that a browser or a session makes.
#[tokio::test]
async fn tokens_are_made_by_users_alone_and_never_above_their_role() {
    let api = Api::start().await;
    let alice = api.by(Principal::operator("alice", Some(1000)), Some(Role::Operator));
    let bob = api.by(Principal::operator("bob", Some(1001)), Some(Role::Operator));
    let above = alice.post("/api/v1/tokens", &json!({"name": "x", "role": "admin"})).await;
    assert_eq!((above.problem().0, above.problem().1.as_str()), (403, "RoleNeeded"));
    let token = made(&alice, "ci", Role::Operator).await;
    let header = bearer(&token);
    let session = crate::support::signed_in(&alice).await;
    let body = json!({"name": "more", "role": "viewer"}).to_string();
    let of_json = ("content-type", "application/json");
    for headers in [
        vec![of_json, (header.0, header.1.as_str())],
        vec![of_json, ("authorization", session.as_str())],
        vec![of_json, ("authorization", session.as_str()), ("origin", "http://x")],
    ] {
        for (method, path) in
            [("POST", "/api/v1/tokens"), ("POST", "/api/v1/tokens/ci/rotate"), ("DELETE", "/api/v1/tokens/ci")]
        {
            let answer = alice.send(method, path, &headers, body.clone()).await;
            assert_eq!((answer.problem().0, answer.problem().1.as_str()), (403, "NotForBrowsers"), "{method} {path}");
        }
    }
    assert_eq!(bob.post("/api/v1/tokens", &json!({"name": "ci", "role": "viewer"})).await.problem().0, 409);
    assert_eq!(bob.get("/api/v1/tokens").await.json()["items"], json!([]));
    assert_eq!(bob.delete("/api/v1/tokens/ci").await.problem().0, 404);
    assert_eq!(bob.post("/api/v1/tokens/ci/rotate", &json!({})).await.problem().0, 404);
    for (field, body) in [
        ("name", json!({"name": "A b", "role": "viewer"})),
        ("forSeconds", json!({"name": "x", "role": "viewer", "forSeconds": 59})),
        ("forSeconds", json!({"name": "x", "role": "viewer", "forSeconds": 7_776_001})),
        ("role", json!({"name": "x", "role": "root"})),
    ] {
        let refused = alice.post("/api/v1/tokens", &body).await;
        assert!(refused.problem().2[0].starts_with(field), "{body}: {}", refused.text);
    }
    assert_eq!(alice.get("/api/v1/tokens").await.json()["items"].as_array().unwrap().len(), 1);
    // An enrollment is for administrators, with a token of that role too: platform teams script it.
    let admins = made(&api, "platform", Role::Admin).await;
    let header = bearer(&admins);
    let headers = [of_json, (header.0, header.1.as_str())];
    let enrolled = bob.send("POST", "/api/v1/enrollments", &headers, json!({"subject": "node/n1"}).to_string()).await;
    assert_eq!(enrolled.problem().1, "NoTls");
}

/// Catches a token that works after its revocation, and writes and acts that the audit shows as another's.
#[tokio::test]
async fn what_a_token_does_is_its_makers_through_it_until_it_is_revoked() {
    let api = Api::start().await;
    let alice = api.by(Principal::operator("alice", Some(1000)), Some(Role::Operator));
    let token = made(&alice, "ci", Role::Operator).await;
    let header = bearer(&token);
    let headers = [("content-type", "application/json"), (header.0, header.1.as_str())];
    let stranger = api.by(Principal::operator("", None), None);
    let caller = stranger.send("GET", "/api/v1/caller", &headers, "").await.json();
    let by = json!({"kind": "operator", "name": "alice", "uid": 1000, "token": "ci"});
    assert_eq!(caller, json!({"principal": by, "role": "operator"}));
    let written = stranger.send("PUT", "/api/v1/groups/g1", &headers, crate::support::group("g1").to_string()).await;
    assert_eq!(written.json()["metadata"]["writtenBy"], by);
    let rotated = alice.post("/api/v1/tokens/ci/rotate", &json!({})).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let item = &alice.get("/api/v1/tokens").await.json()["items"][0];
    assert!(item["usedUnixNs"].is_u64() && item["maker"]["name"] == "alice", "{item}");
    let new = bearer(rotated.json()["token"].as_str().unwrap());
    assert_eq!(stranger.send("GET", "/api/v1/groups", &[(new.0, &new.1)], "").await.status, 200);
    assert_eq!(stranger.send("GET", "/api/v1/groups", &headers, "").await.status, 200, "for ten minutes more");
    assert_eq!(api.delete("/api/v1/tokens/ci").await.status, 204, "an administrator ends any");
    for header in [&header, &new] {
        let answer = stranger.send("GET", "/api/v1/groups", &[(header.0, &header.1)], "").await;
        assert_eq!(answer.problem().1, "TokenNotValid");
    }
    let audit = api.get("/api/v1/audit").await.json();
    let items = audit["items"].as_array().unwrap().iter();
    let acts: Vec<(&Value, &Value)> = items.map(|item| (&item["action"], &item["name"])).collect();
    let token = json!("token/ci");
    let group = json!("g1");
    let [revoke, rotate, create] = ["revoke", "rotate", "create"].map(Value::from);
    assert_eq!(acts, [(&revoke, &token), (&rotate, &token), (&create, &group), (&create, &token)]);
    let text = audit.to_string();
    assert!(!text.contains("canopy_pat_"));
}

/// A session has the role of who had its code made.
#[tokio::test]
async fn a_session_has_the_role_of_its_maker() {
    let api = Api::start().await;
    let viewer = api.by(Principal::operator("eve", Some(1002)), Some(Role::Viewer));
    let code = viewer.post("/api/v1/sign-in-codes", &json!({})).await.json()["code"].clone();
    let session = viewer.post("/api/v1/sign-in", &json!({"code": code})).await.json();
    assert_eq!(session["role"], "viewer");
    let bearer = format!("Bearer {}", session["bearer"].as_str().unwrap());
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str()), ("origin", "http://x")];
    // Also over an administrator's connection.
    let refused = api.send("PUT", "/api/v1/groups/g1", &headers, crate::support::group("g1").to_string()).await;
    assert_eq!((refused.problem().0, refused.problem().1.as_str()), (403, "RoleNeeded"));
    assert_eq!(api.send("GET", "/api/v1/groups", &headers, "").await.status, 200);
}

/// Catches a session that outlives the token that its code was made with, and one that is made from a session.
#[tokio::test]
async fn a_session_of_a_token_ends_with_it() {
    let api = Api::start().await;
    let token = made(&api, "laptop", Role::Operator).await;
    let header = bearer(&token);
    let signed_in = async || {
        let code = api.send("POST", "/api/v1/sign-in-codes", &[(header.0, &header.1)], "").await.json()["code"].clone();
        let session = api.post("/api/v1/sign-in", &json!({"code": code})).await.json();
        assert_eq!((&session["role"], &session["by"]["token"]), (&json!("operator"), &json!("laptop")));
        bearer(session["bearer"].as_str().unwrap())
    };
    let session = signed_in().await;
    let read = async || api.send("GET", "/api/v1/groups", &[(session.0, &session.1)], "").await;
    assert_eq!(read().await.status, 200);
    let again = api.send("POST", "/api/v1/sign-in-codes", &[(session.0, &session.1)], "").await;
    assert_eq!(again.problem().1, "NotForBrowsers");
    assert_eq!(api.delete("/api/v1/tokens/laptop").await.status, 204);
    assert_eq!(read().await.problem().1, "SignInRequired");
    // Nor does another token of that name bring it back.
    made(&api, "laptop", Role::Operator).await;
    assert_eq!(read().await.problem().1, "SignInRequired");
}

/// Catches a request that `canopyctl ui` forwards for another user of the machine and that has the rights of the user that runs it.
#[tokio::test]
async fn what_is_forwarded_has_the_rights_of_its_bearer_alone() {
    let api = Api::start().await;
    let token = made(&api, "laptop", Role::Operator).await;
    let (header, direct) = (bearer(&token), crate::support::signed_in(&api).await);
    let forwarded = ("canopy-forwarded", "00ff");
    let of_json = ("content-type", "application/json");
    let code = api.post("/api/v1/sign-in-codes", &json!({})).await.json()["code"].clone();
    let begun = api.send("POST", "/api/v1/sign-in", &[forwarded, of_json], json!({"code": code}).to_string()).await;
    let session = format!("Bearer {}", begun.json()["bearer"].as_str().unwrap());
    // Each works the way that it was begun, so that a bearer that reaches another program is of no use to it.
    let read = async |headers: &[(&str, &str)]| api.send("GET", "/api/v1/groups", headers, "").await.status.as_u16();
    assert_eq!(read(&[("authorization", &session)]).await, 401);
    assert_eq!(read(&[("authorization", &session), ("canopy-forwarded", "00fe")]).await, 401);
    assert_eq!(read(&[("authorization", &direct), forwarded]).await, 401);
    assert_eq!(read(&[("authorization", &direct)]).await, 200);
    for (operation, needed) in expected() {
        let (method, path) = path(operation);
        let answer = api.send(&method, &path, &[forwarded], "").await;
        let code = (answer.status.as_u16() >= 400).then(|| answer.problem().1);
        let is_refused = matches!(code.as_deref(), Some("Unauthenticated" | "SignInRequired"));
        // Signing out needs a session to end.
        assert_eq!(
            is_refused,
            needed.is_some() || operation == "delete /api/v1/sign-in",
            "{operation}: {}",
            answer.text
        );
        let answer = api.send(&method, &path, &[forwarded, (header.0, &header.1)], "").await;
        assert_by_role(&answer, Some(Role::Operator), needed, operation);
    }
    for path in ["/plain", "/readyz?verbose"] {
        assert_eq!(api.send("GET", path, &[forwarded], "").await.status, 401, "{path}");
    }
    for path in ["/", "/icon.svg", "/livez"] {
        assert_eq!(api.send("GET", path, &[forwarded], "").await.status, 200, "{path}");
    }
    for path in ["/api/v1/groups", "/metrics", "/readyz?verbose"] {
        assert_eq!(api.send("GET", path, &[forwarded, ("authorization", &session)], "").await.status, 200, "{path}");
        let headers = [forwarded, ("authorization", "Bearer AAAA")];
        assert_eq!(api.send("GET", path, &headers, "").await.problem().1, "SignInRequired", "{path}");
    }
}

/// Catches the key to a receiver's memory in the answer to a viewer, in a list or alone.
#[tokio::test]
async fn a_viewer_sees_no_key_to_the_memory_of_a_receiver() {
    let api = Api::prepared().await;
    let memory = json!({"va": 4096, "rkey": 77_777, "length": 64});
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"group": "g1"},
        "spec": {"host": "r1", "role": "receiver", "qpn": 17, "memory": memory}});
    let joined = api.post("/api/v1/groups/g1/members", &member).await;
    assert_eq!(joined.status, 201, "{}", joined.text);
    let as_role = |role| api.by(Principal::operator("eve", Some(1002)), Some(role));
    for path in ["/api/v1/groups/g1/members", "/api/v1/groups/g1/members/r1"] {
        let seen = as_role(Role::Operator).get(path).await;
        assert!(seen.status == 200 && seen.text.contains("77777"), "{}", seen.text);
        let seen = as_role(Role::Viewer).get(path).await;
        assert!(seen.status == 200 && seen.text.contains("\"r1\"") && !seen.text.contains("77777"), "{}", seen.text);
    }
    let viewer = as_role(Role::Viewer);
    for path in [
        "/api/v1/audit",
        "/api/v1/groups",
        "/api/v1/hosts/r1",
        "/api/v1/events",
        "/metrics",
        "/plain",
        "/api/v1/groups/g1/packet",
    ] {
        assert!(!viewer.get(path).await.text.contains("77777"), "{path}");
    }
}

/// Catches a stranger who makes the controller read much, and an answer to a probe that shows a stranger more than a word.
#[tokio::test]
async fn strangers_cost_little_and_learn_little() {
    let api = Api::start().await;
    let stranger = api.by(Principal::operator("", None), None);
    let large = format!("{{\"code\": \"{}\"}}", "A".repeat(1024));
    let answer = stranger.send("POST", "/api/v1/sign-in", &[("content-type", "application/json")], large).await;
    assert_eq!(answer.problem().0, 413, "{}", answer.text);
    api.controller.stop().await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while api.get("/readyz").await.status == 200 && std::time::Instant::now() < deadline {
        tokio::task::yield_now().await;
    }
    let seen = stranger.get("/readyz").await;
    assert_eq!((seen.status.as_u16(), seen.text.as_str()), (503, "not ready: `canopyctl check` shows it\n"));
    assert!(api.get("/readyz").await.text.contains("[-] commands: the controller is stopping"));
}

/// Catches an operator who takes the topology back, or keeps it, through the commit of an administrator.
#[tokio::test]
async fn a_commit_with_a_topology_is_an_administrators() {
    let api = Api::start().await;
    let operator = api.by(Principal::operator("bob", Some(1001)), Some(Role::Operator));
    let begin = async || {
        let begun = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await;
        begun.json()["id"].as_str().unwrap().to_owned()
    };
    let of_json = ("content-type", "application/json");
    let id = begin().await;
    let headers = [of_json, ("canopy-commit", id.as_str())];
    let put = api.send("PUT", "/api/v1/topology", &headers, crate::support::topology().to_string()).await;
    assert_eq!(put.status, 201, "{}", put.text);
    for (act, body) in [
        ("cancel", json!({"id": id})),
        ("confirm", json!({"id": id})),
        ("extend", json!({"id": id, "timeoutSeconds": 60})),
    ] {
        let refused = operator.post(&format!("/api/v1/commit/{act}"), &body).await;
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (403, "RoleNeeded"), "{act}");
    }
    assert_eq!(api.post("/api/v1/commit/confirm", &json!({"id": id})).await.status, 200);
    let id = begin().await;
    let headers = [of_json, ("canopy-commit", id.as_str())];
    let put = operator.send("PUT", "/api/v1/groups/g1", &headers, crate::support::group("g1").to_string()).await;
    assert_eq!(put.status, 201, "{}", put.text);
    assert_eq!(operator.post("/api/v1/commit/cancel", &json!({"id": id})).await.status, 200);
}
