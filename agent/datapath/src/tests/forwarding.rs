// SPDX-License-Identifier: Apache-2.0
//! The kernel's switches for forwarding: the programs find no next hop at a port whose own switch is off.

use std::fs;

use canopy_agent_core::DatapathEvent;
use canopy_packet::bth::Opcode;

use crate::testbed::*;

fn switch(name: &str) -> String {
    format!("/proc/sys/net/ipv6/conf/{name}/forwarding")
}

#[test]
fn forwarding_of_one_port_that_is_switched_off_is_noticed_and_restored() {
    let mut bed = Testbed::new(&Shape { receivers: 1, ..Shape::default() });
    let packet = |psn| encapsulated(&data(Opcode::SEND_ONLY, psn, b"abc"), end_mt(), list(0..1), 0);
    assert_eq!(bed.run("u0", &packet(100)).0, REDIRECT);
    for (psn, name) in [(101, "d0"), (103, "all"), (105, "default")] {
        bed.wait_quiet();
        fs::write(switch(name), "0").unwrap();
        assert!(bed.event(|event| *event == DatapathEvent::KernelChanged), "{name}: not noticed");
        if name != "default" {
            let dropped = bed.drops().get("no_route").copied().unwrap_or(0);
            assert_eq!(bed.run("u0", &packet(psn)).0, SHOT, "{name}");
            assert_eq!(bed.drops()["no_route"], dropped + 1);
        }
        assert_eq!(bed.reconcile(|_| ()), []);
        assert_eq!(fs::read_to_string(switch(name)).unwrap().trim(), "1");
        let named = |e: &DatapathEvent| matches!(e, DatapathEvent::Event(e) if e.detail.contains(&format!("net.ipv6.conf.{name}.forwarding")));
        assert!(bed.event(named), "{name}: no event");
        assert_eq!(bed.run("u0", &packet(psn + 1)).0, REDIRECT, "{name}");
    }
}
