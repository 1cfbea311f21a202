// SPDX-License-Identifier: Apache-2.0
//! Secrets of a running domain, searched for in all that it writes, answers and shows.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use canopy_e2e::{Bed, Running, bin_dir, up_with_host_agents};
use canopy_testkit::collector::Collector;
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);
/// Streams and what is not JSON are asked for by themselves.
const NOT_ASKED: [&str; 1] = ["/api/v1/watch"];

/// What must be nowhere, by name.
type Secrets = BTreeMap<String, Vec<u8>>;

/// Sends a request to the REST API as root on loopback, with this credential; the head and the body of the answer.
fn send(bed: &Bed, method: &str, path: &str, bearer: Option<&str>, body: &str) -> String {
    let port = bed.lab.rest_port().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let bearer = bearer.map_or_else(String::new, |bearer| format!("Authorization: Bearer {bearer}\r\n"));
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{bearer}\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// The JSON body of an answer with this status.
fn json_of(answer: &str, status: u16) -> Value {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The private part of a key file: its longest run of base64 lines, decoded; and a line of it as it is.
fn key(secrets: &mut Secrets, name: &str, file: &Path) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let from = text.find("PRIVATE KEY-----").unwrap_or_else(|| panic!("{}: no private key", file.display()));
    let lines: Vec<&str> = text[from..].lines().skip(1).take_while(|line| !line.starts_with("-----")).collect();
    secrets.insert(format!("{name}, as text"), lines[0].into());
    let octets = decode(&lines.concat());
    // Behind the head, which every key of the kind has.
    secrets.insert(format!("{name}, as octets"), octets[36..68].into());
}

/// Base64 with the standard alphabet.
fn decode(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|c| *c != b'=').map(digit).collect();
    let of_four = |four: &[u8]| {
        let bits = four.iter().fold(0u32, |bits, digit| bits << 6 | u32::from(*digit)) << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    digits.chunks(4).flat_map(of_four).collect()
}

/// Enrolls a node with a token; why that is refused.
fn enroll(bed: &Bed, node: &str, token: &str) -> Option<String> {
    let mut command = bed.lab.command(node, bin_dir().unwrap().join("canopy-agent")).unwrap();
    command.arg("--config").arg(bed.lab.dir().join(format!("agent-{node}.toml"))).arg("enroll");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let printed = [out.stdout, out.stderr].concat();
    (!out.status.success()).then(|| String::from_utf8_lossy(&printed).into_owned())
}

/// Names of the secrets that `octets` has.
fn found<'a>(secrets: &'a Secrets, octets: &[u8]) -> Vec<&'a str> {
    let has = |secret: &[u8]| octets.windows(secret.len()).any(|window| window == secret);
    secrets.iter().filter(|(_, secret)| has(secret)).map(|(name, _)| name.as_str()).collect()
}

/// Every file below `dir`, except those that `is_own` permits to have secrets.
fn files(dir: &Path, is_own: &dyn Fn(&Path) -> bool, all: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            files(&path, is_own, all);
        } else if kind.is_file() && !is_own(&path) {
            all.push(path);
        }
    }
}

/// Catches a secret in a log line, a record, an event, an answer, a metric, a span, a command line or an environment; those of operators
/// also where they were sent to the wrong place.
#[test]
fn secrets_are_in_nothing_that_a_domain_writes_or_shows() {
    let mut bed = up_with_host_agents("figure1").unwrap();
    let collector = Collector::start(false);
    let more = [("CANOPY__TRACES__ENDPOINT", collector.endpoint()), ("CANOPY__LOG__LEVEL", "debug")];
    bed.lab.set_environment(None, &more);
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab.wait_synced().unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 1024})).unwrap();

    let mut secrets = Secrets::new();
    let dir = bed.lab.dir().to_path_buf();
    bed.canopyctl(&["ca", "rotate"]).unwrap();
    let mut holders = vec![dir.join("identity/authority-key.pem"), dir.join("identity/next-authority-key.pem")];
    holders.extend(["n1", "n2", "host-r1"].map(|agent| dir.join(format!("agents/{agent}/identity/key.pem"))));
    for file in &holders {
        key(&mut secrets, &file.strip_prefix(&dir).unwrap().display().to_string(), file);
    }
    let token = bed.canopyctl(&["token", "create", "planted", "--role", "operator"]).unwrap().trim().to_owned();
    let enrollment = bed.canopyctl(&["node", "enroll", "n6"]).unwrap().trim().to_owned();
    let code =
        json_of(&send(&bed, "POST", "/api/v1/sign-in-codes", None, ""), 201)["code"].as_str().unwrap().to_owned();
    let wrong = code.chars().rev().collect::<String>();
    let sign_in = |code: &str| send(&bed, "POST", "/api/v1/sign-in", None, &json!({"code": code}).to_string());
    json_of(&sign_in(&wrong), 401);
    let bearer = json_of(&sign_in(&code), 200)["bearer"].as_str().unwrap().to_owned();
    json_of(&sign_in(&code), 401);
    let (_, unique) = enrollment.rsplit_once('.').unwrap();
    for (name, secret) in
        [("token", &*token), ("enrollment", unique), ("code", &*code), ("wrong code", &*wrong), ("bearer", &*bearer)]
    {
        assert!(secret.len() >= 16, "{name}: {secret}");
        secrets.insert(name.to_owned(), secret.into());
    }
    let mut printed = Vec::new();
    // Used as they should be, and where they should not be.
    for credential in [&token, &bearer] {
        json_of(&send(&bed, "GET", "/api/v1/groups", Some(credential), ""), 200);
    }
    let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "by-token"}, "spec": {}});
    json_of(&send(&bed, "POST", "/api/v1/groups", Some(&token), &group.to_string()), 201);
    for secret in [&token, &enrollment, &code, &bearer] {
        json_of(&send(&bed, "POST", "/api/v1/enrollments", None, &json!({"subject": secret}).to_string()), 422);
        for (path, bearer) in [
            (format!("/api/v1/groups?token={secret}"), None),
            (format!("/api/v1/tokens/{secret}/rotate"), None),
            ("/api/v1/groups".to_owned(), Some(format!("{secret}x"))),
        ] {
            send(&bed, "GET", &path, bearer.as_deref(), "");
        }
    }
    // It is for n6 alone.
    for (node, is_refused) in [("n5", true), ("n6", false)] {
        let refused = enroll(&bed, node, &enrollment);
        assert_eq!(refused.is_some(), is_refused, "{node}: {refused:?}");
        printed.push(refused.unwrap_or_default());
    }
    // They are found where they are meant to be: so would they be elsewhere.
    for file in &holders {
        assert_eq!(found(&secrets, &fs::read(file).unwrap()).len(), 1, "{}", file.display());
    }

    let mut wrong = Vec::new();
    let mut search = |place: &str, octets: &[u8]| {
        let names = found(&secrets, octets);
        if !names.is_empty() {
            wrong.push(format!("{place}: {}", names.join(", ")));
        }
    };
    let document = json_of(&send(&bed, "GET", "/api/v1/openapi.json", None, ""), 200);
    let mut asked = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations.get("get").is_none() || NOT_ASKED.contains(&path.as_str()) {
            continue;
        }
        let names = [("{node}", "n1"), ("{group}", "g"), ("{host}", "r1"), ("{name}", "g"), ("{token}", "planted")];
        let path = names.iter().fold(path.clone(), |path, (parameter, value)| path.replace(parameter, value));
        search(&path, send(&bed, "GET", &path, None, "").as_bytes());
        asked += 1;
    }
    assert!(asked > 30, "{asked} paths");
    for path in ["/plain", "/readyz?verbose", "/api/v1/groups?watch=true&timeoutSeconds=1"] {
        search(path, send(&bed, "GET", path, None, "").as_bytes());
    }
    search("what the agent prints", printed.concat().as_bytes());
    let spans = collector.message(DEADLINE);
    search("the collector", format!("{spans:?}").as_bytes());
    let is_key = |path: &Path| holders.iter().any(|holder| holder == path);
    let mut written = Vec::new();
    files(&dir, &is_key, &mut written);
    let named = |part: &str| written.iter().any(|path| path.to_string_lossy().contains(part));
    assert!(named("/log/controller.log") && named("/store/") && named("tokens.json"), "{written:?}");
    for path in &written {
        search(&path.display().to_string(), &fs::read(path).unwrap());
    }
    let log = fs::read_to_string(dir.join("log/controller.log")).unwrap();
    assert!(log.contains("DEBUG"), "the controller does not log at debug: {log}");
    let of_lab = dir.display().to_string();
    for process in fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path()) {
        let shown = ["cmdline", "environ"].map(|file| fs::read(process.join(file)).unwrap_or_default());
        if String::from_utf8_lossy(&shown[0]).contains(&of_lab) {
            search(&format!("{}: {}", process.display(), String::from_utf8_lossy(&shown[0])), &shown.concat());
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Catches a controller whose memory another process of its user can read, or a crash writes down.
#[test]
fn the_memory_of_a_controller_is_its_own() {
    const SOMEONE: u32 = 65_534;
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(dir.path(), Some(SOMEONE), Some(SOMEONE)).unwrap();
    let listen = |name: &str| format!("[\"unix:{}\"]", dir.path().join(name).display());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let text = format!(
        "[store]\npath = \"{}\"\n[identity]\ndirectory = \"{}\"\n[grpc]\nlisten = {}\n[rest]\nlisten = {}\n",
        at("store"),
        at("identity"),
        listen("grpc.sock"),
        listen("rest.sock")
    );
    let config = dir.path().join("controller.toml");
    fs::write(&config, text).unwrap();
    let mut command = Command::new(bin_dir().unwrap().join("canopy-controller"));
    command.arg("--config").arg(&config).uid(SOMEONE).gid(SOMEONE).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut controller = Running(command.spawn().unwrap());
    let until = Instant::now() + DEADLINE;
    while !dir.path().join("rest.sock").exists() {
        if let Some(status) = controller.0.try_wait().unwrap() {
            let mut why = String::new();
            controller.0.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            panic!("{status}: {why}");
        }
        assert!(Instant::now() < until, "no socket");
        std::thread::sleep(Duration::from_millis(20));
    }
    let process = format!("/proc/{}", controller.0.id());
    assert_eq!(fs::metadata(format!("{process}/mem")).unwrap().uid(), 0, "its user could read its memory");
    let status = fs::read_to_string(format!("{process}/status")).unwrap();
    assert!(status.contains(&format!("Uid:\t{SOMEONE}\t{SOMEONE}\t")), "{status}");
}
