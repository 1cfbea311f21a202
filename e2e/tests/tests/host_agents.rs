// SPDX-License-Identifier: Apache-2.0
//! Hosts that share no file system with their nodes: each has an agent of its own, which reaches the controller over TLS.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use canopy_e2e::pacer::Pacer;
use canopy_e2e::{Bed, Running, up_with_host_agents};
use canopy_host::{Client, Error, JoinOptions};
use canopy_lab::TransferSpec;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];

fn members(bed: &Bed, group: &str) -> Vec<String> {
    let (_, list) = bed.lab.rest("GET", &format!("/api/v1/groups/{group}/members"), None).unwrap();
    let name = |member: &Value| member["spec"]["host"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

/// Which membership `host` has, and who made it.
fn membership(bed: &Bed, group: &str, host: &str) -> Value {
    let (_, member) = bed.lab.rest("GET", &format!("/api/v1/groups/{group}/members/{host}"), None).unwrap();
    member["metadata"].clone()
}

/// An application that joins `host` to the group "other" with a lease, and gets no data.
fn application(bed: &Bed, host: &str) -> Running {
    let mut c = bed.lab.command(host, bed.lab.binary("canopy-rc").unwrap()).unwrap();
    let socket = format!("unix:{}", bed.lab.host_socket(host).display());
    c.args(["receive", "--lease", "--controller", &socket, "--group", "other", "--host", host, "--bytes", "1"]);
    let log = fs::File::create(bed.lab.dir().join(format!("log/other-{host}.log"))).unwrap();
    let child = c.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    bed.lab
        .wait("the application to join", |lab| {
            let (_, list) = lab.rest("GET", "/api/v1/groups/other/members", None)?;
            Ok(list["items"].as_array().is_some_and(|items| items.iter().any(|m| m["spec"]["host"] == host)))
        })
        .unwrap();
    Running(child)
}

/// Neither by its settings nor with its certificate does the agent of r1 join r2.
fn refused_for_another_host(bed: &Bed) {
    let client = Client::connect(bed.lab.host_socket("r1")).unwrap();
    match client.join(JoinOptions::receiver("other", "r2", 17)).unwrap_err() {
        Error::Invalid { field, reason } => {
            assert!(field == "host" && reason.contains("is not this machine, which is \"r1\""), "{field}: {reason}");
        }
        other => panic!("{other}"),
    }

    // With the certificate of r1 and the name of r2.
    let dir = bed.lab.dir();
    let (state, socket, config) = (dir.join("agents/stolen"), dir.join("stolen.sock"), dir.join("stolen.toml"));
    fs::create_dir_all(&state).unwrap();
    let copied =
        bed.lab.command("r1", "cp").unwrap().args(["-a"]).arg(dir.join("agents/host-r1/identity")).arg(&state).status();
    assert!(copied.unwrap().success());
    let text = fs::read_to_string(dir.join("host-r1.toml")).unwrap();
    let text = text
        .replace("host = \"r1\"", "host = \"r2\"")
        .replace("/r1.sock", "/stolen.sock")
        .replace("/host-r1", "/stolen");
    fs::write(&config, text).unwrap();
    let mut agent = bed.lab.command("r1", bed.lab.binary("canopy-agent").unwrap()).unwrap();
    let log = fs::File::create(dir.join("log/stolen.log")).unwrap();
    let _agent =
        Running(agent.args(["host", "--config"]).arg(&config).stdout(log).stdin(Stdio::null()).spawn().unwrap());
    bed.lab.wait("the socket", |_| Ok(std::os::unix::net::UnixStream::connect(&socket).is_ok())).unwrap();
    let client = Client::connect(&socket).unwrap();
    match client.join(JoinOptions::receiver("other", "r2", 17)).unwrap_err() {
        Error::NotPermitted(reason) => {
            assert!(reason.contains("a certificate of host/r1 cannot act for host \"r2\""), "{reason}");
        }
        other => panic!("{other}"),
    }
    assert!(members(bed, "other").is_empty());
}

/// Catches an application whose death is not noticed, a membership that does not outlast its agent's restart, and one that outlasts its
/// machine, and an agent that acts for another host than its own.
#[test]
fn figure_1_with_an_agent_on_every_host() {
    let mut bed = up_with_host_agents("figure1").unwrap();
    bed.lab.set_environment(None, &[("CANOPY__GRPC__LEASE_GRACE", "8s")]);
    bed.lab.kill_controller().unwrap();
    bed.lab.start_controller().unwrap();
    bed.lab.wait_synced().unwrap();
    bed.lab.create_group("g", json!({"pathMtu": 4096})).unwrap();
    bed.lab.create_group("other", json!({})).unwrap();
    refused_for_another_host(&bed);
    let orphan = application(&bed, "r2");

    let socket = bed.lab.host_socket("s1").display().to_string();
    let pacer = Pacer::start(&bed.lab, "s1", &["--agent", &socket, "--line-rate", "1G", "--pacing", "none"]).unwrap();
    bed.limit("s1", 60).unwrap();
    let mut spec = TransferSpec {
        timeout: Duration::from_secs(120),
        lost: vec!["r5".into()],
        ..TransferSpec::new("g", "s1", &RECEIVERS, 48 << 20)
    };
    for host in RECEIVERS.iter().chain(&["s1"]) {
        spec.args.insert((*host).into(), vec!["--lease".into()]);
    }
    let transfer = bed.lab.start_transfer(spec).unwrap();
    bed.lab.wait("data to be acknowledged", |_| Ok(bed.group("g")?["delivery"]["state"] == "Flowing")).unwrap();

    // The pacer gets the source's queue pair and the nodes of its tree from the agent of its machine.
    let dest_qpn = bed.group("g").unwrap()["connection"]["designatedQpn"].clone();
    bed.lab
        .wait("the pacer to have the source", |_| {
            let status = pacer.status()?;
            let is_it = |qp: &Value| qp["origin"] == "agent" && qp["destQpn"] == dest_qpn;
            Ok(status["qps"].as_array().is_some_and(|qps| qps.iter().any(is_it)) && status["nodes"] == 6)
        })
        .unwrap_or_else(|e| panic!("{e:#}: {:?}", pacer.status()));
    drop(pacer);

    // Its agent leaves for an application that is killed, and the others get on.
    kill(Pid::from_raw(transfer.pid("r5").unwrap() as i32), Signal::SIGKILL).unwrap();
    bed.lab.wait("r5 to leave", |_| Ok(!members(&bed, "g").contains(&"r5".into()))).unwrap();
    let before = membership(&bed, "g", "r2");
    assert_eq!(before["writtenBy"], json!({"kind": "host", "name": "r2", "uid": 0}));

    // Of a machine that is gone no agent leaves: the controller does.
    let on_a_dead_machine = application(&bed, "r5");
    bed.lab.kill_host_agent("r5").unwrap();
    // An agent that is restarted finds one application alive and the other dead.
    bed.lab.kill_host_agent("r2").unwrap();
    drop(orphan);
    bed.lab.start_host_agent("r2").unwrap();
    bed.lab
        .wait("the member on the dead machine to go", |_| Ok(!members(&bed, "other").contains(&"r5".into())))
        .unwrap();
    drop(on_a_dead_machine);
    bed.lab.wait("the dead application's member to go", |_| Ok(members(&bed, "other").is_empty())).unwrap();
    // By now a lease that was not taken up would have ended.
    assert_eq!(membership(&bed, "g", "r2"), before);
    let report = transfer.finish(&bed.lab).unwrap();
    assert_eq!(report.mismatches(), Vec::<&str>::new());
}
