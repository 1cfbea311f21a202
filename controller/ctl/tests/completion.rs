// SPDX-License-Identifier: Apache-2.0
//! Completion of names in bash, with a controller that the test plays.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// A controller that answers one request with these names, and what it was asked.
fn controller(names: &'static [&'static str]) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let head: Vec<String> =
            reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        let items: Vec<String> = names.iter().map(|name| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#)).collect();
        let body =
            format!(r#"{{"apiVersion":"canopy/v1","kind":"GroupList","metadata":{{}},"items":[{}]}}"#, items.join(","));
        let head_of_answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
        write!(reader.into_inner(), "{head_of_answer}{}\r\n\r\n{body}", body.len()).unwrap();
        head[0].clone()
    });
    (address, asked)
}

/// What bash offers for the last word of a line.
fn offered(line: &str) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_canopyctl"));
    let words: Vec<&str> = line.split(' ').collect();
    let script = format!(
        "source <(canopyctl completion bash); COMP_WORDS=({}); COMP_CWORD={}; \
         _canopyctl_with_names canopyctl '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len() - 1,
        words[words.len() - 1],
        words[words.len() - 2],
    );
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let done = Command::new("bash").args(["-c", &script]).env_clear().env("PATH", path).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().filter(|word| !word.is_empty() && !word.starts_with('-')).map(str::to_owned).collect()
}

/// Catches a script that bash refuses, one that asks another controller than the line names, and names that do not begin as typed.
#[test]
fn names_are_asked_of_the_controller_of_the_line() {
    let (server, asked) = controller(&["web-1", "web-2"]);
    assert_eq!(offered(&format!("canopyctl --server {server} get groups we")), ["web-1", "web-2"]);
    assert_eq!(asked.join().unwrap(), "GET /api/v1/groups?limit=100&namePrefix=we HTTP/1.1");
    // Of a link first its node: of a large fabric there are too many to list.
    let (server, asked) = controller(&["n12", "n2", "n21"]);
    assert_eq!(offered(&format!("canopyctl describe --server {server} link n2")), ["n2/", "n21/"]);
    assert_eq!(asked.join().unwrap(), "GET /api/v1/nodes?limit=500&nameContains=n2&summary=true HTTP/1.1");
    let (server, asked) = controller(&["n2/eth1", "n2/up1"]);
    assert_eq!(offered(&format!("canopyctl describe --server {server} link n2/e")), ["n2/eth1"]);
    assert_eq!(asked.join().unwrap(), "GET /api/v1/links?limit=500&fieldSelector=node%3Dn2 HTTP/1.1");
}

/// Catches a completion that fails, or asks, where there are no names.
#[test]
fn other_words_are_completed_as_before() {
    assert_eq!(offered("canopyctl get grou"), ["groups"]);
    assert_eq!(offered("canopyctl --server http://127.0.0.1:1 get groups x"), Vec::<String>::new());
}
