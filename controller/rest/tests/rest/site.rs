// SPDX-License-Identifier: Apache-2.0
//! Browsers on other machines: a cookie, and what a request with one must have.

use std::time::Duration;

use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_rest::for_browsers;
use serde_json::json;

use crate::support::{Answer, Api, group};

const HOST: (&str, &str) = ("host", "canopy.example:8643");
const ORIGIN: (&str, &str) = ("origin", "https://canopy.example:8643");
const SAME: (&str, &str) = ("sec-fetch-site", "same-origin");
const JSON: (&str, &str) = ("content-type", "application/json");
/// What our own page sends with a write, besides the cookie.
const PAGE: [(&str, &str); 4] = [HOST, ORIGIN, SAME, JSON];

/// The API of a controller, and the same at its address for browsers, where a connection shows no user.
async fn site() -> (Api, Api) {
    let api = Api::prepared().await;
    let origins = vec!["https://canopy.example:8643".parse().unwrap(), "https://canopy.example".parse().unwrap()];
    let site = api.by(Principal::operator("", None), None);
    let router = for_browsers(site.router, origins);
    (Api { router, controller: api.controller.clone() }, api)
}

/// The cookie of a session that has begun with a code of `by`.
async fn signed_in(site: &Api, by: &Api) -> String {
    let code = by.post("/api/v1/sign-in-codes", &json!({})).await.json()["code"].clone();
    let begun = site.send("POST", "/api/v1/sign-in", &PAGE, json!({"code": code}).to_string()).await;
    assert_eq!(begun.status, 200, "{}", begun.text);
    assert_eq!(begun.json().get("bearer"), None, "a page gets no secret");
    let set = begun.header("set-cookie").to_owned();
    let (pair, rest) = set.split_once("; ").unwrap();
    assert_eq!(rest, "Path=/; Secure; HttpOnly; SameSite=Lax");
    assert_eq!(pair.strip_prefix("__Host-canopy=").unwrap().len(), 43);
    pair.to_owned()
}

async fn put(site: &Api, headers: &[(&str, &str)]) -> Answer {
    site.send("PUT", "/api/v1/groups/g1", headers, group("g1").to_string()).await
}

/// Catches a write that a page of another origin makes a browser send, and one of our own page that is refused.
#[tokio::test]
async fn a_write_with_a_cookie_is_that_of_our_own_page() {
    let (site, api) = site().await;
    let cookie = signed_in(&site, &api).await;
    let cookie = ("cookie", cookie.as_str());
    let with = |change: (&'static str, Option<&'static str>)| {
        let mut headers = [&PAGE[..], &[cookie]].concat();
        headers.retain(|(name, _)| *name != change.0);
        headers.extend(change.1.map(|value| (change.0, value)));
        headers
    };
    assert_eq!(put(&site, &with(("x-none", None))).await.status, 200);
    assert_eq!(put(&site, &with(("content-type", Some("application/json; charset=utf-8")))).await.status, 200);
    // The other origin's page is another page of this controller.
    assert_eq!(put(&site, &with(("host", Some("canopy.example")))).await.status, 200);
    for (change, code) in [
        (("origin", None), "ForeignOrigin"),
        (("origin", Some("null")), "ForeignOrigin"),
        (("origin", Some("http://canopy.example:8643")), "ForeignOrigin"),
        (("origin", Some("https://canopy.example:8644")), "ForeignOrigin"),
        (("origin", Some("https://canopy.example:8643.evil.example")), "ForeignOrigin"),
        (("sec-fetch-site", None), "ForeignOrigin"),
        (("sec-fetch-site", Some("same-site")), "ForeignOrigin"),
        (("sec-fetch-site", Some("cross-site")), "ForeignOrigin"),
        (("sec-fetch-site", Some("none")), "ForeignOrigin"),
        (("content-type", None), "UnsupportedMediaType"),
        (("content-type", Some("text/plain")), "UnsupportedMediaType"),
        (("host", Some("canopy.example:8644")), "ForeignHost"),
        (("host", Some("evil.example")), "ForeignHost"),
        (("host", None), "ForeignHost"),
    ] {
        assert_eq!(put(&site, &with(change)).await.problem().1, code, "{change:?}");
        let headers = with(change);
        let deleted = site.send("DELETE", "/api/v1/groups/g1", &headers, "").await;
        assert_eq!(deleted.problem().1, code, "DELETE {change:?}");
    }
    let twice = [&PAGE[..], &[cookie, ORIGIN]].concat();
    assert_eq!(put(&site, &twice).await.problem().1, "ForeignOrigin");
    // A form has no way either to begin a session in the browser of another.
    let code = api.post("/api/v1/sign-in-codes", &json!({})).await.json()["code"].clone();
    let body = json!({"code": code}).to_string();
    let foreign = [HOST, ("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), JSON];
    assert_eq!(site.send("POST", "/api/v1/sign-in", &foreign, body).await.problem().1, "ForeignOrigin");
}

/// Catches a page of a neighbor that reads with the cookie, and an address that its user has opened and that is refused.
#[tokio::test]
async fn reading_with_a_cookie_is_for_our_own_page_and_for_who_opens_the_address() {
    let (site, api) = site().await;
    let cookie = signed_in(&site, &api).await;
    let get = async |path: &str, of: Option<&str>| {
        let site_of = of.map(|of| ("sec-fetch-site", of));
        let headers: Vec<_> = [HOST, ("cookie", cookie.as_str())].into_iter().chain(site_of).collect();
        site.send("GET", path, &headers, "").await.status.as_u16()
    };
    for (of, status) in [
        (None, 200),
        (Some("same-origin"), 200),
        (Some("none"), 200),
        (Some("same-site"), 403),
        (Some("cross-site"), 403),
    ] {
        assert_eq!(get("/api/v1/groups", of).await, status, "{of:?}");
    }
    // The page itself is opened from anywhere: a link, or the identity provider.
    assert_eq!(get("/", Some("cross-site")).await, 200);
    assert_eq!(get("/plain", Some("none")).await, 200);
}

/// Catches a cookie that another address of the controller takes, a bearer that is taken for a cookie, and the other way round.
#[tokio::test]
async fn a_cookie_is_for_its_own_address_alone() {
    let (site, api) = site().await;
    let cookie = signed_in(&site, &api).await;
    let secret = cookie.split_once('=').unwrap().1;
    let stranger = api.by(Principal::operator("", None), None);
    let code = |answer: &Answer| answer.problem().1;
    let answer = stranger.send("GET", "/api/v1/groups", &[("cookie", &cookie)], "").await;
    assert_eq!(code(&answer), "Unauthenticated", "cookies are ignored here");
    let bearer = format!("Bearer {secret}");
    let answer = site.send("GET", "/api/v1/groups", &[HOST, ("authorization", &bearer)], "").await;
    assert_eq!(code(&answer), "SignInRequired");
    let bearer = crate::support::signed_in(&api).await;
    let cookie = format!("__Host-canopy={}", bearer.split_once(' ').unwrap().1);
    let answer = site.send("GET", "/api/v1/groups", &[HOST, ("cookie", &cookie)], "").await;
    assert_eq!(code(&answer), "SignInRequired");
    assert!(answer.header("set-cookie").contains("Max-Age=0"), "a cookie that does not work is removed");
    // Without anything, a browser has to sign in, and a program needs a token.
    assert_eq!(code(&site.send("GET", "/api/v1/groups", &[HOST, SAME], "").await), "SignInRequired");
    assert_eq!(code(&site.send("GET", "/api/v1/groups", &[HOST], "").await), "Unauthenticated");
}

/// Catches a request that has credentials of two principals and is carried out for one of them.
#[tokio::test]
async fn credentials_of_two_principals_are_refused() {
    let (site, api) = site().await;
    let of = |name: &'static str, uid| api.by(Principal::operator(name, Some(uid)), Some(Role::Operator));
    let (alice, bob) = (of("alice", 1000), of("bob", 1001));
    let cookie = signed_in(&site, &alice).await;
    let token = async |by: &Api, name: &str| {
        let made = by.post("/api/v1/tokens", &json!({"name": name, "role": "viewer"})).await;
        format!("Bearer {}", made.json()["token"].as_str().unwrap())
    };
    let (own, other) = (token(&alice, "a").await, token(&bob, "b").await);
    let get = async |headers: &[(&str, &str)]| {
        let headers = [&[HOST, SAME, ("cookie", cookie.as_str())], headers].concat();
        site.send("GET", "/api/v1/groups", &headers, "").await
    };
    assert_eq!(get(&[("authorization", &own)]).await.status, 200);
    let answer = get(&[("authorization", &other)]).await;
    assert_eq!((answer.problem().0, answer.problem().1.as_str()), (400, "TwoPrincipals"));
    assert_eq!(get(&[("authorization", &own), ("authorization", &other)]).await.problem().0, 400);
    assert_eq!(get(&[("cookie", "__Host-canopy=A")]).await.problem().0, 400);
    assert_eq!(get(&[("authorization", "Bearer canopy_pat_A")]).await.problem().1, "TokenNotValid");
}

/// Catches a session that signing out leaves, one that lasts although nothing uses it, and one that use keeps for ever.
#[tokio::test(start_paused = true)]
async fn a_session_with_a_cookie_ends_by_signing_out_unused_and_at_last() {
    let (site, api) = site().await;
    let [out, unused, used] =
        [signed_in(&site, &api).await, signed_in(&site, &api).await, signed_in(&site, &api).await];
    let get = async |cookie: &str| {
        let headers = [HOST, SAME, ("cookie", cookie)];
        site.send("GET", "/api/v1/caller", &headers, "").await.status.as_u16()
    };
    let headers = [&PAGE[..], &[("cookie", out.as_str())]].concat();
    let ended = site.send("DELETE", "/api/v1/sign-in", &headers, "").await;
    assert_eq!((ended.status.as_u16(), get(&out).await), (204, 401));
    assert!(
        ended.header("set-cookie").starts_with("__Host-canopy=; ") && ended.header("set-cookie").contains("Max-Age=0")
    );
    let minute = Duration::from_secs(60);
    for _ in 0..2 {
        tokio::time::advance(15 * minute).await;
        assert_eq!(get(&used).await, 200);
    }
    assert_eq!(get(&unused).await, 401);
    for _ in 0..12 * 4 - 3 {
        tokio::time::advance(15 * minute).await;
        assert_eq!(get(&used).await, 200);
    }
    tokio::time::advance(15 * minute).await;
    assert_eq!(get(&used).await, 401);
}
