// SPDX-License-Identifier: Apache-2.0
//! `canopyctl check --pre` on the machine that the tests run on, in namespaces and under limits in which one thing is missing.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_canopyctl");

/// A shell in namespaces of its own, in which `prepare` is carried out, and then the check as JSON.
fn after(prepare: &str, arguments: &str) -> Output {
    let script = format!("{prepare}\nexec '{PROGRAM}' --server unix:/nowhere check --pre --output json {arguments}");
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--net", "--propagation", "private", "sh", "-ec", &script]);
    let output = shell.output().unwrap();
    assert!(output.stdout.starts_with(b"{"), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Result, detail and hint of each check.
fn checks(output: &Output) -> BTreeMap<String, (String, String, String)> {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |check: &Value, field: &str| check[field].as_str().unwrap().to_owned();
    let checks = answer["checks"].as_array().unwrap().iter().map(|check| {
        assert!(text(check, "docs").starts_with("docs/installation.md#"), "{check}");
        (text(check, "name"), (text(check, "result"), text(check, "detail"), text(check, "hint")))
    });
    checks.collect()
}

/// Catches a check that passes or fails whatever the machine is: each thing is taken away, and its check alone changes.
#[test]
fn what_is_taken_from_a_machine_is_what_fails() {
    let own = |prepare: &str, arguments: &str| checks(&after(prepare, arguments));
    let node = own("", "");
    for (name, prepare, arguments, detail, hint) in [
        ("bpffs", "umount --all-targets --lazy /sys/fs/bpf", "", "not mounted", "mount -t bpf"),
        ("IPv6", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6", "", "disabled by", "sysctl -w"),
        (
            "switches of the network",
            "mount --bind /proc/sys /proc/sys; mount -o remount,bind,ro /proc/sys",
            "",
            "Read-only",
            "for writing",
        ),
        ("kernel BTF", "mount -t tmpfs none /sys/kernel/btf", "", "missing", "CONFIG_DEBUG_INFO_BTF"),
    ] {
        let less = own(prepare, arguments);
        assert_eq!(node[name].0, "ok", "this machine is to have what the test takes from it: {name}: {node:?}");
        assert_eq!(less[name].0, "fails", "{name}: {less:?}");
        assert!(less[name].1.contains(detail) && less[name].2.contains(hint), "{name}: {less:?}");
        let others = |checks: &BTreeMap<String, (String, String, String)>| {
            checks
                .iter()
                .filter(|(other, _)| *other != name)
                .map(|(other, found)| (other.clone(), found.0.clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(others(&node), others(&less), "{name}");
    }
    let bounded = Command::new("setpriv")
        .args(["--bounding-set", "-net_admin", "--", PROGRAM, "check", "--pre", "--output", "json"])
        .output()
        .unwrap();
    assert!(checks(&bounded)["capabilities"].1.contains("CAP_NET_ADMIN"), "{bounded:?}");
}

#[test]
fn limits_and_ports_of_a_controller_and_memory_of_a_host() {
    let own = |prepare: &str, arguments: &str| checks(&after(prepare, arguments));
    let low = own("ulimit -n 1000", "--role controller");
    assert_eq!((low["open files"].0.as_str(), low["open files"].1.as_str()), ("fails", "1000 at most"));
    let locked = own("ulimit -l 64", "--role host");
    assert!(locked["locked memory"].0 == "fails" && locked["locked memory"].2.contains("memlock"), "{locked:?}");
    let passing = own("mount -t tmpfs none /mnt", "--role controller --state-dir /mnt/canopy");
    assert!(passing["state directory"].1.contains("is on tmpfs"), "{passing:?}");
    assert_eq!(passing["state directory"].0, "fails");

    // Both ends are in the test's own namespace of the network.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken = || {
        let port = port.to_string();
        let output = Command::new(PROGRAM)
            .args(["check", "--pre", "--role", "controller", "--output", "json", "--port", &port])
            .output()
            .unwrap();
        checks(&output)["TCP port"].clone()
    };
    assert_eq!((taken().0.as_str(), taken().1), ("fails", format!("{port} is taken")));
    drop(listener);
    assert_eq!(taken().0, "ok");
}

#[test]
fn an_interface_has_to_have_the_mtu_of_its_link() {
    // A sysfs has the interfaces of the namespace that mounts it.
    let pair = "mount -t sysfs none /sys; ip link add eth9 mtu 1500 type veth peer name eth8; ip link set eth8 up";
    let of = |prepare: &str, arguments: &str| checks(&after(prepare, arguments))["interface"].clone();
    assert_eq!(of(&format!("{pair}; ip link set eth9 up"), "--interface eth9 --mtu 1500").0, "ok");
    let small = of(&format!("{pair}; ip link set eth9 up"), "--interface eth9 --mtu 9000");
    assert!(small.0 == "fails" && small.2 == "ip link set eth9 mtu 9000", "{small:?}");
    assert_eq!(of(pair, "--interface eth9").0, "fails", "it is down");
}

/// Catches a rootless container that counts as a machine: root there has all capabilities, of its own namespaces.
#[test]
fn root_of_a_user_namespace_is_not_root_of_the_machine() {
    let mut check = Command::new("unshare");
    let output = check
        .args(["--user", "--map-root-user", "--net", "--", PROGRAM, "check", "--pre", "--output", "json"])
        .output();
    let found = checks(&output.unwrap());
    for name in ["capabilities", "bpffs", "switches of the network"] {
        let (result, _, hint) = &found[name];
        assert!(result == "cannotBeChecked" && hint.contains("on the machine itself"), "{name}: {found:?}");
    }
}

/// Catches a relative directory that is taken for one of the root.
#[test]
fn a_relative_state_directory_is_that_of_the_callers() {
    let output = after("mount -t tmpfs none /mnt; cd /mnt", "--role controller --state-dir store");
    let state = &checks(&output)["state directory"];
    assert!(state.0 == "fails" && state.1.contains("/mnt"), "{state:?}");
}

/// Catches what another user than root cannot know that counts as ok.
#[test]
fn what_only_root_can_find_out_is_not_ok_for_others() {
    let as_other_user = |arguments: &[&str]| {
        let mut check = Command::new("setpriv");
        check.args(["--reuid", "65534", "--clear-groups", "--", PROGRAM, "check", "--pre", "--output", "json"]);
        let output = check.args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        checks(&output)
    };
    let node = as_other_user(&[]);
    assert_eq!(node["switches of the network"].0, "cannotBeChecked", "{node:?}");
    assert!(node["switches of the network"].2.contains("as root"), "{node:?}");
    let state = tempfile::Builder::new().prefix("canopy").tempdir_in("/var/tmp").unwrap();
    let controller = as_other_user(&["--role", "controller", "--state-dir", state.path().to_str().unwrap()]);
    assert!(controller["state directory"].0 != "ok", "{controller:?}");
}
