// SPDX-License-Identifier: Apache-2.0
//! What is at the ports of the nodes, and the places that prefixes of hosts lie behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use canopy_model::FieldErrors;
use canopy_model::ids::PortIndex;
use canopy_model::topology::{LongHaulFormat, TopologySpec};
use canopy_model::usid::{NumberSpace, Usid};
use ipnet::Ipv6Net;

use super::{Attachment, Far, HostLink, NodeIx, PortInfo};

/// Ports of the nodes, and links of the hosts.
pub(super) struct Wiring {
    pub(super) ports: Vec<Vec<PortInfo>>,
    pub(super) hosts: HashMap<Arc<str>, Attachment>,
    /// See [`Network::multi_homed`].
    pub(super) multi_homed: BTreeMap<usize, Vec<HostLink>>,
}

/// Numbers the ports in the order of the links, and connects the two ends of each link.
pub(super) fn connect(spec: &TopologySpec, by_name: &HashMap<String, NodeIx>) -> Result<Wiring, FieldErrors> {
    let mut errors = FieldErrors::default();
    let host_ix: HashMap<&str, usize> = spec.hosts.iter().enumerate().map(|(i, h)| (h.name.as_str(), i)).collect();
    let mut ports: Vec<Vec<PortInfo>> = vec![Vec::new(); spec.nodes.len()];
    let mut hosts: HashMap<Arc<str>, Attachment> = HashMap::with_capacity(spec.hosts.len());
    let mut multi_homed: BTreeMap<usize, Vec<HostLink>> = BTreeMap::new();
    for (i, link) in spec.links.iter().enumerate() {
        let mut next_port = |device: &str, side: &str| {
            let node = *by_name.get(device)?;
            match NumberSpace::Adjacencies.after(ports[node].len()) {
                Ok(Usid::Adjacency(index)) => Some((node, index)),
                Ok(_) => None,
                Err(e) => {
                    errors.push(format!("spec.links[{i}].{side}"), format!("{device:?} has more than 4095 ports: {e}"));
                    None
                }
            }
        };
        let (a, b) = (next_port(&link.a.device, "a"), next_port(&link.b.device, "b"));
        let mut add =
            |(node, index): (NodeIx, PortIndex), is_a, far| ports[node].push(PortInfo { index, link: i, is_a, far });
        match (a, b) {
            (Some(a), Some(b)) => {
                add(a, true, Far::Node { node: b.0, port: b.1 });
                add(b, false, Far::Node { node: a.0, port: a.1 });
            }
            (Some(near), None) | (None, Some(near)) => {
                let is_a = a.is_some();
                let device = if is_a { &link.b.device } else { &link.a.device };
                // Absent only when the other end is a node with too many ports: reported above.
                if let Some(&host) = host_ix.get(device.as_str()) {
                    let decl = &spec.hosts[host];
                    add(near, is_a, Far::Host(host));
                    if let Some(first) = hosts.get(decl.name.as_str()) {
                        let first = HostLink { node: first.node, port: first.port, link: first.link };
                        let all = multi_homed.entry(host).or_insert_with(|| vec![first]);
                        all.push(HostLink { node: near.0, port: near.1, link: i });
                        continue;
                    }
                    let attachment = Attachment {
                        node: near.0,
                        port: near.1,
                        link: i,
                        prefix: decl.prefix,
                        address: decl.address,
                        accepts_roce: decl.long_haul_cnp == LongHaulFormat::RoceV2,
                        sends_programs: decl.path_programs,
                        at: host,
                    };
                    hosts.insert(decl.name.as_str().into(), attachment);
                }
            }
            (None, None) => {}
        }
    }
    errors.into_result()?;
    Ok(Wiring { ports, hosts, multi_homed })
}

/// The prefixes of the hosts of each place, joined where they fill a shorter one, and the sets of nodes whose places follow those of the nodes.
pub(super) fn host_prefixes(
    spec: &TopologySpec,
    hosts: &HashMap<Arc<str>, Attachment>,
    multi_homed: &BTreeMap<usize, Vec<HostLink>>,
) -> (impl Iterator<Item = (Ipv6Net, usize)>, Vec<Vec<NodeIx>>) {
    let mut of = vec![Vec::new(); spec.nodes.len()];
    let with_one = hosts.values().filter(|at| !multi_homed.contains_key(&at.at));
    with_one.for_each(|at| of[at.node].push(at.prefix));
    let mut sets: BTreeMap<Vec<NodeIx>, Vec<Ipv6Net>> = BTreeMap::new();
    for (host, links) in multi_homed {
        let nodes: BTreeSet<NodeIx> = links.iter().map(|at| at.node).collect();
        sets.entry(nodes.into_iter().collect()).or_default().push(spec.hosts[*host].prefix);
    }
    let (sets, prefixes): (Vec<_>, Vec<_>) = sets.into_iter().unzip();
    let of_places = of.into_iter().chain(prefixes).enumerate();
    let joined = |(place, prefixes): (usize, Vec<Ipv6Net>)| {
        Ipv6Net::aggregate(&prefixes).into_iter().map(move |prefix| (prefix, place))
    };
    (of_places.flat_map(joined), sets)
}
