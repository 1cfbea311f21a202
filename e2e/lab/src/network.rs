// SPDX-License-Identifier: Apache-2.0
//! Namespaces, veth pairs that keep the order, host addresses, rates, delays and loss programs.
//!
//! A host gets its address and a default route through fe80::1, which its node's agent answers. A node gets only
//! interfaces that are up: addresses and routes are the agent's to make.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use canopy_model::topology::{Endpoint, HostDecl};
use canopy_units::{Octets, Rate};

use crate::delay;
use crate::file::Link;
use crate::management::Management;
use crate::means::Means;
use crate::state::State;
use crate::{host, loss, netns, order, sh};

/// Makes the whole network that `state.file` describes, noting each namespace in the state first.
///
/// # Errors
/// A namespace of that name exists (nothing is touched then), or the kernel refuses something; the caller takes down
/// what the state lists.
pub(crate) fn create(state: &mut State, management: bool) -> Result<()> {
    let spec = &state.file.spec;
    let nodes: Vec<String> = spec.nodes.iter().map(|n| state.instance.namespace(&n.name)).collect();
    let hosts: Vec<String> = spec.hosts.iter().map(|h| state.instance.namespace(&h.name)).collect();
    let lines = state.instance.lines_namespace();
    // In the order of their addresses on the management link.
    let managed: Vec<String> = nodes.iter().chain(hosts.iter().filter(|_| state.host_agents)).cloned().collect();
    {
        let _lock = host::lock()?;
        if let Some(taken) = nodes.iter().chain(&hosts).chain([&lines]).find(|n| netns::exists(n)) {
            bail!(
                "network namespace {taken} exists already: is another lab up? use `canopy-lab down` or another --instance"
            );
        }
        host::prepare()?;
        claim(state)?;
        for ns in nodes.iter().chain(&hosts) {
            state.namespaces.push(ns.clone());
            state.save()?;
            netns::add(ns)?;
        }
        prepare_delays(state, &lines)?;
        if management {
            let management = Management::choose(managed.len())?;
            state.management = Some(management);
            state.save()?;
            management.create()?;
        }
    }
    for ns in &nodes {
        netns::within(ns, || ipv6_settings(true))?;
    }
    for ns in &hosts {
        netns::within(ns, || ipv6_settings(false))?;
    }

    let links: Vec<Link> = state.file.links().collect();
    wire(state, &links)?;
    if let Some(management) = state.management {
        management.connect(&managed)?;
    }
    order::keep(&state.namespaces)?;
    if state.delay_means == Some(Means::Netem) {
        netns::within(&lines, || delay::start_netem(state)).context("starting netem")?;
    }
    let mut ends: BTreeMap<&str, Vec<(&Endpoint, &Link)>> = BTreeMap::new();
    for link in &links {
        ends.entry(&link.a.device).or_default().push((&link.a, link));
        ends.entry(&link.b.device).or_default().push((&link.b, link));
    }
    let addresses: BTreeMap<&str, &HostDecl> = state.file.spec.hosts.iter().map(|h| (h.name.as_str(), h)).collect();
    for (device, ends) in ends {
        let host = addresses.get(device).copied();
        let work = || configure(state, &ends, host);
        netns::within(&state.instance.namespace(device), work).with_context(|| format!("setting up {device}"))?;
    }
    Ok(())
}

/// One lab per instance, whatever its directory and its devices are called.
fn claim(state: &mut State) -> Result<()> {
    for pins in [state.instance.pins(), state.instance.agent_pins()] {
        if pins.exists() {
            bail!(
                "{} exists already: is this instance up with another --dir? take it down there, or remove the pins",
                pins.display()
            );
        }
    }
    state.claimed = true;
    state.save()?;
    fs::create_dir_all(state.instance.pins()).with_context(|| format!("creating {}", state.instance.pins().display()))
}

/// Before any interface exists, so that every interface starts with them.
fn ipv6_settings(node: bool) -> Result<()> {
    // The kernel takes the stricter of `all` and the interface's own for duplicate address detection.
    let mut settings = vec![
        ("all/disable_ipv6", "0"),
        ("default/disable_ipv6", "0"),
        ("all/accept_dad", "0"),
        ("default/accept_dad", "0"),
        ("default/accept_ra", "0"),
        ("default/router_solicitations", "0"),
    ];
    if node {
        // 1 = none: the agent owns even the link-local addresses.
        settings.push(("default/addr_gen_mode", "1"));
    }
    for (name, value) in settings {
        let path = format!("/proc/sys/net/ipv6/conf/{name}");
        fs::write(&path, value).with_context(|| format!("writing {value} to {path}"))?;
    }
    Ok(())
}

/// All veth pairs with one `ip`, each end born in its namespace; a delay line has a pair to either end.
fn wire(state: &State, links: &[Link]) -> Result<()> {
    let ns = |e: &Endpoint| state.instance.namespace(&e.device);
    let pair = |(name, at): (&str, String), (peer, there): (&str, String), mtu: u32| {
        format!("link add name {name} netns {at} mtu {mtu} type veth peer name {peer} netns {there} mtu {mtu}")
    };
    let mut lines = Vec::new();
    for (index, l) in links.iter().enumerate() {
        let (a, b) = ((l.a.port.as_str(), ns(&l.a)), (l.b.port.as_str(), ns(&l.b)));
        if l.delay.is_some() {
            let ([x, y], between) = (delay::interfaces(index), state.instance.lines_namespace());
            lines.push(pair(a, (&x, between.clone()), l.mtu));
            lines.push(pair((&y, between), b, l.mtu));
        } else {
            lines.push(pair(a, b, l.mtu));
        }
    }
    sh::batch(Command::new("ip").args(["-batch", "-"]), &lines)
}

/// Decides how links are delayed, if any is, and makes the namespace that delay lines need.
fn prepare_delays(state: &mut State, lines: &str) -> Result<()> {
    let (true, Some(first)) = (state.delayed().next().is_some(), state.namespaces.first()) else { return Ok(()) };
    let means = Means::detect(first)?;
    state.delay_means = Some(means);
    let needs_ethtool = means == Means::UserSpace;
    ensure!(
        !needs_ethtool || has_ethtool(),
        "a link with a delay needs `ethtool` to switch checksum offload off: install it"
    );
    state.namespaces.push(lines.to_owned());
    state.save()?;
    netns::add(lines)?;
    // No IPv6 in this namespace: its interfaces only forward frames.
    netns::within(lines, || {
        let path = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
        fs::write(path, "1").with_context(|| format!("writing {path}"))
    })
}

/// Runs inside the device's namespace.
fn configure(state: &State, ends: &[(&Endpoint, &Link)], host: Option<&HostDecl>) -> Result<()> {
    let mut ip = vec!["link set lo up".to_owned()];
    let mut tc = Vec::new();
    for (number, (end, link)) in ends.iter().enumerate() {
        let port = &end.port;
        // What user space takes from an interface and gives to another one has to be complete; elsewhere checksums are left to the
        // hardware, as on real hosts.
        if link.delay.is_some() && state.delay_means == Some(Means::UserSpace) {
            sh::run(
                Command::new("ethtool")
                    .args(["-K", port, "tx", "off", "rx", "off", "gro", "off", "gso", "off", "tso", "off"]),
            )?;
        }
        ip.push(format!("link set dev {port} up"));
        if let Some(h) = host {
            ip.push(format!("addr add {}/{} dev {port}", h.address, h.prefix.prefix_len()));
            // Of several links, the first one is for what has no other route.
            ip.push(format!("route add default via fe80::1 dev {port} metric {}", 1024 + number));
        }
        if let Some(rate) = link.rate {
            tc.push(format!("qdisc add dev {port} root {}", bucket(link, rate.get())));
        }
        // Before the interface is up, so that nothing passes uncounted.
        loss::attach(&state.instance.end_pins(end), port, link.loss)?;
    }
    sh::batch(Command::new("tc").args(["-batch", "-"]), &tc)?;
    sh::batch(Command::new("ip").args(["-6", "-batch", "-"]), &ip)
}

/// The token bucket of a link's end, for tc(8), at a rate.
pub(crate) fn bucket(link: &Link, rate: Rate) -> String {
    let (bps, burst, limit) = (rate.bps(), burst(rate, link.mtu), link.buffer().unwrap_or_default());
    format!("tbf rate {bps}bit burst {burst} limit {limit}")
}

/// What a link's end may send in one go: 1 ms at the rate, never less than a few packets.
fn burst(rate: Rate, mtu: u32) -> Octets {
    Octets((rate.bps() / 8000).max(4 * (u64::from(mtu) + 14)).max(65_536))
}

fn has_ethtool() -> bool {
    Command::new("ethtool")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_at_least_a_few_packets_at_any_rate() {
        for bps in [8_000, 1_000_000_000, 1_000_000_000_000] {
            assert!((4 * 65_549..=u64::from(u32::MAX)).contains(&burst(Rate::from_bps(bps), 65_535).get()));
        }
        assert_eq!(burst(Rate::from_bps(1_000_000_000), 9000), Octets(125_000));
    }
}
