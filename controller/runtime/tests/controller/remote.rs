// SPDX-License-Identifier: Apache-2.0
//! Operators on other machines: canopyctl over TLS with a token, and the web UI that it serves for a browser.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use canopy_controller_access::{Identity, TokenRequest, Tokens};
use canopy_controller_authority::{Registrar, Settings};
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_identity::Trust;
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::support::Controller;

const DEADLINE: Duration = Duration::from_secs(30);

fn registrar(dir: &Path) -> Arc<Registrar> {
    let settings = Settings {
        directory: dir.join("identity"),
        domain: "canopy".parse().unwrap(),
        lifetime: Duration::from_secs(3600),
    };
    Registrar::open(settings, UnixTime::now()).unwrap()
}

/// What a command prints, while it runs.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(octets)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

async fn canopyctl(args: &[&str]) -> Result<String, String> {
    let out = Shared::default();
    let line = ["canopyctl"].into_iter().chain(args.iter().copied());
    let cli = <canopy_ctl::cli::Cli as clap::Parser>::try_parse_from(line).map_err(|e| e.to_string())?;
    canopy_ctl::run(cli, &mut out.clone()).await.map_err(|failure| failure.to_string())?;
    Ok(out.text())
}

struct Remote {
    dir: tempfile::TempDir,
    controller: Controller,
    registrar: Arc<Registrar>,
    authority: String,
    token: PathBuf,
}

impl Remote {
    /// With a token of an operator in a file.
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let registrar = registrar(dir.path());
        let authority = registrar.authority().to_string();
        // Of another user, from before.
        let alice = Identity::new(Principal::operator("alice", Some(1000)), Some(Role::Operator));
        let request = TokenRequest { name: "of-alice".into(), tenant: None, role: Role::Viewer, life: DEADLINE * 60 };
        let tokens = Tokens::open(&dir.path().join("identity"), UnixTime::now()).unwrap();
        let other = tokens.make(request, &alice, UnixTime::now()).unwrap().0;
        std::fs::write(dir.path().join("of-alice"), other.reveal()).unwrap();
        let controller = Controller::start_remote(dir.path(), registrar.clone()).await;
        let token = dir.path().join("laptop.token");
        let remote = Self { dir, controller, registrar, authority, token };
        let file = format!("--file={}", remote.token.display());
        let local = remote.local();
        canopyctl(&["--server", &local, "token", "create", "laptop", "--role", "operator", &file]).await.unwrap();
        remote
    }

    fn local(&self) -> String {
        format!("unix:{}", self.dir.path().join("rest.sock").display())
    }

    fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.port())
    }

    fn port(&self) -> u16 {
        self.controller.web().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    /// A file with a certificate of this name, for a key that is made here.
    async fn certificate(&self, name: &str) -> PathBuf {
        let file = self.dir.path().join(format!("{name}.pem"));
        let request = canopyctl(&["certificate", "request", "--file", file.to_str().unwrap()]).await.unwrap();
        let wanted = json!({"name": name, "role": "operator", "certificateRequest": request});
        let local = canopy_ctl::client::Client::new(&self.local(), None).unwrap();
        let made: Value = local.post("certifying", "/api/v1/tokens", &wanted).await.unwrap();
        assert_eq!(made.get("token"), None, "a secret besides");
        canopy_identity::Credentials::complete_file(&file, made["certificate"].as_str().unwrap()).unwrap();
        file
    }

    async fn over_tls(&self, args: &[&str]) -> Result<String, String> {
        let (server, token) = (self.server(), format!("--token-file={}", self.token.display()));
        let all = ["--server", &server, "--authority", &self.authority, &token];
        canopyctl(&[&all, args].concat()).await
    }
}

/// Catches a controller that is not recognized, one that is taken for another, and an address that answers without TLS or a token.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_elsewhere_uses_tls_and_a_token() {
    let remote = Remote::start().await;
    assert_eq!(remote.over_tls(&["whoami"]).await.unwrap(), "root (token laptop), with the role operator\n");
    let (server, authority) = (remote.server(), remote.authority.clone());
    let stranger = canopyctl(&["--server", &server, "--authority", &authority, "get", "groups"]).await.unwrap_err();
    assert!(stranger.contains("has no role on this controller"), "{stranger}");
    let other = "0".repeat(64);
    let refused = canopyctl(&["--server", &server, "--authority", &other, "whoami"]).await.unwrap_err();
    assert!(refused.contains("cannot reach the controller") && refused.contains("of another authority"), "{refused}");
    let missing = canopyctl(&["--server", &server, "whoami"]).await.unwrap_err();
    assert!(missing.contains("--authority"), "{missing}");
    // A stream over TLS, and the limits of the role.
    let file = remote.dir.path().join("g.yaml");
    std::fs::write(&file, "apiVersion: canopy/v1\nkind: Group\nmetadata: {name: g1}\nspec: {}\n").unwrap();
    remote.over_tls(&["apply", "-f", file.to_str().unwrap()]).await.unwrap();
    assert!(remote.over_tls(&["get", "groups"]).await.unwrap().contains("g1"));
    let audit = remote.over_tls(&["audit"]).await.unwrap();
    assert!(audit.contains("root (token laptop)"), "{audit}");
    let above = remote.over_tls(&["node", "enroll", "n1"]).await.unwrap_err();
    assert!(above.contains("has the role operator, and this needs admin"), "{above}");
    // Plain HTTP gets nothing.
    let mut plain = TcpStream::connect(("127.0.0.1", remote.port())).unwrap();
    plain.set_read_timeout(Some(DEADLINE)).unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&answer));
    canopyctl(&["--server", &remote.local(), "token", "revoke", "laptop"]).await.unwrap();
    let revoked = remote.over_tls(&["whoami"]).await.unwrap_err();
    assert!(revoked.contains("this token does not work"), "{revoked}");
    remote.controller.stop().await;
}

/// What the controller answers over TLS to one that shows this, and sends these headers.
async fn answer(
    remote: &Remote,
    own: &canopy_identity::Credentials,
    method: &str,
    headers: &[(&str, &str)],
) -> (u16, String) {
    use http_body_util::{BodyExt, Empty};
    let trust = Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone());
    let config = Arc::new(canopy_identity::operator(trust, Some(own)).unwrap());
    let stream = canopy_identity::connect("127.0.0.1", remote.port(), config).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = hyper::Request::builder().method(method).uri("/api/v1/groups/g1").header("host", "controller");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Empty::<hyper::body::Bytes>::new()).unwrap()).await;
    let Ok(answer) = answer else { return (0, format!("{answer:?}")) };
    let status = answer.status().as_u16();
    (status, String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap())
}

/// Catches a certificate that counts after it was revoked, for an agent, for a page in a browser, beside another principal's token, or as one of
/// agents; and one that makes others.
#[tokio::test(flavor = "multi_thread")]
async fn an_operator_elsewhere_is_known_by_a_certificate() {
    let remote = Remote::start().await;
    let (server, file) = (remote.server(), remote.certificate("desk").await);
    let shown = format!("--certificate-file={}", file.display());
    let by_certificate = async |args: &[&str]| canopyctl(&[&["--server", &server, &shown], args].concat()).await;
    assert_eq!(by_certificate(&["whoami"]).await.unwrap(), "root (token desk), with the role operator\n");
    let listed = canopyctl(&["--server", &remote.local(), "token", "list"]).await.unwrap();
    assert!(listed.contains("certificate") && listed.contains("11h"), "{listed}");
    let above = by_certificate(&["node", "enroll", "n1"]).await.unwrap_err();
    assert!(above.contains("has the role operator, and this needs admin"), "{above}");
    let more = by_certificate(&["token", "create", "more", "--role", "viewer"]).await.unwrap_err();
    assert!(more.contains("not from a browser nor with a token or a certificate"), "{more}");
    let plain = canopyctl(&["--server", &remote.local(), &shown, "whoami"]).await.unwrap_err();
    assert!(plain.contains("over TLS only"), "{plain}");
    let rotated = canopyctl(&["--server", &remote.local(), "token", "rotate", "desk"]).await.unwrap_err();
    assert!(rotated.contains("make another one"), "{rotated}");

    let own = canopy_identity::Credentials::read_file(&file).unwrap();
    assert_eq!(answer(&remote, &own, "GET", &[]).await.0, 404);
    // A browser would show it for a page of anywhere, and `canopyctl ui` for every program of its machine.
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("origin", "https://elsewhere.example")],
        &[("canopy-forwarded", "x")],
    ] {
        for method in ["GET", "DELETE"] {
            let (status, text) = answer(&remote, &own, method, headers).await;
            assert!(matches!(status, 401 | 403), "{method} {headers:?}: {status} {text}");
        }
    }
    let token = std::fs::read_to_string(remote.dir.path().join("of-alice")).unwrap();
    let (status, text) = answer(&remote, &own, "GET", &[("authorization", &format!("Bearer {token}"))]).await;
    assert!(status == 400 && text.contains("TwoPrincipals"), "{status}: {text}");
    // What is sent counts, of the same user.
    let sent = format!("--token-file={}", remote.token.display());
    assert!(by_certificate(&[&sent, "whoami"]).await.unwrap().contains("token laptop"));
    // The names of agents and of operators are apart.
    let subject: canopy_identity::Subject = "node/desk".parse().unwrap();
    let key = canopy_identity::PrivateKey::generate().unwrap();
    let handed = remote.registrar.hand_out(subject.clone(), UnixTime::now()).unwrap();
    let made =
        remote.registrar.enroll(&handed.token.secret, &subject, &key.request().unwrap(), UnixTime::now()).unwrap();
    let agent = canopy_identity::Credentials::new(key, made.chain, made.authorities).unwrap();
    assert_eq!(answer(&remote, &agent, "GET", &[]).await.0, 0, "a certificate of an agent");
    let config = canopy_identity::client(Trust::Token(remote.registrar.authority()), Some(&own)).unwrap();
    let to_agents = canopy_identity::connect("127.0.0.1", remote.controller.tls_port(), Arc::new(config)).await;
    let refused = tokio::io::AsyncReadExt::read_u8(&mut to_agents.unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("alert"), "{refused}");

    canopyctl(&["--server", &remote.local(), "token", "revoke", "desk"]).await.unwrap();
    let revoked = by_certificate(&["whoami"]).await.unwrap_err();
    assert!(revoked.contains("this certificate does not work: it was revoked"), "{revoked}");
    remote.controller.stop().await;
}

/// Catches requests and files that cannot be certified, and a key with two names.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_certified_names_its_field_and_changes_nothing() {
    let remote = Remote::start().await;
    let local = canopy_ctl::client::Client::new(&remote.local(), None).unwrap();
    let make = async |name: &str, request: &str, seconds: u32| {
        let wanted = json!({"name": name, "role": "viewer", "certificateRequest": request, "forSeconds": seconds});
        local.post::<Value>("certifying", "/api/v1/tokens", &wanted).await.map_err(|failure| failure.to_string())
    };
    let file = remote.dir.path().join("key.pem");
    let request = canopyctl(&["certificate", "request", "--file", file.to_str().unwrap()]).await.unwrap();
    let again = canopyctl(&["certificate", "request", "--file", file.to_str().unwrap()]).await.unwrap_err();
    assert!(again.contains("it exists: move it away"), "{again}");
    let key = std::fs::read_to_string(&file).unwrap();
    let broken = request.replacen("MI", "MA", 1);
    for text in ["", "x", &key, &broken, &"-".repeat(9000)] {
        let refused = make("a", text, 60).await.unwrap_err();
        assert!(refused.contains("certificateRequest"), "{refused}");
    }
    let long = make("a", &request, 43_201).await.unwrap_err();
    assert!(long.contains("forSeconds: 43201 s: use 60 to 43200"), "{long}");
    let early =
        canopyctl(&["--certificate-file", file.to_str().unwrap(), "--server", &remote.server(), "whoami"]).await;
    assert!(early.unwrap_err().contains("no certificate yet"));
    make("a", &request, 60).await.unwrap();
    let twice = make("b", &request, 60).await.unwrap_err();
    assert!(twice.contains("certificateRequest: this key has a certificate already"), "{twice}");
    let listed = canopyctl(&["--server", &remote.local(), "token", "list"]).await.unwrap();
    assert_eq!(listed.lines().count(), 4, "{listed}");
    // The certificate of another key.
    let other = remote.certificate("other").await;
    let other = std::fs::read_to_string(other).unwrap();
    let refused = canopy_identity::Credentials::complete_file(&file, &other).unwrap_err().to_string();
    assert!(refused.contains("of another key"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), key);
    remote.controller.stop().await;
}

/// One request to the proxy, over a connection of its own.
fn ask(address: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The address of the page and the code in it, once the command has printed them.
async fn printed(out: &Shared) -> (String, String) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let text = out.text();
        if let Some((address, code)) = text.lines().next().and_then(|line| line.split_once("/#"))
            && text.contains('\n')
        {
            return (address.strip_prefix("http://").unwrap().to_owned(), code.to_owned());
        }
        assert!(Instant::now() < deadline, "{text:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Catches a proxy that gives every user of its machine the rights of the one who runs it, one that a page of another origin can use, a code
/// that works twice, and a stream that is held back.
#[tokio::test(flavor = "multi_thread")]
async fn the_web_ui_is_served_for_one_browser_over_a_socket_and_over_tls() {
    tokio::task::LocalSet::new().run_until(serve_a_browser()).await;
}

async fn serve_a_browser() {
    let remote = Remote::start().await;
    let (local, server, authority) = (remote.local(), remote.server(), remote.authority.clone());
    let token = format!("--token-file={}", remote.token.display());
    let over_socket = vec!["canopyctl", "--server", &local, "ui", "--print"];
    let over_tls = vec!["canopyctl", "--server", &server, "--authority", &authority, &token, "ui", "--print"];
    let certificate = format!("--certificate-file={}", remote.certificate("desk").await.display());
    let by_certificate = vec!["canopyctl", "--server", &server, &certificate, "ui", "--print"];
    for (line, role, by, group) in [
        (over_socket, "admin", "root (UI)", "g1"),
        (over_tls, "operator", "root (token laptop)", "g2"),
        (by_certificate, "operator", "root (token desk)", "g3"),
    ] {
        let cli = <canopy_ctl::cli::Cli as clap::Parser>::try_parse_from(line).unwrap();
        let out = Shared::default();
        let mut writer = out.clone();
        // It is not `Send`; what it serves runs on other threads.
        let serving = tokio::task::spawn_local(async move { canopy_ctl::run(cli, &mut writer).await });
        let (address, code) = printed(&out).await;
        let ask =
            |method: &str, path: &str, headers: &[(&str, &str)], body: &str| ask(&address, method, path, headers, body);
        assert!(ask("GET", "/", &[("accept", "text/html")], "").1.contains("<title>Canopy"), "the page");
        // Another user of the machine, without the code.
        for (method, path) in [
            ("GET", "/api/v1/groups"),
            ("GET", "/metrics"),
            ("GET", "/plain"),
            ("GET", "/readyz?verbose"),
            ("DELETE", "/api/v1/topology"),
            ("POST", "/api/v1/sign-in-codes"),
            ("POST", "/api/v1/tokens"),
        ] {
            let (status, text) = ask(method, path, &[], "{}");
            assert_eq!(status, 401, "{method} {path}: {text}");
        }
        let body = json!({"code": code}).to_string();
        assert_eq!(ask("POST", "/api/v1/sign-in", &[("Origin", "http://127.0.0.1:1")], &body).0, 403);
        let own = format!("http://{address}");
        let (status, session) = ask("POST", "/api/v1/sign-in", &[("Origin", &own)], &body);
        assert_eq!(status, 200, "{session}");
        let session: Value = serde_json::from_str(&session).unwrap();
        assert_eq!(session["role"], role);
        assert_eq!(ask("POST", "/api/v1/sign-in", &[("Origin", &own)], &body).0, 401, "the code works once");
        let bearer = format!("Bearer {}", session["bearer"].as_str().unwrap());
        let signed = [("Authorization", bearer.as_str()), ("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")];
        let wanted =
            json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": group}, "spec": {}}).to_string();
        let (status, written) = ask("PUT", &format!("/api/v1/groups/{group}"), &signed, &wanted);
        assert_eq!(status, 201, "{written}");
        let audit: Value = serde_json::from_str(&ask("GET", "/api/v1/audit?limit=1", &signed, "").1).unwrap();
        assert_eq!(audit["items"][0]["by"]["name"], "root");
        let token = audit["items"][0]["by"]["token"].as_str().map_or("UI".to_owned(), |token| format!("token {token}"));
        assert_eq!(by, format!("root ({token})"), "{audit}");
        // Events of a stream arrive while it lasts.
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let request = format!(
            "GET /api/v1/groups?watch=true HTTP/1.1\r\nHost: {address}\r\nAuthorization: {bearer}\r\nSec-Fetch-Site: same-origin\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut seen = String::new();
        while !seen.contains("event: synced") {
            let mut octets = [0; 4096];
            let count = stream.read(&mut octets).unwrap();
            assert!(count > 0, "the stream ended: {seen}");
            seen.push_str(&String::from_utf8_lossy(&octets[..count]));
        }
        assert!(seen.contains(group), "{seen}");
        serving.abort();
        assert!(serving.await.unwrap_err().is_cancelled());
    }
    remote.controller.stop().await;
}
