// SPDX-License-Identifier: Apache-2.0
//! What is of one tenant does not exist for the callers of another: in no answer, stream, count, page or refusal.

use std::time::Duration;

use canopy_controller_access::Identity;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::quota::{OwnQuotas, Quotas};
use canopy_controller_core::role::Role;
use serde_json::{Value, json};

use crate::support::{Answer, Api, with};

/// In every name and label that is planted, also in that of the tenant.
const MARK: &str = "mk7q";
/// A group of the marked tenant. No other text has it.
const FOREIGN: &str = "mk7q-m";
/// A name that no group has, of the same length.
const NONE: &str = "none-m";
/// Numbers of its members.
const NUMBERS: [&str; 2] = ["654321", "876543"];

fn of_tenant(name: &str, tenant: &str) -> Value {
    with(crate::support::group(name), |g| g["metadata"]["tenant"] = json!(tenant))
}

fn marked(name: &str) -> Value {
    with(of_tenant(name, "mk7q-tenant"), |g| g["metadata"]["labels"] = json!({"mk7q": "mk7q", "shared": "yes"}))
}

/// A marked tenant with a group that has a source, a receiver, problems, events and a history; one of its groups is gone. The caller's tenant
/// has groups before and behind it.
async fn planted() -> Api {
    let api = Api::start().await;
    assert_eq!(api.put("/api/v1/topology", &crate::support::topology()).await.status, 201);
    for name in ["a-own", "z-own"] {
        let own = with(of_tenant(name, "other"), |g| g["metadata"]["labels"] = json!({"shared": "yes"}));
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &own).await.status, 201);
    }
    assert_eq!(api.put("/api/v1/groups/plain-default", &crate::support::group("plain-default")).await.status, 201);
    for name in [FOREIGN, "mk7q-gone"] {
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &marked(name)).await.status, 201);
        let relabelled = with(marked(name), |g| g["metadata"]["labels"]["more"] = json!("mk7q"));
        assert_eq!(api.put(&format!("/api/v1/groups/{name}"), &relabelled).await.status, 200);
        let members = format!("/api/v1/groups/{name}/members");
        let receiver = with(crate::support::member("r1", "receiver", 654_321), |m| {
            m["spec"]["memory"] = json!({"va": 4096, "rkey": 876_543, "length": 64});
        });
        assert_eq!(api.post(&members, &crate::support::member("s1", "source", 17)).await.status, 201);
        assert_eq!(api.post(&members, &receiver).await.status, 201);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(api.delete("/api/v1/groups/mk7q-gone").await.status, 204);
    // The caller's tenant has a group of that name now.
    assert_eq!(api.put("/api/v1/groups/mk7q-gone", &of_tenant("mk7q-gone", "other")).await.status, 201);
    api
}

/// The group that has a marked name and is the caller's own may be shown; nothing else with the mark.
#[track_caller]
fn assert_unmarked(text: &str, what: &str) {
    let text = text.replace("mk7q-gone", "");
    for mark in [MARK, NUMBERS[0], NUMBERS[1]] {
        assert!(!text.contains(mark), "{what}: {text}");
    }
}

/// Paths of every GET of the description, for this group.
fn reads(group: &str) -> Vec<String> {
    let description = canopy_controller_rest::openapi();
    let paths = description["paths"].as_object().unwrap().iter().filter(|(_, methods)| methods.get("get").is_some());
    let of = |path: &String| {
        let filled =
            path.replace("{group}", group).replace("{host}", "r1").replace("{node}", "n1").replace("{port}", "eth1");
        let parts: Vec<&str> = filled.split('/').map(|part| if part.starts_with('{') { "1" } else { part }).collect();
        parts.join("/")
    };
    paths.map(|(path, _)| of(path)).collect()
}

fn callers(api: &Api) -> Vec<(&'static str, Api)> {
    let several = Identity {
        tenants: [("other".to_owned(), Role::Admin), ("third".to_owned(), Role::Viewer)].into(),
        ..Identity::new(Principal::operator("several", Some(2001)), None)
    };
    let scrapes = Identity { role: Some(Role::Metrics), ..several.clone() };
    vec![
        ("viewer", api.of_tenant("other", Role::Viewer)),
        ("operator", api.of_tenant("other", Role::Operator)),
        ("admin", api.of_tenant("other", Role::Admin)),
        ("of two tenants", api.by_identity(several)),
        // A role in the domain that shows no group does not show one here either.
        ("of two tenants, and for metrics", api.by_identity(scrapes)),
    ]
}

/// The text without what differs from request to request.
fn settled(answer: &Answer, name: &str) -> (u16, Value) {
    let mut body: Value = serde_json::from_str(&answer.text.replace(name, "NAME")).unwrap_or_default();
    body.as_object_mut().map(|body| body.remove("requestId"));
    (answer.status.as_u16(), body)
}

#[tokio::test(start_paused = true)]
async fn no_answer_shows_a_tenant_what_another_has() {
    let api = planted().await;
    // The marks are there to be found.
    for path in ["/api/v1/groups", "/api/v1/events", "/api/v1/problems", "/api/v1/audit?limit=1000"] {
        let text = api.get(path).await.text;
        assert!(text.replace("mk7q-gone", "").contains(MARK), "{path}: {text}");
    }
    assert!(api.get(&format!("/api/v1/groups/{FOREIGN}/members")).await.text.contains(NUMBERS[1]));
    for (name, caller) in callers(&api) {
        for path in reads("a-own").into_iter().chain(reads("mk7q-gone")).chain(reads(NONE)) {
            // A stream of which the end is not waited for here.
            if path == "/api/v1/watch" {
                continue;
            }
            let answer = caller.get(&path).await;
            // Metrics of the domain are for those who scrape them, and name no group but in problems.
            if !(path == "/metrics" && name.ends_with("metrics")) {
                assert_unmarked(&answer.text, &format!("{path} as {name}"));
            }
        }
        for query in [
            "groups?limit=1",
            "groups?namePrefix=mk7q-m",
            "groups?labelSelector=mk7q",
            "groups?labelSelector=mk7q%3Dmk7q",
            "groups?labelSelector=shared%3Dyes&limit=1",
            "groups?fieldSelector=tenant%3Dmk7q-tenant",
            "groups?fieldSelector=tenant!%3Dother",
            "groups?phase=Pending&limit=1",
            "groups?fieldSelector=source%3Ds1",
            "events?limit=4096",
            "events?node=n1",
            "problems?limit=5000",
            "problems?kind=host&name=r1",
            "problems?kind=node&name=n1",
            "audit?limit=1000",
            "audit?kind=Member",
            "versions?kind=Group&name=mk7q-gone",
            "versions?kind=Topology&name=default",
            "charts?object=fleet",
        ] {
            let answer = caller.get(&format!("/api/v1/{query}")).await;
            assert_unmarked(&answer.text, &format!("{query} as {name}"));
        }
    }
}

/// Catches an answer that differs where a group is another tenant's from where there is none: by its status, text or order of checks.
#[tokio::test(start_paused = true)]
async fn a_group_of_another_tenant_is_one_that_there_is_not() {
    let api = planted().await;
    let problem =
        api.get(&format!("/api/v1/problems?kind=group&name={FOREIGN}")).await.json()["items"][0]["id"].clone();
    assert!(problem.is_string(), "the foreign group has no problem");
    let seen = api.get(&format!("/api/v1/problems/{}", problem.as_str().unwrap())).await;
    assert_eq!(seen.status, 200);
    let of_json = [("content-type", "application/json")];
    let headers: [&[(&str, &str)]; 4] =
        [&of_json, &[of_json[0], ("if-match", "*")], &[of_json[0], ("idempotency-key", "k1")], &[]];
    for (who, caller) in callers(&api) {
        let problem = caller.get(&format!("/api/v1/problems/{}", problem.as_str().unwrap())).await;
        assert_eq!(problem.status, 404, "{who}: {}", problem.text);
        let queries = [
            "events?group=@",
            "audit?name=@",
            "versions?kind=Group&name=@",
            "charts?object=group/@",
            "problems?kind=group&name=@",
            "problems?kind=member&name=@/r1",
        ];
        let reads = reads("@").into_iter().filter(|path| path.contains('@'));
        let queries = queries.map(|query| format!("/api/v1/{query}"));
        for path in reads.chain(queries).chain(["/api/v1/groups/@/waited-for?limit=0".to_owned()]) {
            let [foreign, none] = [FOREIGN, NONE].map(|name| (path.replace('@', name), name));
            let foreign = settled(&caller.get(&foreign.0).await, foreign.1);
            assert_eq!(foreign, settled(&caller.get(&none.0).await, none.1), "{path} as {who}");
        }
        for (method, path, body) in [
            ("POST", "/api/v1/groups/@/members", crate::support::member("r2", "receiver", 5)),
            ("POST", "/api/v1/groups/@/members", crate::support::member("nowhere", "receiver", 5)),
            ("POST", "/api/v1/groups/@/members", json!({})),
            ("PUT", "/api/v1/groups/@/members/r1", crate::support::member("r1", "receiver", 5)),
            ("DELETE", "/api/v1/groups/@/members/r1", json!({})),
            ("DELETE", "/api/v1/groups/@", json!({})),
            ("DELETE", "/api/v1/groups/@?dryRun=true", json!({})),
            ("POST", "/api/v1/groups/@/captures", json!({})),
            (
                "POST",
                "/api/v1/validate",
                json!({"items": [with(crate::support::member("r2", "receiver", 5), |m| m["metadata"] = json!({"group": "@", "tenant": "other"}))]}),
            ),
            ("PUT", "/api/v1/groups/@", json!({"bad": true})),
        ] {
            for headers in headers {
                let send = async |name: &str| {
                    let (path, body) = (path.replace('@', name), body.to_string().replace('@', name));
                    settled(&caller.send(method, &path, headers, body).await, name)
                };
                assert_eq!(send(FOREIGN).await, send(NONE).await, "{method} {path} {headers:?} as {who}");
            }
        }
        // A condition on a group that is not there.
        let put = async |name: &str, tag: &str| {
            let headers = [of_json[0], ("if-match", tag)];
            let body = of_tenant(name, "other").to_string();
            settled(&caller.send("PUT", &format!("/api/v1/groups/{name}"), &headers, body).await, name)
        };
        for tag in ["*", "\"01234567-89ab-8def-8123-456789abcdef.1\""] {
            assert_eq!(put(FOREIGN, tag).await, put(NONE, tag).await, "{tag} as {who}");
        }
    }
    let caller = api.of_tenant("other", Role::Operator);
    for body in [of_tenant(FOREIGN, "other"), crate::support::group(FOREIGN)] {
        for answer in [
            caller.put(&format!("/api/v1/groups/{FOREIGN}"), &body).await,
            caller.post("/api/v1/groups", &body).await,
            caller.put(&format!("/api/v1/groups/{FOREIGN}?dryRun=true"), &body).await,
            caller.post("/api/v1/validate", &json!({"items": [body.clone()]})).await,
        ] {
            assert_eq!((answer.problem().0, answer.problem().1.as_str()), (409, "AlreadyExists"), "{}", answer.text);
            assert_unmarked(&answer.text.replace(FOREIGN, ""), "a name that is taken");
        }
    }
    let elsewhere = caller.put("/api/v1/groups/new", &of_tenant("new", "mk7q-tenant")).await;
    assert_eq!((elsewhere.problem().0, elsewhere.problem().1.as_str()), (403, "RoleNeeded"));
    // Nothing of all this has changed anything.
    let left = api.get(&format!("/api/v1/groups/{FOREIGN}")).await.json();
    assert_eq!((&left["metadata"]["generation"], &left["status"]["receivers"]), (&json!(2), &json!(1)));
}

#[tokio::test(start_paused = true)]
async fn pages_and_counts_are_those_of_the_tenant() {
    let api = planted().await;
    let caller = api.of_tenant("other", Role::Viewer);
    for filter in ["", "&labelSelector=shared%3Dyes", "&phase=Pending", "&fieldSelector=tenant%3Dother"] {
        let (mut names, mut next) = (Vec::new(), String::new());
        loop {
            let list = caller.get(&format!("/api/v1/groups?limit=1{filter}{next}")).await.json();
            let items = list["items"].as_array().unwrap();
            names.extend(items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()));
            let Some(token) = list["metadata"]["continue"].as_str() else { break };
            assert!(!token.contains(&hex(FOREIGN)), "{filter}: a token names a foreign group");
            next = format!("&continue={token}");
        }
        let labelled = filter.contains("label");
        let wanted: &[&str] = if labelled { &["a-own", "z-own"] } else { &["a-own", "mk7q-gone", "z-own"] };
        assert_eq!(names, wanted, "{filter}");
    }
    let all = api.get("/api/v1/groups?fieldSelector=tenant%3Dmk7q-tenant").await.json();
    assert_eq!(all["items"].as_array().unwrap().len(), 1);
    let actions = |list: Value| list["items"].as_array().unwrap().len();
    // Three creations, without the history that the name had in another tenant.
    assert_eq!(actions(caller.get("/api/v1/audit").await.json()), 3);
    assert_eq!(actions(caller.get("/api/v1/versions?kind=Group&name=mk7q-gone").await.json()), 1);
}

fn hex(text: &str) -> String {
    text.bytes().map(|b| format!("{b:02x}")).collect()
}

/// Catches a stream that begins with, or continues to, what is another tenant's; one that another tenant's changes make fall behind; and a
/// topic of the domain.
#[tokio::test]
async fn streams_are_those_of_the_tenant() {
    let api = Api::start().await;
    assert_eq!(api.put("/api/v1/groups/a-own", &of_tenant("a-own", "other")).await.status, 201);
    assert_eq!(api.put(&format!("/api/v1/groups/{FOREIGN}"), &marked(FOREIGN)).await.status, 201);
    let caller = api.of_tenant("other", Role::Viewer);
    let mut groups = caller.watch("groups", "").await;
    let (present, token) = groups.present().await;
    assert_eq!(present.iter().map(crate::support::Event::brief).collect::<Vec<_>>(), [("added", "a-own")]);
    let mut streams = vec![
        ("events", caller.watch("events", "").await),
        ("audit", caller.watch("audit", "").await),
        ("problems", caller.watch("problems", "").await),
    ];
    for (kind, stream) in &mut streams {
        let (present, _) = stream.present().await;
        assert_unmarked(&format!("{present:?}"), kind);
    }
    let mut topics = caller.watch_topics("?topics=groups,problems,events,audit").await;
    assert_eq!(topics.next().await.name, "synced");
    for topics in ["nodes", "groups,topology", "drains", "commits"] {
        let refused = caller.get(&format!("/api/v1/watch?topics={topics}")).await;
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (403, "RoleNeeded"), "{topics}");
    }
    // Each change of the other tenant is behind one of this one, so that what follows shows that it was left out.
    let relabelled = |label: &str| with(marked(FOREIGN), |g| g["metadata"]["labels"]["more"] = json!(label));
    assert_eq!(api.put(&format!("/api/v1/groups/{FOREIGN}"), &relabelled("x")).await.status, 200);
    assert_eq!(api.put("/api/v1/groups/b-own", &of_tenant("b-own", "other")).await.status, 201);
    // What is there for less than the pace of a stream is in none.
    assert_eq!(groups.next().await.brief(), ("added", "b-own"));
    assert_eq!(api.delete(&format!("/api/v1/groups/{FOREIGN}")).await.status, 204);
    assert_eq!(api.delete("/api/v1/groups/b-own").await.status, 204);
    assert_eq!(groups.next().await.brief(), ("deleted", "b-own"));
    let mut resumed = caller.watch("groups", &format!("&after={token}")).await;
    for seen in ["added", "deleted"] {
        assert_eq!(resumed.next().await.brief(), (seen, "b-own"));
    }
    for (kind, stream) in &mut streams {
        if *kind == "audit" {
            let acts = [stream.next().await, stream.next().await];
            assert_eq!(acts.map(|act| act.data["name"].clone()), [json!("b-own"), json!("b-own")]);
        }
    }
    let mut audited = 0;
    while audited < 2 {
        let event = topics.next().await;
        assert_unmarked(&format!("{event:?}"), "topics");
        audited += usize::from(event.name == "audit.added");
    }
}

/// Catches a key by which a caller gets what it wrote before as it is now: in another tenant.
#[tokio::test]
async fn a_write_that_is_sent_again_shows_no_group_that_another_tenant_has_since() {
    let api = Api::start().await;
    let caller = api.of_tenant("other", Role::Operator);
    let headers = [("content-type", "application/json"), ("idempotency-key", "k1")];
    let put = async || caller.send("PUT", "/api/v1/groups/g", &headers, of_tenant("g", "other").to_string()).await;
    assert_eq!(put().await.status, 201);
    let again = put().await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, "true"));
    assert_eq!(api.delete("/api/v1/groups/g").await.status, 204);
    assert_eq!(api.put("/api/v1/groups/g", &marked("g")).await.status, 201);
    let again = put().await;
    assert_eq!(again.problem().1, "AlreadyExists");
    assert_unmarked(&again.text, "a key");
}

#[tokio::test]
async fn a_group_is_created_in_its_tenant_and_stays_there() {
    let api = Api::prepared().await;
    let caller = api.of_tenant("acme", Role::Operator);
    let made = caller.put("/api/v1/groups/g2", &crate::support::group("g2")).await.json();
    assert_eq!(made["metadata"]["tenant"], "acme", "the only tenant of its maker");
    let members = caller.post("/api/v1/groups/g2/members", &crate::support::member("r1", "receiver", 5)).await;
    assert_eq!((members.status.as_u16(), &members.json()["metadata"]["tenant"]), (201, &json!("acme")));
    // What was read can be sent back.
    assert_eq!(caller.put("/api/v1/groups/g2/members/r1", &members.json()).await.status, 200);
    assert_eq!(api.put("/api/v1/groups/g2", &made).await.status, 200);
    assert_eq!(api.put("/api/v1/groups/g2", &crate::support::group("g2")).await.json()["metadata"]["tenant"], "acme");
    for (path, body) in [
        ("/api/v1/groups/g2", of_tenant("g2", "other")),
        ("/api/v1/groups/g1", of_tenant("g1", "acme")),
        ("/api/v1/groups/g2/members/r1", with(members.json(), |m| m["metadata"]["tenant"] = json!("default"))),
        ("/api/v1/topology", with(crate::support::topology(), |t| t["metadata"]["tenant"] = json!("acme"))),
    ] {
        let refused = api.put(path, &body).await.problem();
        assert!(refused.0 == 422 && refused.2[0].starts_with("metadata.tenant: "), "{path}: {refused:?}");
    }
    let several = Identity {
        tenants: [("acme".to_owned(), Role::Operator), ("third".to_owned(), Role::Viewer)].into(),
        ..Identity::new(Principal::operator("several", None), None)
    };
    let of_two = Identity {
        tenants: [("acme".to_owned(), Role::Operator), ("b".to_owned(), Role::Operator)].into(),
        ..several.clone()
    };
    let refused = api.by_identity(of_two).put("/api/v1/groups/g3", &crate::support::group("g3")).await;
    assert!(refused.problem().0 == 403 && refused.text.contains("metadata.tenant: acme, b"), "{}", refused.text);
    let of_third = api.by_identity(several).put("/api/v1/groups/g3", &of_tenant("g3", "third")).await;
    assert_eq!(of_third.problem().1, "RoleNeeded", "a viewer there");
    // A role in the domain counts in every tenant.
    let operator = api.by(Principal::operator("bob", None), Some(Role::Operator));
    assert_eq!(operator.delete("/api/v1/groups/g2").await.status, 204);
    // Deleted, it comes back where it was.
    let versions = operator.get("/api/v1/versions?kind=Group&name=g2").await.json();
    assert_eq!(versions["items"][0]["tenant"], "acme");
}

/// A rollback puts a deleted group back into its tenant.
#[tokio::test]
async fn a_commit_that_is_cancelled_puts_a_group_back_into_its_tenant() {
    let api = Api::start().await;
    assert_eq!(api.put("/api/v1/groups/g", &marked("g")).await.status, 201);
    let id = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await.json()["id"].clone();
    let headers = [("canopy-commit", id.as_str().unwrap())];
    assert_eq!(api.send("DELETE", "/api/v1/groups/g", &headers, "").await.status, 204);
    assert_eq!(api.post("/api/v1/commit/cancel", &json!({"id": id})).await.status, 200);
    assert_eq!(api.get("/api/v1/groups/g").await.json()["metadata"]["tenant"], "mk7q-tenant");
}

/// Catches a rollback that a quota refuses: the tenant has used the room of what the commit deleted, and its quota was lowered.
#[tokio::test]
async fn a_rollback_puts_back_what_was_there_whatever_the_quota_is_by_then() {
    let api = Api::prepared().await;
    assert_eq!(api.put("/api/v1/groups/g", &of_tenant("g", "acme")).await.status, 201);
    assert_eq!(api.post("/api/v1/groups/g/members", &crate::support::member("r1", "receiver", 5)).await.status, 201);
    let id = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await.json()["id"].clone();
    let headers = [("canopy-commit", id.as_str().unwrap())];
    assert_eq!(api.send("DELETE", "/api/v1/groups/g/members/r1", &headers, "").await.status, 204);
    assert_eq!(api.send("DELETE", "/api/v1/groups/g", &headers, "").await.status, 204);
    let own = OwnQuotas { max_groups: Some(1), max_receivers: Some(1), ..OwnQuotas::default() };
    let tenants = [("acme".to_owned(), own)].into();
    api.controller.limit_tenants(Quotas { tenants, ..Quotas::default() });
    let by_controller = |name: &str| canopy_controller_core::Command::PutGroup {
        tenant: Some("acme".to_owned()),
        name: name.to_owned(),
        labels: Default::default(),
        spec: Default::default(),
        if_match: None,
        create_only: false,
    };
    api.controller.execute(by_controller("other"), None, false).await.unwrap();
    assert_eq!(api.controller.try_rollback().await.unwrap(), []);
    let cancelled = api.post("/api/v1/commit/cancel", &json!({"id": id})).await;
    assert!(cancelled.status == 200 && !cancelled.text.contains("quota"), "{}", cancelled.text);
    assert_eq!(api.get("/api/v1/groups/g").await.json()["status"]["receivers"], 1);
    // All else is bound.
    assert_eq!(api.put("/api/v1/groups/h", &of_tenant("h", "acme")).await.problem().1, "Limit");
}

/// Catches a caller that is not held up while it asks for groups that are not there, or another tenant's, with a key: they are decided where commands
/// are carried out. And one that uses up the rate of the other tenant by that.
#[tokio::test(start_paused = true)]
async fn keyed_writes_of_what_is_not_the_callers_count_for_its_tenant() {
    let api = Api::start().await;
    let own = OwnQuotas { max_changes_per_second: Some(2), ..OwnQuotas::default() };
    let tenants = ["other", "mk7q-tenant"].map(|tenant| (tenant.to_owned(), own)).into();
    api.controller.limit_tenants(Quotas { tenants, ..Quotas::default() });
    assert_eq!(api.put(&format!("/api/v1/groups/{FOREIGN}"), &marked(FOREIGN)).await.status, 201);
    let caller = api.of_tenant("other", Role::Operator);
    for name in [FOREIGN, NONE] {
        for (n, wanted) in [404, 404, 429, 429].into_iter().enumerate() {
            let key = format!("{name}{n}");
            let answer =
                caller.send("DELETE", &format!("/api/v1/groups/{name}"), &[("idempotency-key", &key)], "").await;
            assert_eq!(answer.status, wanted, "{name} {n}: {}", answer.text);
            assert_unmarked(&answer.text.replace(FOREIGN, ""), "a refusal");
        }
        let theirs = api.of_tenant("mk7q-tenant", Role::Operator);
        let relabelled = with(marked(FOREIGN), |g| g["metadata"]["labels"]["more"] = json!(name));
        assert_eq!(theirs.put(&format!("/api/v1/groups/{FOREIGN}"), &relabelled).await.status, 200);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Catches a token of a tenant that has a role in the domain, or in another tenant.
#[tokio::test]
async fn a_token_of_a_tenant_acts_in_it_alone() {
    let api = Api::start().await;
    assert_eq!(api.put(&format!("/api/v1/groups/{FOREIGN}"), &marked(FOREIGN)).await.status, 201);
    let made = api.post("/api/v1/tokens", &json!({"name": "ci", "tenant": "acme", "role": "operator"})).await;
    assert_eq!((made.status.as_u16(), &made.json()["tenant"]), (201, &json!("acme")));
    let bearer = format!("Bearer {}", made.json()["token"].as_str().unwrap());
    let stranger = api.by(Principal::operator("", None), None);
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let caller = stranger.send("GET", "/api/v1/caller", &headers, "").await.json();
    assert_eq!((&caller["role"], &caller["tenants"]), (&Value::Null, &json!({"acme": "operator"})));
    let put = stranger.send("PUT", "/api/v1/groups/g1", &headers, crate::support::group("g1").to_string()).await;
    assert_eq!(put.json()["metadata"]["tenant"], "acme");
    let list = stranger.send("GET", "/api/v1/groups", &headers, "").await;
    assert_unmarked(&list.text, "list");
    assert_eq!(list.json()["items"].as_array().unwrap().len(), 1);
    let operator = api.of_tenant("acme", Role::Operator);
    for body in [
        json!({"name": "x", "role": "viewer"}),
        json!({"name": "x", "role": "viewer", "tenant": "other"}),
        json!({"name": "x", "role": "admin", "tenant": "acme"}),
    ] {
        let refused = operator.post("/api/v1/tokens", &body).await;
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (403, "RoleNeeded"), "{body}");
    }
    let bad = api.post("/api/v1/tokens", &json!({"name": "x", "role": "viewer", "tenant": "A b"})).await.problem();
    assert!(bad.0 == 422 && bad.2[0].starts_with("tenant: "), "{bad:?}");
}

/// Catches a quota that bounds another tenant, a tenant that sees what another has, and a rate that a dry run or a repetition uses up.
#[tokio::test(start_paused = true)]
async fn quotas_are_refused_and_shown() {
    let api = Api::start().await;
    let own =
        |max_groups, max_changes_per_second| OwnQuotas { max_groups, max_changes_per_second, ..OwnQuotas::default() };
    let tenants = [("acme".to_owned(), own(Some(1), None)), ("mk7q-fast".to_owned(), own(None, Some(2)))];
    api.controller.limit_tenants(Quotas { max_receivers: 9, tenants: tenants.into(), ..Quotas::default() });
    let acme = api.of_tenant("acme", Role::Operator);
    assert_eq!(acme.put("/api/v1/groups/g1", &crate::support::group("g1")).await.status, 201);
    let refused = acme.put("/api/v1/groups/g2", &crate::support::group("g2")).await;
    assert_eq!((refused.problem().0, refused.problem().1.as_str()), (422, "Limit"));
    assert!(refused.text.contains("tenant acme has 1 groups, and its quota is 1"), "{}", refused.text);
    assert_eq!(api.put("/api/v1/groups/g3", &crate::support::group("g3")).await.status, 201);
    let listed = acme.get("/api/v1/tenants").await;
    assert_eq!(
        listed.json()["items"],
        json!([{"name": "acme", "groups": 1, "receivers": 0, "maxGroups": 1, "maxReceivers": 9, "maxChangesPerSecond": null}])
    );
    let all = api.get("/api/v1/tenants?limit=2").await.json();
    let names = |list: &Value| list["items"].as_array().unwrap().iter().map(|t| t["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&all), ["acme", "default"]);
    let rest = api.get(&format!("/api/v1/tenants?continue={}", all["metadata"]["continue"].as_str().unwrap())).await;
    assert_eq!(names(&rest.json()), ["mk7q-fast"]);
    let scraped = api.of_tenant("acme", Role::Metrics).get("/metrics").await;
    assert!(scraped.text.contains("canopy_tenant_groups{tenant=\"acme\"} 1"), "{}", scraped.text);
    assert!(!scraped.text.contains("canopy_groups") && !scraped.text.contains("mk7q"), "{}", scraped.text);
    assert!(api.get("/metrics").await.text.contains("canopy_tenant_groups_limit{tenant=\"acme\"} 1"));

    let fast = api.of_tenant("mk7q-fast", Role::Operator);
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let keyed = async || fast.send("PUT", "/api/v1/groups/f1", &headers, crate::support::group("f1").to_string()).await;
    assert_eq!(keyed().await.status, 201);
    for _ in 0..3 {
        assert_eq!(keyed().await.header("idempotency-replayed"), "true");
        assert_eq!(fast.put("/api/v1/groups/f9?dryRun=true", &crate::support::group("f9")).await.status, 200);
    }
    assert_eq!(fast.put("/api/v1/groups/f2", &crate::support::group("f2")).await.status, 201);
    let refused = fast.delete("/api/v1/groups/f2").await;
    assert_eq!((refused.problem().0, refused.problem().1.as_str()), (429, "TooManyChanges"));
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(acme.delete("/api/v1/groups/g1").await.status, 204, "another tenant's");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fast.delete("/api/v1/groups/f2").await.status, 204);
}

/// Catches a tenant whose change becomes a part of the domain's commit, and is taken back, or kept, with it.
#[tokio::test]
async fn a_commit_of_the_domain_takes_in_no_tenant() {
    let api = Api::start().await;
    let acme = api.of_tenant("acme", Role::Operator);
    let begun = api.post("/api/v1/commit", &json!({"timeoutSeconds": 600})).await;
    assert!(begun.status.is_success(), "{}", begun.text);
    let id = begun.json()["id"].as_str().unwrap().to_owned();
    let group = crate::support::group("x");
    let headers = [("content-type", "application/json"), ("canopy-commit", id.as_str())];
    for refused in [
        acme.put("/api/v1/groups/x", &group).await,
        acme.send("PUT", "/api/v1/groups/x", &headers, group.to_string()).await,
    ] {
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (409, "CommitPending"), "{}", refused.text);
        assert!(!refused.text.contains(&id), "{}", refused.text);
    }
    assert_eq!(api.post("/api/v1/commit/cancel", &json!({"id": id})).await.status, 200);
    assert_eq!(acme.put("/api/v1/groups/x", &group).await.status, 201);
}

/// Catches a role in one tenant that makes tokens for another place, where it only reads.
#[tokio::test]
async fn tokens_are_made_by_operators_of_their_own_place() {
    let api = Api::start().await;
    let tenants = [("acme".to_owned(), Role::Operator), ("beta".to_owned(), Role::Viewer)].into();
    let reader = Identity { tenants, ..Identity::new(Principal::operator("eve", Some(2000)), Some(Role::Viewer)) };
    let eve = api.by_identity(reader);
    for token in [json!({"name": "t", "role": "viewer"}), json!({"name": "t", "role": "viewer", "tenant": "beta"})] {
        let refused = eve.post("/api/v1/tokens", &token).await;
        assert_eq!((refused.problem().0, refused.problem().1.as_str()), (403, "RoleNeeded"), "{}", refused.text);
    }
    let made = eve.post("/api/v1/tokens", &json!({"name": "t", "role": "operator", "tenant": "acme"})).await;
    assert_eq!(made.status, 201, "{}", made.text);
}

/// Catches a group that is taken for a path because of its name.
#[tokio::test]
async fn a_group_is_deleted_whatever_its_name() {
    let api = Api::start().await;
    let acme = api.of_tenant("acme", Role::Operator);
    for name in ["captures", "members", "watch"] {
        let path = format!("/api/v1/groups/{name}");
        assert_eq!(acme.put(&path, &crate::support::group(name)).await.status, 201);
        let deleted = acme.delete(&path).await;
        assert_eq!(deleted.status, 204, "{name}: {}", deleted.text);
    }
}

/// Catches a deletion whose answer was lost and that is refused when it is sent again, because the group is gone by it.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_is_sent_again_gets_its_answer_again() {
    let api = planted().await;
    let own = api.of_tenant("other", Role::Operator);
    let delete = async |caller: &Api, group: &str| {
        let path = format!("/api/v1/groups/{group}");
        caller.send("DELETE", &path, &[("idempotency-key", "once")], "").await
    };
    for replayed in ["", "true"] {
        let answer = delete(&own, "a-own").await;
        assert_eq!((answer.status.as_u16(), answer.header("idempotency-replayed")), (204, replayed), "{}", answer.text);
    }
    // Without the key there is none, and that key has deleted no other group.
    assert_eq!(own.delete("/api/v1/groups/a-own").await.status, 404);
    for name in [FOREIGN, NONE] {
        assert_eq!(delete(&own, name).await.status, 404);
    }
    // The same answer where another tenant has the name now.
    assert_eq!(api.put("/api/v1/groups/a-own", &of_tenant("a-own", "third")).await.status, 201);
    assert_eq!(delete(&own, "a-own").await.status, 204);
    assert_eq!(api.get("/api/v1/groups/a-own").await.status, 200);
    assert_eq!(delete(&api.of_tenant("other", Role::Viewer), "z-own").await.status, 403);
}
