// SPDX-License-Identifier: Apache-2.0
//! The networks of runs, as an operator declares them.

use canopy_model::FieldError;
use canopy_model::ids::NodeId;
use canopy_model::topology::{Endpoint, HostDecl, LinkDecl, LongHaulFormat, NodeDecl, TopologySpec};

use crate::chance::Chance;

/// Name of the source's host.
pub const SOURCE_HOST: &str = "source";
/// Receivers behind one edge of a large fan: half of the branches that a node may have.
const WIDE: u32 = 64;

/// How nodes are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Nodes in a row.
    Chain,
    /// Nodes in a circle: every node can be reached by two paths.
    Ring,
    /// One node, and edges next to it.
    Fan,
    /// Leaves, each linked to every spine; parallel links occur.
    Clos,
    /// One edge with all receivers, behind two paths.
    Wide,
}

/// A network that is being declared.
struct Draft {
    spec: TopologySpec,
    hosts: Vec<String>,
}

impl Draft {
    fn nodes(count: u32) -> Result<Self, FieldError> {
        let node = |n: u32| Ok(NodeDecl::new(format!("n{n}"), NodeId::new("id", n.into())?));
        let nodes = (1..=count).map(node).collect::<Result<_, FieldError>>()?;
        Ok(Self { spec: TopologySpec { nodes, ..TopologySpec::default() }, hosts: Vec::new() })
    }

    /// Links two devices; a port is named after the link.
    fn link(&mut self, a: &str, b: &str) {
        let port = format!("p{}", self.spec.links.len());
        let end = |device: &str| Endpoint { device: device.to_owned(), port: port.clone() };
        self.spec.links.push(LinkDecl::new(end(a), end(b)));
    }

    fn link_nodes(&mut self, a: u32, b: u32) {
        self.link(&format!("n{a}"), &format!("n{b}"));
    }

    fn host(&mut self, name: &str, node: u32) {
        let number = self.spec.hosts.len() + 1;
        let prefix = std::net::Ipv6Addr::new(0x2001, 0xdb8, number as u16, 0, 0, 0, 0, 0);
        let address = std::net::Ipv6Addr::new(0x2001, 0xdb8, number as u16, 0, 0, 0, 0, 1);
        self.spec.hosts.push(HostDecl {
            name: name.to_owned(),
            prefix: ipnet::Ipv6Net::new_assert(prefix, 64),
            address,
            long_haul_cnp: LongHaulFormat::default(),
            path_programs: false,
        });
        self.link(&format!("n{node}"), name);
    }

    fn receiver_host(&mut self, node: u32) {
        let name = format!("h{}", self.hosts.len() + 1);
        self.host(&name, node);
        self.hosts.push(name);
    }
}

/// Draws a network of this shape with `hosts` hosts for receivers. Returns the hosts' names too.
///
/// # Errors
/// More nodes than node numbers.
pub fn draw(shape: Shape, hosts: u32, chance: &mut Chance) -> Result<(TopologySpec, Vec<String>), FieldError> {
    let nodes = match shape {
        Shape::Chain => chance.between(2, 6) as u32,
        Shape::Ring => chance.between(3, 7) as u32,
        Shape::Fan if hosts > WIDE => 1 + hosts.div_ceil(WIDE),
        Shape::Fan => chance.between(2, 7) as u32,
        Shape::Clos => chance.between(4, 8) as u32,
        Shape::Wide => 4,
    };
    let spines = if shape == Shape::Clos { chance.between(2, 3) as u32 } else { 0 };
    let leaves = nodes - spines;
    let mut draft = Draft::nodes(nodes)?;
    match shape {
        Shape::Chain | Shape::Ring => (1..nodes).for_each(|n| draft.link_nodes(n, n + 1)),
        Shape::Fan => (2..=nodes).for_each(|n| draft.link_nodes(1, n)),
        Shape::Clos => {
            for (leaf, spine) in (1..=leaves).flat_map(|leaf| (1..=spines).map(move |s| (leaf, leaves + s))) {
                for _ in 0..1 + u64::from(chance.below(8) == 0) {
                    draft.link_nodes(leaf, spine);
                }
            }
        }
        Shape::Wide => [(1, 2), (1, 3), (2, 4), (3, 4)].into_iter().for_each(|(a, b)| draft.link_nodes(a, b)),
    }
    if shape == Shape::Ring {
        draft.link_nodes(nodes, 1);
    }
    draft.host(SOURCE_HOST, 1);
    for i in 0..hosts {
        let node = match shape {
            Shape::Wide => nodes,
            Shape::Fan if hosts > WIDE => 2 + i % (nodes - 1),
            Shape::Fan => chance.between(2, nodes.into()) as u32,
            // Spines have no hosts.
            _ => chance.between(1, leaves.into()) as u32,
        };
        draft.receiver_host(node);
    }
    Ok((draft.spec, draft.hosts))
}
