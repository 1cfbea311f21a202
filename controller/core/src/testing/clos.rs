// SPDX-License-Identifier: Apache-2.0
//! A fabric of three levels, for what depends on how large a network is.

use canopy_model::topology::TopologySpec;

use super::{host, link, node};

pub(crate) const PODS: u16 = 16;
pub(crate) const EDGES: u16 = 32;
const SPINES: u16 = 4;
const CORES: u16 = 28;
pub(crate) const HOSTS: u16 = 4;

/// Three levels, 604 nodes: in each pod 32 edges, linked to all 4 of its spines, and each of those to 7 cores; 2,048 hosts.
pub(crate) fn clos() -> TopologySpec {
    let mut t = TopologySpec::default();
    for core in 0..CORES {
        t.nodes.push(node(&format!("core{core}"), u64::from(core) + 1));
    }
    for pod in 0..PODS {
        for spine in 0..SPINES {
            let name = format!("spine{pod}-{spine}");
            t.nodes.push(node(&name, 0x100 + u64::from(pod * SPINES + spine)));
            for up in 0..CORES / SPINES {
                let core = spine * (CORES / SPINES) + up;
                t.links.push(link(&format!("{name}/up{up}"), &format!("core{core}/pod{pod}")));
            }
        }
        for edge in 0..EDGES {
            let name = format!("edge{pod}-{edge}");
            t.nodes.push(node(&name, 0x1000 + u64::from(pod * EDGES + edge)));
            for spine in 0..SPINES {
                t.links.push(link(&format!("{name}/up{spine}"), &format!("spine{pod}-{spine}/down{edge}")));
            }
            for port in 0..HOSTS {
                let number = (pod * EDGES + edge) * HOSTS + port;
                t.hosts.push(host(&format!("h{number}"), number + 1));
                t.links.push(link(&format!("{name}/host{port}"), &format!("h{number}/eth0")));
            }
        }
    }
    t
}

/// Three levels of switches with `ports` ports each, half of them upwards: edges, spines and cores, without hosts.
pub(crate) fn fat_tree(ports: u16) -> TopologySpec {
    let mut t = TopologySpec::default();
    let half = ports / 2;
    let add = |t: &mut TopologySpec, name: &str| t.nodes.push(node(name, t.nodes.len() as u64 + 1));
    (0..half * half).for_each(|core| add(&mut t, &format!("core{core}")));
    for pod in 0..ports {
        for spine in 0..half {
            let name = format!("spine{pod}-{spine}");
            add(&mut t, &name);
            for up in 0..half {
                t.links.push(link(&format!("{name}/up{up}"), &format!("core{}/pod{pod}", spine * half + up)));
            }
        }
        for edge in 0..half {
            let name = format!("edge{pod}-{edge}");
            add(&mut t, &name);
            for up in 0..half {
                t.links.push(link(&format!("{name}/up{up}"), &format!("spine{pod}-{up}/down{edge}")));
            }
        }
    }
    t
}
