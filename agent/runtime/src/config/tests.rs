// SPDX-License-Identifier: Apache-2.0

use super::*;

/// Loads with the given files' texts, variables and flags.
fn load(system: Option<&str>, file: Option<&str>, variables: &[(&str, &str)], flags: Layer) -> Result<Config, String> {
    let dir = tempfile::tempdir().unwrap();
    let (system_path, file_path) = (dir.path().join("system.toml"), dir.path().join("file.toml"));
    for (path, text) in [(&system_path, system), (&file_path, file)] {
        if let Some(text) = text {
            std::fs::write(path, text).unwrap();
        }
    }
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(&system_path, file.map(|_| file_path.as_path()), variables, flags, "Leaf-3.example.net\n")
        .map_err(|error| error.to_string())
}

fn refused(file: &str) -> String {
    load(None, Some(file), &[], Layer::default()).unwrap_err()
}

#[test]
fn defaults_need_nothing() {
    let config = load(None, None, &[("PATH", "/bin")], Layer::default()).unwrap();
    assert_eq!(config.node, "leaf-3");
    assert_eq!(config.controller.to_string(), "unix:/run/canopy/controller.sock");
    assert_eq!(config.telemetry_interval, Duration::from_secs(1));
    assert_eq!(config.log.level, "info");
    assert_eq!(config.stamp, Stamp { port: 862, interval: Duration::from_secs(1) });
}

#[test]
fn each_layer_overrides_the_ones_before() {
    let system = "node = 's'\nstate_dir = '/s'\npin_dir = '/s'\ntelemetry_interval = '2s'\n[log]\nlevel = 'warn'";
    let file = "node = 'f'\nstate_dir = '/f'\npin_dir = '/f'";
    let variables = [("CANOPY__NODE", "v"), ("CANOPY__STATE_DIR", "/v"), ("CANOPY__LOG__FORMAT", "json")];
    let flags = Layer { node: Some("flag".into()), ..Layer::default() };
    let config = load(Some(system), Some(file), &variables, flags).unwrap();
    assert_eq!(config.node, "flag");
    assert_eq!(config.state_dir, Path::new("/v"));
    assert_eq!(config.pin_dir, Path::new("/f"));
    assert_eq!(config.telemetry_interval, Duration::from_secs(2));
    assert_eq!(config.log, Log { format: LogFormat::Json, level: "warn".into() });
}

#[test]
fn unknown_keys_are_errors_that_name_the_source() {
    let error = refused("nod = 'x'");
    assert!(error.contains("file.toml") && error.contains("nod") && error.contains("state_dir"), "{error}");
    assert!(refused("[log]\nlevle = 'info'").contains("levle"));
    for name in ["CANOPY__NOD", "CANOPY__LOG__LEVLE", "CANOPY__NODE__X", "CANOPY__"] {
        let error = load(None, None, &[(name, "x")], Layer::default()).unwrap_err();
        assert!(error.contains(&format!("variable {name}:")), "{error}");
    }
}

#[test]
fn bad_values_name_the_key_and_the_source() {
    for (file, key) in [
        ("node = 'Leaf_3'", "node (from "),
        ("controller = 'http://192.0.2.1:1'", "controller (from "),
        ("state_dir = 'relative'", "state_dir (from "),
        ("pin_dir = ''", "pin_dir (from "),
        ("pin_dir = '/sys/fs/bpf/../../../etc'", "pin_dir (from "),
        ("telemetry_interval = '10ms'", "telemetry_interval (from "),
        ("telemetry_interval = '1 parsec'", "telemetry_interval (from "),
        ("host_socket.path = 'relative'", "host_socket.path (from "),
        ("host_socket.uids = 'alice'", "host_socket.uids (from "),
        ("stamp.port = 0", "stamp.port (from "),
        ("stamp.port = '65536'", "stamp.port (from "),
        ("stamp.interval = '1ms'", "stamp.interval (from "),
        ("congestion.interval = '10us'", "congestion.interval (from "),
        ("congestion.disclose = 'maybe'", "congestion.disclose (from "),
        ("log.level = 'verbose'", "log.level (from "),
        ("log.level = 'info,canopy_datapath=loud'", "log.level (from "),
    ] {
        let error = refused(file);
        assert!(error.starts_with(key) && error.contains("file.toml"), "{file}: {error}");
    }
    assert!(refused("log.format = 'xml'").contains("pretty"));
}

#[test]
fn a_named_file_must_exist() {
    let missing = Path::new("/nonexistent/agent.toml");
    let error = Config::load(missing, Some(missing), std::iter::empty(), Layer::default(), "n1").unwrap_err();
    assert!(error.to_string().contains("/nonexistent/agent.toml"), "{error}");
}

#[test]
fn the_printed_settings_can_be_loaded_again() {
    let variables = [("CANOPY__TELEMETRY_INTERVAL", "1500ms"), ("CANOPY__HOST_SOCKET__UIDS", "1000,1001")];
    let config = load(None, None, &variables, Layer::default()).unwrap();
    assert_eq!(config.host_socket.uids, [1000, 1001]);
    let printed = toml::to_string(&config).unwrap();
    assert_eq!(load(None, Some(&printed), &[], Layer::default()).unwrap(), config);
}
