// SPDX-License-Identifier: Apache-2.0
//! Links that break and mend: around a broken one at once, back over a mended one when it has stayed so for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_controller_core::{Command, Outcome};
use tokio::time::Instant;

use crate::Controller;

/// How long a port must have its carrier before anything leads over it again: a link that flaps moves trees once.
const LINK_SETTLES: Duration = Duration::from_secs(5);

/// What a node last said of its ports, and since when; kept while somebody waits for it to settle.
pub(crate) struct Flap {
    said: BTreeSet<String>,
    since: Instant,
}

impl Controller {
    /// Compares what the node's last report says of its ports with what trees and routes were led around.
    pub(crate) fn ports_reported(&self, node: &str) {
        let Some((known, said)) = self.read(|d| d.ports_down(node)) else { return };
        let mut flaps = self.flaps();
        match flaps.get_mut(node) {
            Some(flap) if flap.said == said => {}
            Some(flap) => (flap.said, flap.since) = (said.clone(), Instant::now()),
            None if known == said => return,
            None => {
                flaps.insert(node.to_owned(), Flap { said: said.clone(), since: Instant::now() });
                let (this, node) = (self.clone(), node.to_owned());
                tokio::spawn(async move { this.watch_ports(&node).await });
            }
        }
        drop(flaps);
        if !said.is_subset(&known) {
            let (this, node) = (self.clone(), node.to_owned());
            tokio::spawn(
                async move { this.lead_around(&node, |known, said| known.union(&said).cloned().collect()).await },
            );
        }
    }

    /// Waits until the node's ports have stayed as they are, and takes back into service what has mended.
    async fn watch_ports(&self, node: &str) {
        loop {
            let due = self.flaps().get(node).map(|flap| flap.since + LINK_SETTLES);
            let Some(due) = due else { return };
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
                continue;
            }
            self.lead_around(node, |_, said| said).await;
            let mut flaps = self.flaps();
            let settled = self.read(|d| d.ports_down(node)).is_none_or(|(known, said)| known == said);
            match flaps.get_mut(node) {
                Some(flap) if !settled => flap.since = Instant::now(),
                _ => _ = flaps.remove(node),
            }
        }
    }

    /// Leads around the ports that `which` makes of those known and those said to have no carrier.
    async fn lead_around(
        &self,
        node: &str,
        which: impl FnOnce(BTreeSet<String>, BTreeSet<String>) -> BTreeSet<String>,
    ) {
        let Some((known, said)) = self.read(|d| d.ports_down(node)) else { return };
        let ports = which(known.clone(), said);
        let names = |ports: Vec<&String>| ports.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(", ");
        let broken = names(ports.difference(&known).collect());
        let mended = names(known.difference(&ports).collect());
        if broken.is_empty() && mended.is_empty() {
            return;
        }
        match self.execute(Command::PortsDown { node: node.to_owned(), ports }, None, false).await {
            Ok(done) if done.outcome == Outcome::Unchanged => {}
            Ok(_) => {
                if !broken.is_empty() {
                    tracing::warn!(node, ports = broken, "no carrier: trees and routes are led around");
                    let detail = format!("no carrier on {broken}: nothing leads over it where there is another way");
                    self.events().note("LinkDown", Some(node), None, detail);
                }
                if !mended.is_empty() {
                    tracing::info!(node, ports = mended, "carrier is back");
                    let detail =
                        format!("{mended} has its carrier again, for {} s now, and is used", LINK_SETTLES.as_secs());
                    self.events().note("LinkUp", Some(node), None, detail);
                }
            }
            Err(e) => {
                let detail = format!("ports without a carrier are still led over: {e}");
                self.events().note("LinkChangeNotCarriedOut", Some(node), None, detail);
            }
        }
    }
}
