// SPDX-License-Identifier: Apache-2.0
//! A drain: what is out of service, why and how long, and what still uses it.

use std::io::Write;

use canopy_controller_api::DrainResource;
use canopy_model::rfc3339;

use super::fields;
use crate::client::Client;
use crate::commands::rows;
use crate::failure::Failure;
use crate::output::text;

pub(super) async fn describe(client: &Client, name: &str, out: &mut dyn Write) -> Result<(), Failure> {
    let drain: DrainResource =
        client.get(&format!("describing drain {name}"), &format!("/api/v1/drains/{name}")).await?;
    write(out, &drain)
}

fn write(out: &mut dyn Write, drain: &DrainResource) -> Result<(), Failure> {
    let (spec, status) = (&drain.spec, &drain.status);
    let by_hand = || "when an operator removes it".to_owned();
    fields(
        out,
        [
            ("Name", text(&drain.metadata.name)),
            ("Link", text(&spec.link)),
            ("Node", text(&spec.node)),
            ("Reason", text(&spec.reason)),
            ("Ends", spec.until.map_or_else(by_hand, rfc3339::format)),
            ("Accepts loss", text(spec.accept_loss)),
            ("Written", rows::changed(&drain.metadata)),
            ("Links", text(status.links.join(", "))),
            ("Groups left", text(status.groups)),
            ("Hosts cut off", text(status.hosts.join(", "))),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_is_described_with_its_end() {
        let resource = |until: serde_json::Value| {
            let of = serde_json::json!({"apiVersion": "canopy/v1", "kind": "Drain",
                "metadata": {"name": "n4", "tenant": "default", "labels": {}, "generation": 1},
                "spec": {"node": "n4", "reason": "fans", "until": until},
                "status": {"links": ["n4/eth1--n2/eth1"], "groups": 3, "hosts": []}});
            serde_json::from_value::<DrainResource>(of).unwrap()
        };
        let shown = |of: &DrainResource| {
            let mut out = Vec::new();
            write(&mut out, of).unwrap();
            String::from_utf8(out).unwrap()
        };
        let text = shown(&resource("2026-11-26T18:00:00Z".into()));
        for line in [
            "Ends:               2026-11-26T18:00:00Z",
            "Groups left:        3",
            "Links:              n4/eth1--n2/eth1",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(shown(&resource(serde_json::Value::Null)).contains("when an operator removes it"));
    }
}
