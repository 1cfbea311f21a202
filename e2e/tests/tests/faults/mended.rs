// SPDX-License-Identifier: Apache-2.0
//! Self-mended: the domain puts right what another program or a fault changed, with an event, and no alarm stays.

use canopy_lab::Lab;

use super::bench::{Watched, in_device, link_to};

/// Name, text of the event (empty: none), and what makes it.
type Row = (&'static str, &'static str, fn(&mut Watched));

pub(super) const FAULTS: [Row; 7] = [
    ("filter removed", "TC filter of port eth1", |w| in_device(&w.bed, "n1", "tc filter del dev eth1 ingress")),
    ("policy rule removed", "policy rule 4792 was removed", |w| {
        in_device(&w.bed, "n1", "ip -6 rule del priority 4792")
    }),
    ("forwarding off", "conf.all.forwarding", |w| {
        in_device(&w.bed, "n1", "sysctl -q -w net.ipv6.conf.all.forwarding=0")
    }),
    ("route removed", "", route_removed),
    ("interface down and up", "", interface_down_and_up),
    ("agent restarted", "AgentConnected", agent_restarted),
    // Its events are gone with it.
    ("controller restarted", "", controller_restarted),
];

fn interface_down_and_up(w: &mut Watched) {
    let (_, port) = link_to(&w.bed, "n2");
    let (node, interface) = port.split_once('/').unwrap();
    in_device(&w.bed, node, &format!("ip link set {interface} down"));
    wait_for(w, node, &format!("link show dev {interface} up"), "state UP");
}

/// The route to another node.
fn route_removed(w: &mut Watched) {
    let route = "-6 route show table 4791 fcff:0:0:6::1";
    wait_for(w, "n1", route, "fcff:0:0:6::1");
    in_device(&w.bed, "n1", "ip -6 route del table 4791 fcff:0:0:6::1");
    wait_for(w, "n1", route, "fcff:0:0:6::1");
}

fn wait_for(w: &Watched, node: &str, shown: &str, wanted: &str) {
    let is_there = |lab: &Lab| {
        let out = lab.command(node, "ip")?.args(shown.split(' ')).output()?;
        Ok(String::from_utf8_lossy(&out.stdout).contains(wanted))
    };
    w.bed.lab.wait(&format!("{wanted} in ip {shown} at {node}"), is_there).unwrap();
}

fn agent_restarted(w: &mut Watched) {
    w.bed.lab.kill_agent("n2").unwrap();
    w.bed.lab.start_agent("n2").unwrap();
}

fn controller_restarted(w: &mut Watched) {
    w.bed.lab.kill_controller().unwrap();
    w.bed.lab.start_controller().unwrap();
}
