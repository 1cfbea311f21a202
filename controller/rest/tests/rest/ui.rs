// SPDX-License-Identifier: Apache-2.0
//! The web UI as the router serves it.

use canopy_controller_rest::only_local_names;

use crate::support::{Answer, Api, group, signed_in};

const HTML: [(&str, &str); 1] = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];

fn is_page(answer: &Answer) -> bool {
    answer.status == 200
        && answer.header("content-type").starts_with("text/html")
        && answer.text.contains("id=\"root\"")
}

/// Values of `src` and `href` that name a file of this origin.
fn files(page: &str) -> Vec<String> {
    let after = |attribute: &str| {
        page.split(attribute).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let mut found = [after("src=\""), after("href=\"")].concat();
    found.retain(|path| path != "/plain");
    found
}

/// Catches a page that names a file which is not in the program, a type that browsers refuse, and a file that is kept although its name
/// does not change with its content.
#[tokio::test]
async fn the_page_and_all_that_it_loads_are_served() {
    let api = Api::start().await;
    let page = api.get("/").await;
    assert!(is_page(&page), "{}", page.text);
    assert_eq!(page.header("cache-control"), "no-store");
    let files = files(&page.text);
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let answer = api.get(&file).await;
        assert_eq!(answer.status, 200, "{file}");
        let wanted = match file.rsplit_once('.').unwrap().1 {
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            _ => "image/svg+xml",
        };
        assert_eq!(answer.header("content-type"), wanted, "{file}");
        let is_kept = answer.header("cache-control").contains("immutable");
        assert_eq!(is_kept, file.starts_with("/assets/"), "{file}");
    }
}

/// Catches a page of the API that is not served, loads a file of another origin or of the UI, or weakens the policy of the UI.
#[tokio::test]
async fn the_page_of_the_api_is_apart_from_the_ui() {
    let api = Api::start().await;
    let ui = api.get("/").await;
    for path in ["/docs", "/docs/", "/docs/index.html"] {
        let page = api.get(path).await;
        assert!(page.status == 200 && page.header("content-type").starts_with("text/html"), "{path}: {}", page.text);
        assert_eq!(page.header("cache-control"), "no-store");
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; "), "{policy}");
        for never in ["unsafe-eval", "*", "http:", "https:", "blob:"] {
            assert!(!policy.contains(never), "{policy}");
        }
        let files: Vec<String> = files(&page.text).into_iter().filter(|file| file.contains('.')).collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            assert!(file.starts_with("/docs/assets/") || file == "/icon.svg", "{file}");
            assert!(!ui.text.contains(&file) || file == "/icon.svg", "{file}");
            let answer = api.get(&file).await;
            assert_eq!(
                (answer.status.as_u16(), answer.header("cache-control").contains("immutable")),
                (200, file != "/icon.svg")
            );
        }
    }
    assert!(!ui.header("content-security-policy").contains("unsafe"));
    let nothing = api.send("GET", "/docs/nothing", &HTML, "").await;
    assert_eq!((nothing.status.as_u16(), nothing.header("content-type")), (404, "application/problem+json"));
}

/// Catches a policy that lets text become a script, or another origin take part.
#[tokio::test]
async fn only_scripts_of_this_origin_run() {
    let page = Api::start().await.get("/").await;
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'self';"), "{policy}");
    for never in ["unsafe", "*", "http:", "https:", "data:", "blob:"] {
        assert!(!policy.contains(never), "{policy}");
    }
    for directive in
        ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"]
    {
        assert!(policy.contains(directive), "{policy}");
    }
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    // Neither an inline script nor an inline style, which the policy would refuse.
    assert!(!page.text.contains("<script>") && !page.text.contains("<style") && !page.text.contains(" style="));
}

/// Catches a reload of a page of the UI that is not found, and an error of the API that is answered with a page.
#[tokio::test]
async fn a_browser_opens_any_path_of_the_ui_and_the_api_keeps_its_errors() {
    let api = Api::start().await;
    for path in ["/groups/demo", "/nodes/n1", "/no/such/page"] {
        assert!(is_page(&api.send("GET", path, &HTML, "").await), "{path}");
        assert_eq!(api.get(path).await.problem().1, "NotFound", "{path}");
    }
    for path in ["/api/v1/nothing", "/assets/nothing.js"] {
        assert_eq!(api.send("GET", path, &HTML, "").await.problem().0, 404, "{path}");
    }
    assert_eq!(api.send("POST", "/", &HTML, "").await.problem().0, 404);
    assert!(api.send("GET", "/plain", &HTML, "").await.text.contains("No topology yet"));
}

/// Catches a page of another site, or of another port of this machine, that creates and deletes groups; and a check that refuses the UI's
/// own pages, or programs.
#[tokio::test]
async fn only_pages_of_this_address_write() {
    let Api { controller, .. } = Api::start().await;
    let router = Api::of(controller.clone()).router;
    let api = Api { router: only_local_names(router.clone()), controller };
    let send = async |method: &str, headers: &[(&str, &str)]| {
        let headers = [&[("host", "127.0.0.1:8640"), ("content-type", "application/json")], headers].concat();
        let body = if method == "PUT" { group("g1").to_string() } else { String::new() };
        api.send(method, "/api/v1/groups/g1", &headers, body).await
    };
    for foreign in [
        ("origin", "http://evil.example"),
        ("origin", "http://127.0.0.1:9999"),
        ("origin", "http://127.0.0.1:86400"),
        ("origin", "http://localhost:8640"),
        ("origin", "null"),
        ("origin", ""),
        ("sec-fetch-site", "same-site"),
        ("sec-fetch-site", "cross-site"),
    ] {
        for method in ["PUT", "DELETE"] {
            assert_eq!(send(method, &[foreign]).await.problem().1, "ForeignOrigin", "{method} {foreign:?}");
        }
    }
    // Two, of which one is ours.
    let both = [("origin", "http://127.0.0.1:8640"), ("origin", "http://evil.example")];
    assert_eq!(send("PUT", &both).await.status, 403);
    assert_eq!(api.get("/api/v1/groups/g1").await.status, 421, "a request without a Host is refused as before");
    let bearer = signed_in(&Api { router: router.clone(), controller: api.controller.clone() }).await;
    let ours =
        [("origin", "http://127.0.0.1:8640"), ("sec-fetch-site", "same-origin"), ("authorization", bearer.as_str())];
    assert_eq!(send("PUT", &ours).await.status, 201);
    assert_eq!(send("DELETE", &ours).await.status, 204);
    assert_eq!(send("PUT", &[]).await.status, 201);
    // A bearer does not help a page of another origin.
    let stolen = [("origin", "http://evil.example"), ("authorization", bearer.as_str())];
    assert_eq!(send("DELETE", &stolen).await.problem().1, "ForeignOrigin");
    // A link on another page may lead to the UI, but not to the API.
    let link = [("sec-fetch-site", "cross-site"), ("host", "127.0.0.1:8640")];
    assert_eq!(api.send("GET", "/", &link, "").await.status, 200);
    assert_eq!(send("GET", &[("sec-fetch-site", "cross-site")]).await.problem().1, "SignInRequired");
}
