// SPDX-License-Identifier: Apache-2.0
//! Benchmarks of `canopy-steer` in the lab: how evenly 8 and 64 flows load four spines and when the last packet arrives, sprayed beside a
//! path for each flow as a hash of its ports finds it (ECMP); and for how long a silent black hole takes packets. `-- load` and `-- outage`
//! print one of the two.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use canopy_e2e::Bed;
use canopy_e2e::steered::Datagrams;

const B1: &str = "2001:db8:2:1::1";
const SPINES: usize = 4;
const ROUNDS: usize = 5;
/// Of each uplink of the sender's leaf: those of all spines take a tenth more than is sent.
const UPLINK_MBIT: f64 = 20.0;
const COUNT: u64 = 10_000;
const SIZE: u64 = 1400;
/// With the headers on an uplink: those of Ethernet, both of IPv6, UDP.
const OCTETS: u64 = SIZE + 14 + 80 + 8;
const TRIALS: usize = 9;
const FLOW_RATE: u64 = 5000;

fn main() -> Result<()> {
    let only = |table: &str| std::env::args().any(|argument| argument == table);
    if !only("outage") {
        loads()?;
    }
    if !only("load") {
        let bed = Bed::steered("spines4", &["a1"], "[probe]\ninterval = '1ms'\n")?;
        let outages = (0..TRIALS).map(|_| outage(&bed)).collect::<Result<Vec<_>>>()?;
        print("a silent black hole at a probe interval of 1 ms takes packets for", "ms", outages);
    }
    Ok(())
}

fn loads() -> Result<()> {
    let rate = (UPLINK_MBIT * 1e6 * SPINES as f64 / 1.1 / 8.0 / OCTETS as f64) as u64;
    let took = COUNT as f64 / rate as f64;
    println!("{COUNT} packets at nine tenths of what four uplinks take, which is {took:.1} s:");
    for flows in [8, 64] {
        let (mut load, mut completion) = ([vec![], vec![]], [vec![], vec![]]);
        for (mode, name) in ["pinned", "spray"].iter().enumerate() {
            let bed = Bed::steered("spines4", &["a1"], &format!("mode = '{name}'\n"))?;
            let slow = format!("{UPLINK_MBIT}mbit");
            (1..=SPINES).try_for_each(|n| bed.shape("leaf1", &format!("eth{n}"), &slow, 40_000_000))?;
            for _ in 0..ROUNDS {
                let (worst, last) = sent(&bed, Datagrams { flows, count: COUNT, size: SIZE, rate })?;
                load[mode].push(worst);
                completion[mode].push(last / took);
            }
        }
        for (mode, name) in ["a path for each flow", "sprayed"].iter().enumerate() {
            print(&format!("{flows} flows, {name}: the fullest uplink, of an even share"), "x", load[mode].clone());
            print(&format!("{flows} flows, {name}: the last packet, of sending alone"), "x", completion[mode].clone());
        }
    }
    Ok(())
}

fn print(what: &str, unit: &str, mut v: Vec<f64>) {
    v.sort_by(f64::total_cmp);
    println!("{what:<72} min {:>8.2}  median {:>8.2}  max {:>8.2} {unit}", v[0], v[v.len() / 2], v[v.len() - 1]);
}

/// Octets that the leaf has sent to each spine.
fn uplinks(bed: &Bed) -> Result<Vec<u64>> {
    let links = bed.lab.link_counters()?;
    let of = links.iter().filter(|link| link.a.device == "leaf1" && link.b.device.starts_with("spine"));
    Ok(of.map(|link| link.a_to_b.passed_octets.get()).collect())
}

fn arrive(bed: &Bed, count: u64) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while bed.arrived("b1")? < count {
        ensure!(Instant::now() < deadline, "{} of {count} packets have arrived", bed.arrived("b1")?);
    }
    Ok(())
}

/// The load of the fullest uplink as part of an even share, and the seconds until all packets have arrived.
fn sent(bed: &Bed, all: Datagrams) -> Result<(f64, f64)> {
    let (arrived, before) = (bed.arrived("b1")?, uplinks(bed)?);
    // The first packets make the programs.
    ensure!(bed.steered_paths("a1", B1)?.len() == SPINES, "the sender has not all paths");
    let start = Instant::now();
    let mut sender = bed.send("a1", B1, all)?;
    arrive(bed, arrived + all.count)?;
    let took = start.elapsed().as_secs_f64();
    ensure!(sender.wait()?.success(), "the sender failed");
    let octets: Vec<u64> = uplinks(bed)?.iter().zip(before).map(|(now, before)| now - before).collect();
    let (worst, sum) = (octets.iter().max().context("uplinks")?, octets.iter().sum::<u64>());
    Ok((*worst as f64 * SPINES as f64 / sum as f64, took))
}

/// Milliseconds of a flow's packets that a black hole on its path takes.
fn outage(bed: &Bed) -> Result<f64> {
    let is_sound = |bed: &Bed| -> Result<bool> {
        let paths = bed.steered_paths("a1", B1)?;
        Ok(paths.len() == SPINES && paths.iter().all(|path| path.slots == 16))
    };
    bed.lab.wait("all paths to carry packets", |_| is_sound(bed))?;
    let (arrived, before) = (bed.arrived("b1")?, bed.steered_paths("a1", B1)?);
    let count = 2 * FLOW_RATE;
    let mut sender = bed.send("a1", B1, Datagrams { flows: 1, count, size: 64, rate: FLOW_RATE })?;
    let mut port = None;
    bed.lab.wait("the flow to be on a path", |_| {
        let now = bed.steered_paths("a1", B1)?;
        port = now.iter().zip(&before).position(|(now, before)| now.packets > before.packets + 50);
        Ok(port.is_some())
    })?;
    let end = format!("leaf1/eth{}", port.context("path")? + 1);
    bed.lab.set_loss_from(&end, "100%".parse().map_err(anyhow::Error::msg)?)?;
    ensure!(sender.wait()?.success(), "the sender failed");
    bed.lab.set_loss_from(&end, "0%".parse().map_err(anyhow::Error::msg)?)?;
    let lost = count - (bed.arrived("b1")? - arrived);
    ensure!(lost > 0, "the black hole has taken no packet");
    Ok(lost as f64 * 1e3 / FLOW_RATE as f64)
}
