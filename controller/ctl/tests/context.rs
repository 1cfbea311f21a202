// SPDX-License-Identifier: Apache-2.0
//! `canopyctl context` as a user runs it.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Output, or exit code and error.
fn run(home: &Path, variables: &[(&str, &str)], line: &str) -> Result<String, (i32, String)> {
    let done = Command::new(env!("CARGO_BIN_EXE_canopyctl"))
        .args(line.split(' '))
        .env_clear()
        .env("HOME", home)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    if done.status.success() { Ok(text(done.stdout)) } else { Err((done.status.code().unwrap(), text(done.stderr))) }
}

/// The server that a command asks.
fn asked(home: &Path, variables: &[(&str, &str)], flags: &str) -> String {
    let line = format!("{flags} status");
    let (_, error) = run(home, variables, line.trim()).unwrap_err();
    let rest = error.split("cannot reach the controller at ").nth(1).unwrap_or_else(|| panic!("{error}"));
    rest.split(": ").next().unwrap().to_owned()
}

/// Catches a context that is not used, one that is before a flag or a variable, and a file that others can read.
#[test]
fn servers_have_names() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    assert_eq!(asked(home, &[("CANOPY_SERVER", "unix:/s")], ""), "unix:/s");
    let added = run(home, &[], "context set lab unix:/lab").unwrap();
    assert_eq!(added, "context lab added, and used from now on\n");
    run(home, &[], "context set prod unix:/prod").unwrap();
    let file = home.join(".config/canopy/contexts.yaml");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(asked(home, &[], ""), "unix:/lab");
    assert_eq!(asked(home, &[("CANOPY_CONTEXT", "prod")], ""), "unix:/prod");
    assert_eq!(asked(home, &[("CANOPY_CONTEXT", "")], ""), "unix:/lab");
    assert_eq!(asked(home, &[("CANOPY_SERVER", "unix:/s")], "--context prod"), "unix:/prod");
    assert_eq!(asked(home, &[("CANOPY_CONTEXT", "prod")], "--server unix:/f"), "unix:/f");
    run(home, &[], "context use prod").unwrap();
    assert_eq!(asked(home, &[], ""), "unix:/prod");
    let list = run(home, &[], "context list").unwrap();
    let rows: Vec<Vec<&str>> = list.lines().map(|line| line.split_whitespace().collect()).collect();
    let header = vec!["CURRENT", "NAME", "SERVER", "CREDENTIAL"];
    assert_eq!(rows, [header, vec!["lab", "unix:/lab", "-"], vec!["*", "prod", "unix:/prod", "-"]]);
    let authority = "ab".repeat(32);
    let far = format!("context set far https://[::1]:1 --with-authority {authority} --with-token /far.token");
    run(home, &[], &far).unwrap();
    assert!(run(home, &[], "context list").unwrap().contains("https://[::1]:1  /far.token"));
    let (_, error) = run(home, &[], "--context far status").unwrap_err();
    assert!(error.contains("token file /far.token cannot be read"), "{error}");
    assert_eq!(
        run(home, &[], "context delete prod").unwrap(),
        "context prod deleted; no context is used from now on\n"
    );
}

/// Catches an error that changes the file or does not name it, and a broken file that cannot be mended.
#[test]
fn what_is_wrong_is_named_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    run(home, &[], "context set lab unix:/lab").unwrap();
    let file = home.join(".config/canopy/contexts.yaml");
    let before = std::fs::read_to_string(&file).unwrap();
    let path = file.to_str().unwrap();
    for (line, exit, why) in [
        ("--context other status", 3, "has no context \"other\", but lab"),
        ("context use other", 3, "has no context \"other\", but lab"),
        ("context delete other", 3, "has no context \"other\", but lab"),
        ("context set lab 127.0.0.1", 2, "unknown scheme"),
        ("context set a/b unix:/x", 2, "is not a name of a context"),
        ("context set far https://x:1", 2, "needs the hash of its authority"),
        ("context set far https://x:1 --with-authority abc", 2, "64 hexadecimal digits"),
        ("--context lab --server unix:/x status", 2, "--server and --context"),
    ] {
        let (code, error) = run(home, &[], line).unwrap_err();
        assert!(code == exit && error.contains(why), "{line}: {code} {error}");
        assert_eq!(error.contains(path), exit == 3, "{line}: {error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before, "{line}");
    }
    std::fs::write(&file, "current: gone\ncontexts: {}\n").unwrap();
    let (code, error) = run(home, &[], "status").unwrap_err();
    assert!(code == 3 && error.contains(path) && error.contains("context set"), "{error}");
    run(home, &[], "context set gone unix:/x").unwrap();
    assert_eq!(asked(home, &[], ""), "unix:/x");
}
