// SPDX-License-Identifier: Apache-2.0
//! The binary under an operator and systemd: readiness, crash, restart, drain, and refusals at start.
#![allow(clippy::unwrap_used)]

mod program;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use program::{DEADLINE, command, ended, ready, start};

async fn ctl(dir: &Path, args: &[&str]) -> Result<String, String> {
    let server = format!("unix:{}", dir.join("r.sock").display());
    let line = [&["canopyctl", "--server", &server], args].concat();
    let mut out = Vec::new();
    canopy_ctl::run(canopy_ctl::cli::Cli::try_parse_from(line).unwrap(), &mut out).await.map_err(|f| f.message)?;
    Ok(String::from_utf8(out).unwrap())
}

/// The body of the answer to a request.
fn ask(dir: &Path, head: &str, headers: &[String], body: &str) -> String {
    let answer = program::exchange(dir, head, headers, body).expect("no whole answer");
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The string in a field of a JSON object.
fn field(json: &str, name: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json).unwrap()[name].as_str().unwrap().to_owned()
}

/// Catches a code or a bearer in the log, at its most talkative, whether it is accepted or refused.
#[test]
fn no_log_has_a_code_or_a_bearer() {
    let dir = tempfile::tempdir().unwrap();
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut logging = command(dir.path());
    logging.args(["--log-level", "trace"]).stdout(log.try_clone().unwrap()).stderr(log);
    let mut controller = ready(dir.path(), &mut logging);
    let send = |head: &str, headers: &[String], body: &str| ask(dir.path(), head, headers, body);
    let code = field(&send("POST /api/v1/sign-in-codes", &[], ""), "code");
    for wrong in [format!("\"{code}\""), format!("{{\"{code}\":1}}"), code.clone(), format!("{{\"code\":\"{code}A\"}}")]
    {
        assert!(send("POST /api/v1/sign-in", &[], &wrong).contains("\"code\":\""));
    }
    let exchange = format!("{{\"code\":\"{code}\"}}");
    let bearer = field(&send("POST /api/v1/sign-in", &[], &exchange), "bearer");
    assert_eq!(field(&send("POST /api/v1/sign-in", &[], &exchange), "code"), "CodeNotValid");
    let session = [format!("authorization: Bearer {bearer}"), "sec-fetch-site: same-origin".to_owned()];
    let group = r#"{"apiVersion":"canopy/v1","kind":"Group","metadata":{"name":"g1"},"spec":{}}"#;
    assert!(send("PUT /api/v1/groups/g1", &session, group).contains(r#""via":"ui""#));
    assert!(send("PUT /api/v1/groups/g1", &session, "{").contains("MalformedJson"));
    let wrong = [format!("authorization: Bearer {bearer}A"), "origin: http://x".to_owned()];
    assert_eq!(field(&send("GET /api/v1/groups", &wrong, ""), "code"), "SignInRequired");
    assert_eq!(send("DELETE /api/v1/sign-in", &session, ""), "");
    assert_eq!(field(&send("DELETE /api/v1/sign-in", &session, ""), "code"), "SignInRequired");
    controller.kill().unwrap();
    ended(&mut controller);
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    for there in ["signed in to the web UI", "SignInRequired", "CodeNotValid", "\"TRACE\""] {
        assert!(log.contains(there), "{there} is not in the log:\n{log}");
    }
    assert!(!log.contains(&code) && !log.contains(&bearer), "a secret is in the log:\n{log}");
    let store = std::fs::read_dir(dir.path().join("store")).unwrap().map(|file| file.unwrap().path());
    for file in store.filter(|path| path.is_file()) {
        let content = String::from_utf8_lossy(&std::fs::read(&file).unwrap()).into_owned();
        assert!(!content.contains(&code) && !content.contains(&bearer), "a secret is in {}", file.display());
    }
}

/// Sends a request over one connection for each line of its input, and prints the status of each answer.
const ASKING: &str = r#"
import socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
answers = connection.makefile("rb")
for _ in sys.stdin:
    connection.sendall(b"GET /api/v1/groups HTTP/1.1\r\nhost: x\r\n\r\n")
    status, length = answers.readline().split()[1].decode(), 0
    while header := answers.readline().strip().lower():
        if header.startswith(b"content-length:"):
            length = int(header.split(b":")[1])
    answers.read(length)
    print(status, flush=True)
"#;

/// Catches a role that a connection keeps although the settings were read again without it, and settings that are not valid and take roles away.
#[test]
fn roles_are_read_again_while_connections_are_open() {
    const DAEMON: u32 = 1;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (settings, log) = (dir.path().join("settings.toml"), dir.path().join("log"));
    std::fs::write(&settings, "authorization.unix.viewer_groups = [\"daemon\"]").unwrap();
    let mut logging = command(dir.path());
    logging.arg("--config").arg(&settings).stdout(Stdio::null()).stderr(std::fs::File::create(&log).unwrap());
    let mut controller = ready(dir.path(), &mut logging);
    let mut other = Command::new("python3");
    other.args(["-c", ASKING]).arg(dir.path().join("r.sock")).uid(DAEMON).gid(DAEMON);
    let mut other = other.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut asks, mut answers) = (other.stdin.take().unwrap(), BufReader::new(other.stdout.take().unwrap()).lines());
    let mut status = || {
        asks.write_all(b"\n").unwrap();
        answers.next().unwrap().unwrap()
    };
    let read_again = |text: &str, logged: &str| {
        std::fs::write(&settings, text).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(controller.id() as i32), nix::sys::signal::SIGHUP).unwrap();
        let deadline = Instant::now() + DEADLINE;
        while !std::fs::read_to_string(&log).unwrap().contains(logged) {
            assert!(Instant::now() < deadline, "{}", std::fs::read_to_string(&log).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    assert_eq!(status(), "200");
    read_again("authorization.unix.viewer_groups = 7", "nothing changes: authorization.unix.viewer_groups");
    assert_eq!(status(), "200");
    read_again("authorization.unix.viewer_groups = []", "read again: authorization");
    let deadline = Instant::now() + DEADLINE;
    while status() != "401" {
        assert!(Instant::now() < deadline, "the connection keeps the role");
    }
    drop(asks);
    other.wait().unwrap();
    controller.kill().unwrap();
    ended(&mut controller);
}

/// Catches a renewed certificate that needs a restart, which ends every session, and one that does not fit its key and takes the other away.
#[test]
fn the_certificate_for_browsers_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let write = |name: &str, text: &str| {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    let renew = || {
        let key = rcgen::KeyPair::generate().unwrap();
        let made = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        write("key.pem", &key.serialize_pem());
        write("certificate.pem", &made.pem());
        made.pem().replace("\r\n", "\n")
    };
    let first = renew();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let web = format!(
        "[web]\nlisten = \"127.0.0.1:{port}\"\norigins = \"https://localhost:{port}\"\ncertificate = \"{}\"\nkey = \"{}\"\n",
        path("certificate.pem").display(),
        path("key.pem").display()
    );
    write("settings.toml", &web);
    let mut logging = command(dir.path());
    logging.arg("--config").arg(path("settings.toml")).stdout(Stdio::null());
    let mut controller = ready(dir.path(), logging.stderr(std::fs::File::create(path("log")).unwrap()));
    let shown = || {
        let show = format!("import ssl; print(ssl.get_server_certificate(('127.0.0.1', {port})), end='')");
        let out = Command::new("python3").args(["-c", &show]).output().unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let read_again = |logged: &str| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(controller.id() as i32), nix::sys::signal::SIGHUP).unwrap();
        let deadline = Instant::now() + DEADLINE;
        while !std::fs::read_to_string(path("log")).unwrap().contains(logged) {
            assert!(Instant::now() < deadline, "{}", std::fs::read_to_string(path("log")).unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    assert_eq!(shown(), first);
    renew();
    write("certificate.pem", &first);
    read_again("the one before stays: web.certificate and web.key");
    assert_eq!(shown(), first);
    let second = renew();
    read_again("read again: authorization");
    assert_eq!(shown(), second);
    controller.kill().unwrap();
    ended(&mut controller);
}

fn fails(mut command: Command) -> String {
    let out = command.output().unwrap();
    assert!(!out.status.success());
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// kill -9 while a commit is pending: the next start takes it back on time, and `apply` cancels one that is refused in the middle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pending_commit_is_taken_back_on_time_after_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = start(dir.path());
    let [first, second] = ["first", "second"].map(|name| {
        let file = dir.path().join(name);
        std::fs::write(&file, format!("apiVersion: canopy/v1\nkind: Group\nmetadata: {{name: {name}}}\nspec: {{}}\n"))
            .unwrap();
        file.to_str().unwrap().to_owned()
    });
    let groups = async || ctl(dir.path(), &["get", "groups", "-o", "name"]).await.unwrap();
    let applied = ctl(dir.path(), &["apply", "-f", &first, "--confirm", "3s"]).await.unwrap();
    assert!(
        applied.contains("group/first created\ncommit ") && applied.ends_with("group/first would be deleted\n"),
        "{applied}"
    );
    let refused = ctl(dir.path(), &["apply", "-f", &second]).await.unwrap_err();
    assert!(refused.contains("409 CommitPending"), "{refused}");
    controller.kill().unwrap();
    ended(&mut controller);
    let mut controller = start(dir.path());
    let deadline = Instant::now() + DEADLINE;
    while !groups().await.is_empty() {
        assert!(Instant::now() < deadline, "it is not taken back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = ctl(dir.path(), &["commit", "status"]).await.unwrap();
    assert!(status.ends_with("not confirmed in time, its changes were taken back\n"), "{status}");
    ctl(dir.path(), &["apply", "-f", &first, "--confirm", "1h"]).await.unwrap();
    ctl(dir.path(), &["commit", "confirm"]).await.unwrap();
    // Nothing changes, and nothing waits to be confirmed.
    let unchanged = ctl(dir.path(), &["apply", "-f", &first, "--confirm", "1h"]).await.unwrap();
    assert_eq!(unchanged, "group/first unchanged\n");
    // The file of the second resource is that of another version by now: the first is taken back.
    let read = ctl(dir.path(), &["get", "group", "first", "-o", "yaml"]).await.unwrap();
    let changed = |from: &str, mtu: u32| from.replace("pathMtu: 4096", &format!("pathMtu: {mtu}"));
    std::fs::write(&first, changed(&read, 2048)).unwrap();
    ctl(dir.path(), &["apply", "-f", &first]).await.unwrap();
    std::fs::write(&first, changed(&read, 1024)).unwrap();
    let refused = ctl(dir.path(), &["apply", "-f", &second, "-f", &first, "--confirm", "1h"]).await.unwrap_err();
    assert!(
        refused.ends_with("1 of 2 resources were applied before\n  what was applied before was taken back"),
        "{refused}"
    );
    assert_eq!(groups().await, "group/first\n");
    controller.kill().unwrap();
    ended(&mut controller);
}

/// kill -9 while groups are created: every group that was answered exists, and none is incomplete.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_answered_survives_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut answered = 0;
    for round in 0..3 {
        let mut controller = start(dir.path());
        let pid = controller.id();
        let file = dir.path().join("g.yaml");
        let (mut made, mut kill) = (answered, None);
        loop {
            std::fs::write(
                &file,
                format!("apiVersion: canopy/v1\nkind: Group\nmetadata: {{name: g{made}}}\nspec: {{}}\n"),
            )
            .unwrap();
            if ctl(dir.path(), &["apply", "-f", file.to_str().unwrap()]).await.is_err() {
                break;
            }
            made += 1;
            if made == answered + 10 + round {
                // Another process, not waited for: it kills the controller while the next requests are in progress.
                kill = Some(Command::new("kill").args(["-9", &pid.to_string()]).spawn().unwrap());
            }
        }
        answered = made;
        assert!(kill.expect("the controller ended by itself").wait().unwrap().success());
        assert!(!ended(&mut controller).success());
        let mut controller = start(dir.path());
        let names = ctl(dir.path(), &["get", "groups", "-o", "name"]).await.unwrap();
        let there: Vec<&str> = names.lines().collect();
        for i in 0..answered {
            assert!(
                there.contains(&format!("group/g{i}").as_str()),
                "round {round}: g{i} was answered and is gone: {there:?}"
            );
        }
        assert!(there.len() <= answered + 1, "{there:?}");
        // The request in progress may have been stored: creating that group again must be possible.
        answered = there.len();
        controller.kill().unwrap();
        controller.wait().unwrap();
    }
}

#[tokio::test]
async fn sigterm_ends_it_cleanly_and_a_second_instance_names_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = start(dir.path());
    let second = fails(command(dir.path()));
    assert!(second.contains(&format!("process {}", controller.id())) && second.contains("store.path"), "{second}");
    ctl(dir.path(), &["get", "groups"]).await.unwrap();
    Command::new("kill").arg(controller.id().to_string()).status().unwrap();
    assert!(ended(&mut controller).success());
    assert!(!dir.path().join("g.sock").exists() && !dir.path().join("r.sock").exists());
    assert_eq!(std::fs::read_dir(dir.path().join("store/snapshots")).unwrap().count(), 1);
}

#[test]
fn settings_that_are_wrong_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut open = command(dir.path());
    open.args(["--rest-listen", "controller.example"]);
    let e = fails(open);
    assert!(e.contains("rest.listen (from the command line)") && e.contains("is not a listen address"), "{e}");
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[store]\npth = \"/x\"\n").unwrap();
    let mut unknown = command(dir.path());
    unknown.arg("--config").arg(&file).args(["config", "check"]);
    let e = fails(unknown);
    assert!(e.contains("c.toml") && e.contains("pth"), "{e}");
    let mut variable = command(dir.path());
    variable.env("CANOPY__LOG__COLOUR", "red").args(["config", "check"]);
    let e = fails(variable);
    assert!(e.contains("CANOPY__LOG__COLOUR") && e.contains("colour"), "{e}");
    let good = command(dir.path())
        .env("CANOPY__ADDRESSING__PROXY_PREFIX", "fcfd::/64")
        .args(["config", "check"])
        .output()
        .unwrap();
    assert!(good.status.success() && String::from_utf8_lossy(&good.stdout).contains("proxy_prefix = \"fcfd::/64\""));
}

/// What the store has of group g1: a table has ages besides.
async fn group_of(dir: &Path) -> [serde_json::Value; 4] {
    let group: serde_json::Value =
        serde_json::from_str(&ctl(dir, &["get", "group", "g1", "-o", "json"]).await.unwrap()).unwrap();
    assert!(group["status"]["connection"]["proxyAddress"].is_string(), "{group}");
    [&group["metadata"], &group["spec"], &group["status"]["groupId"], &group["status"]["connection"]].map(Clone::clone)
}

#[tokio::test]
async fn the_store_can_be_exported_and_imported() {
    let dir = tempfile::tempdir().unwrap();
    let mut controller = start(dir.path());
    let group = dir.path().join("g.yaml");
    std::fs::write(&group, "apiVersion: canopy/v1\nkind: Group\nmetadata: {name: g1}\nspec: {}\n").unwrap();
    ctl(dir.path(), &["apply", "-f", group.to_str().unwrap()]).await.unwrap();
    let before = group_of(dir.path()).await;
    Command::new("kill").arg(controller.id().to_string()).status().unwrap();
    assert!(ended(&mut controller).success());
    let file = dir.path().join("export");
    let export = command(dir.path()).args(["store", "export"]).arg(&file).output().unwrap();
    assert!(export.status.success(), "{}", String::from_utf8_lossy(&export.stderr));
    let e = fails({
        let mut again = command(dir.path());
        again.args(["store", "import"]).arg(&file);
        again
    });
    assert!(e.contains("empty store"), "{e}");
    let other = tempfile::tempdir().unwrap();
    assert!(command(other.path()).args(["store", "import"]).arg(&file).output().unwrap().status.success());
    let mut controller = start(other.path());
    assert_eq!(group_of(other.path()).await, before);
    controller.kill().unwrap();
    controller.wait().unwrap();
}

#[test]
fn logs_are_json_without_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = command(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    let line: serde_json::Value = serde_json::from_str(&first).unwrap_or_else(|e| panic!("{e}: {first}"));
    assert_eq!(line["level"], "INFO");
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    child.wait().unwrap();
}
