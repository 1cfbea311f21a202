// SPDX-License-Identifier: Apache-2.0
//! A host: where it is attached, the state of its port, and its groups.

use std::io::Write;

use canopy_controller_api::HostResource;
use canopy_controller_api::host::{HostGroup, HostLink, HostPort};

use super::fields;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{table, text};

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let host: HostResource = client.get(&format!("describing host {name}"), &format!("/api/v1/hosts/{name}")).await?;
    write(out, &host)
}

fn write(out: &mut dyn Write, host: &HostResource) -> Result<(), Failure> {
    let (spec, status) = (&host.spec, &host.status);
    fields(
        out,
        [
            ("Name", text(&host.metadata.name)),
            ("Node", text(&spec.node)),
            ("Port", text(&spec.port)),
            ("Port state", text(status.port)),
            ("Reason", text(&status.reason)),
            ("Address", text(spec.address)),
            ("Prefix", text(spec.prefix)),
            ("MTU", text(spec.mtu)),
            ("Path programs", if spec.path_programs { "permitted" } else { "refused at the port" }.to_owned()),
            ("Agent", text(status.agent)),
            ("Sends to", text(status.sources)),
            ("Receives from", text(status.receivers)),
        ],
    )?;
    if status.links.len() > 1 {
        writeln!(out, "\nLinks, of which the first carries the packets of groups:")?;
        let link = |(port, link): (&HostPort, &HostLink)| {
            vec![
                format!("  {}", text(&port.node)),
                text(&port.port),
                text(port.state),
                text(link.mtu),
                text(&port.reason),
            ]
        };
        let rows = status.links.iter().zip(&spec.links).map(link).collect();
        table(out, &["  NODE", "PORT", "STATE", "MTU", "REASON"], rows)?;
    }
    if status.groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nGroups:")?;
    let session = |ended: bool| if ended { "ended" } else { "present" }.to_owned();
    let row = |g: &HostGroup| vec![format!("  {}", text(&g.name)), text(g.role), session(g.ended)];
    table(out, &["  NAME", "ROLE", "SESSION"], status.groups.iter().map(row).collect())?;
    let all = status.sources as usize + status.receivers as usize;
    match all.saturating_sub(status.groups.len()) {
        0 => Ok(()),
        more => Ok(writeln!(out, "  and {more} more")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_links_has_its_state() {
        let mut host = serde_json::json!({"apiVersion": "canopy/v1", "kind": "Host",
            "metadata": {"name": "r1", "tenant": "default", "labels": {}, "generation": 1},
            "spec": {"node": "n4", "port": "eth9", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1", "mtu": 9000,
                "links": [{"node": "n4", "port": "eth9", "mtu": 9000}, {"node": "n5", "port": "eth7", "mtu": 1500}]},
            "status": {"port": "Up", "reason": "", "sources": 0, "receivers": 0, "groups": [], "links": [
                {"node": "n4", "port": "eth9", "state": "Up", "reason": ""}, {"node": "n5", "port": "eth7", "state": "Down", "reason": "no carrier"}]}});
        let described = |host: &serde_json::Value| {
            let mut out = Vec::new();
            write(&mut out, &serde_json::from_value(host.clone()).unwrap()).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = described(&host);
        for line in ["  n4    eth9  Up     9000  -", "  n5    eth7  Down   1500  no carrier"] {
            assert!(text.lines().any(|l| l.trim_end() == line), "{line} is not in\n{text}");
        }
        host["status"]["links"].as_array_mut().unwrap().pop();
        assert!(!described(&host).contains("Links"));
    }

    #[test]
    fn a_host_is_described_with_its_port_and_its_groups() {
        let host = serde_json::json!({"apiVersion": "canopy/v1", "kind": "Host",
            "metadata": {"name": "r1", "tenant": "default", "labels": {}, "generation": 1},
            "spec": {"node": "n4", "port": "eth9", "prefix": "2001:db8:1::/64", "address": "2001:db8:1::1", "mtu": 9000, "pathPrograms": true},
            "status": {"port": "Down", "reason": "no carrier", "agent": "NotConnected", "sources": 1, "receivers": 3,
                "groups": [{"name": "a", "role": "source", "ended": false}, {"name": "b", "role": "receiver", "ended": true}]}});
        let mut out = Vec::new();
        write(&mut out, &serde_json::from_value(host).unwrap()).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "Port state:         Down",
            "Reason:             no carrier",
            "Path programs:      permitted",
            "Agent:              NotConnected",
            "  a     source    present",
            "  b     receiver  ended",
            "  and 2 more",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }
}
