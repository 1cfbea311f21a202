// SPDX-License-Identifier: Apache-2.0
//! `canopyctl ui` as a user runs it, with a controller and a browser that the test plays.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const CODE: &str = "abcdefghij-_ABCDEFGH01";

/// A controller that makes one code, and its address.
fn controller() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let head: Vec<String> =
            reader.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert_eq!(head[0], "POST /api/v1/sign-in-codes HTTP/1.1");
        let body = format!(r#"{{"code":"{CODE}","expiresInSeconds":60}}"#);
        let answer = format!(
            "HTTP/1.1 201 Created\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        reader.into_inner().write_all(answer.as_bytes()).unwrap();
    });
    address
}

/// Programs found by `canopyctl`: an `xdg-open` that notes its argument and ends with this code.
fn with_browser(dir: &Path, exit: u8) {
    let file = dir.join("xdg-open");
    fs::write(&file, format!("#!/bin/sh\nprintf %s \"$1\" > {}/opened\nexit {exit}\n", dir.display())).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
}

fn run(dir: &Path, server: &str, args: &[&str], display: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_canopyctl"))
        .args(["--server", server, "ui"])
        .args(args)
        .env_clear()
        .env("PATH", dir)
        .env("DISPLAY", display)
        .output()
        .unwrap()
}

fn text(out: &Output) -> String {
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout.clone()).unwrap()
}

/// Catches an address that a script cannot use as it is.
#[test]
fn the_address_is_all_that_print_prints() {
    let (dir, address) = (tempfile::tempdir().unwrap(), controller());
    with_browser(dir.path(), 0);
    let out = run(dir.path(), &format!("http://{address}"), &["--print"], ":0");
    assert_eq!(text(&out), format!("http://{address}/#{CODE}\n"));
    assert!(!dir.path().join("opened").exists());
}

/// Catches a code that stays in the terminal although the browser has it.
#[test]
fn a_browser_is_opened_where_there_is_one() {
    let (dir, address) = (tempfile::tempdir().unwrap(), controller());
    with_browser(dir.path(), 0);
    let out = text(&run(dir.path(), &format!("http://{address}"), &[], ":0"));
    assert!(!out.contains(CODE) && out.contains(&address) && out.contains("--print"), "{out}");
    assert_eq!(fs::read_to_string(dir.path().join("opened")).unwrap(), format!("http://{address}/#{CODE}"));
}

/// Catches a user without a browser who gets neither an address nor a reason.
#[test]
fn without_a_browser_the_address_is_printed_with_what_to_do() {
    for (exit, display) in [(None, ":0"), (Some(3), ":0"), (Some(0), "")] {
        let (dir, address) = (tempfile::tempdir().unwrap(), controller());
        if let Some(exit) = exit {
            with_browser(dir.path(), exit);
        }
        let out = text(&run(dir.path(), &format!("http://{address}"), &[], display));
        assert!(out.contains("within 60 s") && out.ends_with(&format!("  http://{address}/#{CODE}\n")), "{out}");
    }
}

#[test]
fn nothing_is_served_for_a_controller_that_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let out = run(dir.path(), "unix:/nonexistent/rest.sock", &[], ":0");
    let error = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(error.contains("cannot reach the controller at unix:/nonexistent/rest.sock"), "{error}");
    assert!(out.stdout.is_empty() && !dir.path().join("opened").exists());
}
