// SPDX-License-Identifier: Apache-2.0
//! One node of the fabric: links and hosts at neighbouring ports travel as one run.

use std::net::Ipv6Addr;

use canopy_model::FieldError;
use canopy_model::fabric::{FabricHost, FabricLink, FabricNode};
use canopy_model::ids::{NodeId, PortIndex, check_name};
use canopy_model::topology::{MAX_LINK_MTU, MIN_LINK_MTU};
use ipnet::Ipv6Net;

use crate::field::{octets, prefix, within};
use crate::pb;

/// Runs are taken apart into at most as many links, and as many hosts, as a node has ports: ports ascend.
impl TryFrom<pb::FabricNode> for FabricNode {
    type Error = FieldError;
    fn try_from(wire: pb::FabricNode) -> Result<Self, FieldError> {
        check_name("name", &wire.name)?;
        let (mut links, mut hosts) = (Vec::new(), Vec::new());
        let mut free = *PortIndex::RANGE.start();
        for (i, run) in wire.links.into_iter().enumerate() {
            within(format_args!("links[{i}]"), take_links(&mut links, &mut free, &run))?;
        }
        let mut free = *PortIndex::RANGE.start();
        for (i, run) in wire.hosts.into_iter().enumerate() {
            within(format_args!("hosts[{i}]"), take_hosts(&mut hosts, &mut free, run))?;
        }
        Ok(Self { name: wire.name, links, hosts })
    }
}

impl From<&FabricNode> for pb::FabricNode {
    fn from(node: &FabricNode) -> Self {
        Self { name: node.name.clone(), links: link_runs(&node.links), hosts: host_runs(&node.hosts) }
    }
}

/// The ports of a run that begins at `port`, none of which is before `free`; afterwards `free` is the one behind them.
fn ports(free: &mut u64, port: u32, count: u32) -> Result<u64, FieldError> {
    let first = PortIndex::new("port", port.into())?;
    let (first, count) = (u64::from(first), u64::from(count.max(1)));
    if first < *free {
        return Err(FieldError::new("port", format!("{port} is not behind the ports before it")));
    }
    if first + count - 1 > *PortIndex::RANGE.end() {
        return Err(FieldError::new("count", format!("{count} ports from {port} on: a node has at most 4095")));
    }
    *free = first + count;
    Ok(count)
}

fn take_links(links: &mut Vec<FabricLink>, free: &mut u64, run: &pb::FabricLinks) -> Result<(), FieldError> {
    let count = ports(free, run.port, run.count)?;
    let (far_step, port_step) = (step("far_step", run.far_step)?, step("far_port_step", run.far_port_step)?);
    let mtu = mtu(run.mtu)?;
    for i in 0..count {
        links.push(FabricLink {
            port: PortIndex::new("port", u64::from(run.port) + i)?,
            far: NodeId::new("far", u64::from(run.far) + i * far_step)?,
            far_port: PortIndex::new("far_port", u64::from(run.far_port) + i * port_step)?,
            mtu,
        });
    }
    Ok(())
}

fn take_hosts(hosts: &mut Vec<FabricHost>, free: &mut u64, run: pb::FabricHosts) -> Result<(), FieldError> {
    let count = ports(free, run.port, run.count)?;
    let mtu = mtu(run.mtu)?;
    let first = prefix("prefix", Some(pb::Prefix { address: run.prefix, length: run.prefix_length }))?;
    for i in 0..count {
        let prefix = behind(first, i).ok_or_else(|| {
            FieldError::new("count", format!("{count} prefixes from {first} on: there are not as many addresses"))
        })?;
        hosts.push(FabricHost { port: PortIndex::new("port", u64::from(run.port) + i)?, prefix, mtu });
    }
    Ok(())
}

fn step(field: &str, value: u32) -> Result<u64, FieldError> {
    match value {
        0 | 1 => Ok(value.into()),
        _ => Err(FieldError::new(field, format!("{value} is not a step: use 0 or 1"))),
    }
}

fn mtu(value: u32) -> Result<u32, FieldError> {
    if (MIN_LINK_MTU..=MAX_LINK_MTU).contains(&value) {
        return Ok(value);
    }
    Err(FieldError::new("mtu", format!("{value} is not an MTU: use {MIN_LINK_MTU}..={MAX_LINK_MTU}")))
}

/// The i-th prefix of the same length after this one; `None` beyond the last address.
fn behind(first: Ipv6Net, i: u64) -> Option<Ipv6Net> {
    if i == 0 {
        return Some(first);
    }
    let size = 1u128.checked_shl(128 - u32::from(first.prefix_len()))?;
    let address = first.addr().to_bits().checked_add(size.checked_mul(i.into())?)?;
    Ipv6Net::new(Ipv6Addr::from_bits(address), first.prefix_len()).ok()
}

fn link_runs(links: &[FabricLink]) -> Vec<pb::FabricLinks> {
    let mut runs: Vec<pb::FabricLinks> = Vec::new();
    for link in links {
        let [port, far, far_port] = [link.port.get(), link.far.get(), link.far_port.get()].map(u32::from);
        if let Some(run) = runs.last_mut()
            && run.mtu == link.mtu
            && run.port + run.count == port
        {
            if run.count == 1 {
                let steps = (far.wrapping_sub(run.far), far_port.wrapping_sub(run.far_port));
                if let (far_step @ (0 | 1), far_port_step @ (0 | 1)) = steps {
                    (run.far_step, run.far_port_step, run.count) = (far_step, far_port_step, 2);
                    continue;
                }
            } else if (run.far + run.count * run.far_step, run.far_port + run.count * run.far_port_step)
                == (far, far_port)
            {
                run.count += 1;
                continue;
            }
        }
        runs.push(pb::FabricLinks { port, count: 1, far, far_step: 0, far_port, far_port_step: 0, mtu: link.mtu });
    }
    runs.iter_mut().filter(|run| run.count == 1).for_each(|run| run.count = 0);
    runs
}

fn host_runs(hosts: &[FabricHost]) -> Vec<pb::FabricHosts> {
    let mut runs: Vec<(Ipv6Net, pb::FabricHosts)> = Vec::new();
    for host in hosts {
        let port = u32::from(host.port.get());
        if let Some((first, run)) = runs.last_mut()
            && run.mtu == host.mtu
            && run.port + run.count == port
            && behind(*first, run.count.into()) == Some(host.prefix)
        {
            run.count += 1;
            continue;
        }
        let (prefix, prefix_length) = (octets(host.prefix.addr()), u32::from(host.prefix.prefix_len()));
        runs.push((host.prefix, pb::FabricHosts { port, count: 1, prefix, prefix_length, mtu: host.mtu }));
    }
    let mut runs: Vec<pb::FabricHosts> = runs.into_iter().map(|(_, run)| run).collect();
    runs.iter_mut().filter(|run| run.count == 1).for_each(|run| run.count = 0);
    runs
}
