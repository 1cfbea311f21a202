// SPDX-License-Identifier: Apache-2.0
//! A fabric of three levels with about so many nodes.

use serde_json::{Value, json};

/// Of each of a pod's edges and spines; each spine has as many cores.
const WIDTH: usize = 12;
/// Hosts of an edge.
const HOSTS: usize = 8;

/// What a fabric has.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// The topology's spec.
    pub(crate) spec: Value,
    pub(crate) nodes: Vec<String>,
    pub(crate) hosts: Vec<String>,
}

impl Fabric {
    /// Three levels: pods of 12 edges and 12 spines, and 144 cores; 8 hosts at each edge.
    pub(crate) fn of(least: usize) -> Self {
        let cores = WIDTH * WIDTH;
        let pods = least.saturating_sub(cores).div_ceil(2 * WIDTH).max(2);
        let (mut names, mut hosts, mut links) = (Vec::new(), Vec::new(), Vec::new());
        let link = |a: String, b: String| json!({"a": a, "b": b, "rateBps": 100_000_000_000_u64, "mtu": 9216});
        names.extend((0..cores).map(|core| format!("core{core}")));
        for pod in 0..pods {
            for spine in 0..WIDTH {
                let name = format!("spine{pod}-{spine}");
                let up = |up| link(format!("{name}/up{up}"), format!("core{}/pod{pod}", spine * WIDTH + up));
                links.extend((0..WIDTH).map(up));
                names.push(name);
            }
            for edge in 0..WIDTH {
                let name = format!("edge{pod}-{edge}");
                links
                    .extend((0..WIDTH).map(|up| link(format!("{name}/up{up}"), format!("spine{pod}-{up}/down{edge}"))));
                for port in 0..HOSTS {
                    let host = format!("h{}", hosts.len());
                    links.push(link(format!("{name}/host{port}"), format!("{host}/eth0")));
                    hosts.push(host);
                }
                names.push(name);
            }
        }
        let node = |(name, id): (&String, usize)| json!({"name": name, "id": id});
        let nodes: Vec<Value> = names.iter().zip(1..).map(node).collect();
        let host = |(name, number): (&String, usize)| json!({"name": name, "address": format!("2001:db8:1:{number:x}::1"), "prefix": format!("2001:db8:1:{number:x}::/64")});
        let declared: Vec<Value> = hosts.iter().zip(1..).map(host).collect();
        Self { spec: json!({"nodes": nodes, "hosts": declared, "links": links}), nodes: names, hosts }
    }
}
