// SPDX-License-Identifier: Apache-2.0
//! End-to-end benchmarks: time from the REST call to `Ready`, and goodput compared with one unicast RC flow in the
//! same run.
//! Ratios are taken within a pair of runs, A B A B, and printed with their spread.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use canopy_e2e::{Bed, up};
use canopy_lab::TransferSpec;
use serde_json::{Value, json};

const RECEIVERS: [&str; 5] = ["r1", "r2", "r3", "r4", "r5"];
const PAIRS: usize = 5;
const BYTES: u64 = 64 << 20;

fn main() -> Result<()> {
    let bed = up("figure1")?;
    let ready = (0..PAIRS * 2).map(|_| time_to_ready(&bed)).collect::<Result<Vec<_>>>()?;
    print("REST call of the last member to Ready, Figure 1, five receivers", "ms", ready);
    for path_mtu in [1024, 4096] {
        let (mut multi, mut uni, mut ratio) = (vec![], vec![], vec![]);
        for _ in 0..PAIRS {
            let (m, u) = (multicast(&bed, path_mtu)?, unicast(&bed, path_mtu)?);
            multi.push(m / 1e6);
            uni.push(u / 1e6);
            ratio.push(5.0 * m / u);
        }
        print(&format!("multicast to five, MTU {path_mtu}, per receiver"), "Mb/s", multi);
        print(&format!("one unicast RC flow s1 to r1, MTU {path_mtu}"), "Mb/s", uni);
        print(&format!("delivered bytes, multicast / unicast, MTU {path_mtu}"), "x", ratio);
    }
    Ok(())
}

fn print(what: &str, unit: &str, mut v: Vec<f64>) {
    v.sort_by(f64::total_cmp);
    println!("{what:<66} min {:>8.2}  median {:>8.2}  max {:>8.2} {unit}", v[0], v[v.len() / 2], v[v.len() - 1]);
}

fn member(bed: &Bed, host: &str, role: &str, qpn: usize) -> Result<()> {
    let member = json!({"apiVersion": "canopy/v1", "kind": "Member", "metadata": {"name": host}, "spec": {"host": host, "role": role, "qpn": qpn}});
    let (status, body) = bed.lab.rest("POST", "/api/v1/groups/b/members", Some(&member))?;
    ensure!(status == 201, "{status} {body}");
    Ok(())
}

fn time_to_ready(bed: &Bed) -> Result<f64> {
    bed.lab.create_group("b", json!({}))?;
    member(bed, "s1", "source", 0x50)?;
    for (i, r) in RECEIVERS.iter().enumerate().skip(1) {
        member(bed, r, "receiver", 0x60 + i)?;
    }
    let start = Instant::now();
    member(bed, RECEIVERS[0], "receiver", 0x60)?;
    while bed.group("b")?["phase"] != "Ready" {
        ensure!(start.elapsed() < Duration::from_secs(30), "not Ready: {}", bed.group("b")?["reason"]);
    }
    let took = start.elapsed().as_secs_f64() * 1e3;
    for host in RECEIVERS.iter().chain(&["s1"]) {
        bed.lab.rest("DELETE", &format!("/api/v1/groups/b/members/{host}"), None)?;
    }
    bed.lab.rest("DELETE", "/api/v1/groups/b", None)?;
    Ok(took)
}

fn multicast(bed: &Bed, path_mtu: u32) -> Result<f64> {
    bed.lab.create_group("m", json!({"pathMtu": path_mtu}))?;
    let mut spec = TransferSpec::new("m", "s1", &RECEIVERS, BYTES);
    spec.args.insert("s1".into(), vec!["--timeout".into(), "1s".into()]);
    let report = bed.lab.transfer(spec)?;
    ensure!(report.mismatches().is_empty(), "receivers with other bytes: {:?}", report.mismatches());
    bed.lab.rest("DELETE", "/api/v1/groups/m", None)?;
    Ok(report.source.goodput_bps)
}

fn rc(bed: &Bed, host: &str, args: &[String]) -> Result<Child> {
    let mut c: Command = bed.lab.command(host, bed.lab.binary("canopy-rc")?)?;
    c.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().with_context(|| format!("canopy-rc at {host}"))
}

/// The same endpoints without a group: an ordinary RC connection through the same nodes.
fn unicast(bed: &Bed, path_mtu: u32) -> Result<f64> {
    let (s, r) = ("2001:db8:0:100::1", "2001:db8:0:1::1");
    let ready = bed.lab.dir().join("unicast-ready");
    let common = |own: &str, qpn: u32, peer: String| {
        [
            "--address",
            own,
            "--qpn",
            &qpn.to_string(),
            "--unicast",
            &peer,
            "--mtu",
            &path_mtu.to_string(),
            "--bytes",
            &BYTES.to_string(),
            "--json",
        ]
        .map(str::to_owned)
        .to_vec()
    };
    let mut args = vec!["receive".into()];
    args.extend(common(r, 0x71, format!("{s},{},100", 0x70)));
    args.extend(["--ready-file".into(), ready.display().to_string(), "--linger".into(), "200ms".into()]);
    let receiver = rc(bed, "r1", &args)?;
    let start = Instant::now();
    while !ready.exists() {
        ensure!(start.elapsed() < Duration::from_secs(10), "the unicast receiver did not get ready");
        std::thread::yield_now();
    }
    let mut args = vec!["send".into(), "--timeout".into(), "1s".into()];
    args.extend(common(s, 0x70, format!("{r},{},100", 0x71)));
    let sender = rc(bed, "s1", &args)?.wait_with_output()?;
    let received = receiver.wait_with_output()?;
    std::fs::remove_file(&ready)?;
    let line = |out: &[u8]| -> Result<Value> {
        Ok(serde_json::from_slice(out.split(|b| *b == b'\n').next().unwrap_or_default())?)
    };
    let (sent, got) = (line(&sender.stdout)?, line(&received.stdout)?);
    ensure!(sent["sha256"] == got["sha256"], "unicast: other bytes arrived");
    sent["goodput_bps"].as_f64().context("goodput_bps")
}
