// SPDX-License-Identifier: Apache-2.0

use std::net::Ipv6Addr;

use serde::Deserialize;

use super::*;
use crate::log::{LogConfig, LogFormat};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    name: String,
    limit: Option<u64>,
    on: bool,
    #[serde(deserialize_with = "list")]
    nodes: Vec<Ipv6Addr>,
    part: Part,
    log: LogConfig,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    port: u16,
    #[serde(with = "text")]
    peer: std::net::SocketAddr,
    #[serde(deserialize_with = "list")]
    ids: Vec<u32>,
}

impl Settings for Test {
    const RENAMED: &'static [(&'static str, &'static str)] = &[("log.filter", "log.level"), ("door", "part.port")];

    fn check(&self, faults: &mut Faults) {
        if self.name.is_empty() {
            faults.push("name", "must be set");
        }
        if self.part.port == 0 {
            faults.push("part.port", "0 is not a port");
        }
        faults.check("log.level", self.log.check_level());
    }
}

fn defaults() -> Test {
    Test {
        name: "d".into(),
        limit: None,
        on: true,
        nodes: vec![],
        part: Part { port: 1, peer: "[::1]:2".parse().unwrap(), ids: vec![7] },
        log: LogConfig::default(),
    }
}

fn load_all(
    system: Option<&str>,
    file: Option<&str>,
    variables: &[(&str, &str)],
    flags: Flags,
) -> Result<Loaded<Test>, String> {
    let dir = tempfile::tempdir().unwrap();
    let (system_file, named) = (dir.path().join("system.toml"), dir.path().join("file.toml"));
    for (path, text) in [(&system_file, system), (&named, file)] {
        if let Some(text) = text {
            std::fs::write(path, text).unwrap();
        }
    }
    let variables = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    let sources = Sources { system_file, file: file.map(|_| named), variables, flags };
    load(&defaults(), sources).map_err(|error| error.to_string())
}

fn refused(file: &str) -> String {
    load_all(None, Some(file), &[], Flags::default()).unwrap_err()
}

#[test]
fn without_sources_the_defaults_apply() {
    let loaded = load_all(None, None, &[("PATH", "/bin")], Flags::default()).unwrap();
    assert_eq!((loaded.settings, loaded.notes), (defaults(), vec![]));
}

#[test]
fn each_source_takes_precedence_key_by_key() {
    let system = "name = 's'\nlimit = 5\non = false\n[part]\nport = 10\nids = [1, 2]\n[log]\nlevel = 'warn'";
    let file = "name = 'f'\n[part]\nport = 11";
    let variables = [
        ("CANOPY__PART__PORT", "12"),
        ("CANOPY__ON", "true"),
        ("CANOPY__NODES", "fd00::1, fd00::2"),
        ("CANOPY__PART__PEER", "[::1]:99"),
        ("CANOPY__LOG__FORMAT", "json"),
    ];
    let flags = Flags::default().with("part.port", Some(13)).with("name", None::<String>).with_all("part.ids", &[3]);
    let found = load_all(Some(system), Some(file), &variables, flags).unwrap().settings;
    let part = Part { port: 13, peer: "[::1]:99".parse().unwrap(), ids: vec![3] };
    let nodes = vec!["fd00::1".parse().unwrap(), "fd00::2".parse().unwrap()];
    let log = LogConfig { format: LogFormat::Json, level: "warn".into(), ..LogConfig::default() };
    assert_eq!(found, Test { name: "f".into(), limit: Some(5), on: true, nodes, part, log });
}

#[test]
fn a_list_may_be_toml_in_a_variable_too() {
    for ids in ["[4, 5]", "4,5", " 4, 5,"] {
        let found = load_all(None, None, &[("CANOPY__PART__IDS", ids)], Flags::default()).unwrap();
        assert_eq!(found.settings.part.ids, [4, 5], "{ids}");
    }
    assert!(refused("part.ids = ['alice']").starts_with("part.ids (from "));
}

#[test]
fn unknown_keys_are_errors_that_name_their_source() {
    let error = refused("nam = 'x'");
    assert!(error.starts_with("nam (from ") && error.contains("file.toml") && error.contains("limit"), "{error}");
    assert!(refused("[part]\nprot = 1").starts_with("part.prot (from "));
    for (name, key) in [("CANOPY__NAM", "nam"), ("CANOPY__PART__PROT", "part.prot"), ("CANOPY__", "")] {
        let error = load_all(None, None, &[(name, "x")], Flags::default()).unwrap_err();
        assert!(error.starts_with(&format!("{key} (from environment variable {name})")), "{error}");
    }
    assert!(load_all(None, None, &[("CANOPY__NAME__X", "x")], Flags::default()).is_err());
}

#[test]
fn bad_values_name_the_key_and_the_source_that_set_it() {
    for (file, key) in [
        ("part.port = 0", "part.port"),
        ("part.port = 65536", "part.port"),
        ("part.peer = 'x'", "part.peer"),
        ("on = 'maybe'", "on"),
        ("log.level = 'verbose'", "log.level"),
        ("log.format = 'xml'", "log.format"),
        ("nodes = ['x']", "nodes"),
    ] {
        let error = refused(file);
        assert!(error.starts_with(&format!("{key} (from ")) && error.contains("file.toml"), "{file}: {error}");
    }
    let flags = Flags::default().with("part.port", Some(0));
    let error = load_all(None, Some("name = ''\npart.port = 2"), &[], flags).unwrap_err();
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with("name (from /") && lines[0].contains("file.toml"), "{error}");
    assert_eq!(lines[1], "part.port (from the command line): 0 is not a port");
    assert!(refused("name = ").contains("file.toml: is not TOML"));
}

/// An old file keeps working after an upgrade; a note names the present keys.
#[test]
fn keys_of_earlier_versions_work_and_are_reported() {
    let file = "door = 4\n[log]\nfilter = 'warn'\n[part]\nPeer = '[::1]:5'";
    let loaded = load_all(None, Some(file), &[("CANOPY__LOG__FILTER", "debug")], Flags::default()).unwrap();
    let Test { part, log, .. } = loaded.settings;
    assert_eq!((part.port, part.peer.port(), log.level.as_str()), (4, 5, "debug"));
    assert_eq!(loaded.notes.len(), 4, "{:?}", loaded.notes);
    assert!(loaded.notes[0].contains("file.toml: part.Peer "), "{:?}", loaded.notes);
    assert!(loaded.notes[3].contains("CANOPY__LOG__FILTER: log.filter") && loaded.notes[3].contains("write log.level"));
    let both = refused("[log]\nfilter = 'warn'\nlevel = 'info'");
    assert!(both.starts_with("log.filter (from ") && both.contains("log.level too"), "{both}");
    assert!(refused("[part]\nport = 1\nPort = 2").contains("too"));
}

#[test]
fn a_named_file_must_exist() {
    let missing = PathBuf::from("/nonexistent/daemon.toml");
    let sources = Sources { system_file: missing.clone(), file: Some(missing), ..Sources::default() };
    let error = load(&defaults(), sources).unwrap_err().to_string();
    assert!(error.contains("/nonexistent/daemon.toml"), "{error}");
}
