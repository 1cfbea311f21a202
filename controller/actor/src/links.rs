// SPDX-License-Identifier: Apache-2.0
//! Link failure and recovery: trees and routes leave a failed link at once, and return to it after it has been stable
//! for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_controller_core::{Command, Outcome};
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;

/// How long a port must have its carrier before trees and routes use it again, so that a flapping link moves trees
/// once.
const LINK_SETTLES: Duration = Duration::from_secs(5);

/// The ports without carrier in a node's last report, and since when; kept while `watch_ports` waits for them to
/// settle.
pub(crate) struct Flap {
    reported: BTreeSet<String>,
    since: Instant,
}

impl Controller {
    /// Compares the ports without carrier in the node's last report with those that trees and routes avoid now.
    pub(crate) fn ports_reported(&self, node: &str) {
        let Some((avoided, reported)) = self.read(|d| d.ports_down(node)) else { return };
        let mut flaps = self.flaps();
        match flaps.get_mut(node) {
            Some(flap) if flap.reported == reported => {}
            Some(flap) => (flap.reported, flap.since) = (reported.clone(), Instant::now()),
            None if avoided == reported => return,
            None => {
                flaps.insert(node.to_owned(), Flap { reported: reported.clone(), since: Instant::now() });
                let (this, node) = (self.clone(), node.to_owned());
                tokio::spawn(async move { this.watch_ports(&node).await });
            }
        }
        drop(flaps);
        if !reported.is_subset(&avoided) {
            let (this, node) = (self.clone(), node.to_owned());
            tokio::spawn(async move {
                this.route_around(&node, |avoided, reported| avoided.union(&reported).cloned().collect()).await
            });
        }
    }

    /// Waits until the node's ports have not changed for `LINK_SETTLES`, then puts recovered ports back into service.
    async fn watch_ports(&self, node: &str) {
        loop {
            let due = self.flaps().get(node).map(|flap| flap.since + LINK_SETTLES);
            let Some(due) = due else { return };
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
                continue;
            }
            self.route_around(node, |_, reported| reported).await;
            let mut flaps = self.flaps();
            let settled = self.read(|d| d.ports_down(node)).is_none_or(|(avoided, reported)| avoided == reported);
            match flaps.get_mut(node) {
                Some(flap) if !settled => flap.since = Instant::now(),
                _ => _ = flaps.remove(node),
            }
        }
    }

    /// Makes trees and routes avoid the ports that `select` chooses from those avoided now and those reported without
    /// carrier.
    async fn route_around(
        &self,
        node: &str,
        select: impl FnOnce(BTreeSet<String>, BTreeSet<String>) -> BTreeSet<String>,
    ) {
        let Some((avoided, reported)) = self.read(|d| d.ports_down(node)) else { return };
        let ports = select(avoided.clone(), reported);
        let names = |ports: Vec<&String>| ports.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(", ");
        let broken = names(ports.difference(&avoided).collect());
        let mended = names(avoided.difference(&ports).collect());
        if broken.is_empty() && mended.is_empty() {
            return;
        }
        match self.execute(Command::PortsDown { node: node.to_owned(), ports }, None, false).await {
            Ok(done) if done.outcome == Outcome::Unchanged => {}
            Ok(_) => {
                if !broken.is_empty() {
                    tracing::warn!(
                        node,
                        ports = broken,
                        "no carrier: trees and routes avoid these ports where another path exists"
                    );
                    let detail = format!("no carrier on {broken}: trees and routes avoid it where another path exists");
                    self.events().note(Code::LinkDown, Some(node), None, detail);
                }
                if !mended.is_empty() {
                    tracing::info!(node, ports = mended, "carrier is back");
                    let detail = format!(
                        "{mended} has had its carrier again for {} s and is back in service",
                        LINK_SETTLES.as_secs()
                    );
                    self.events().note(Code::LinkUp, Some(node), None, detail);
                }
            }
            Err(e) => {
                let detail = format!("trees and routes still use ports without a carrier: {e}");
                self.events().note(Code::LinkChangeNotCarriedOut, Some(node), None, detail);
            }
        }
    }
}
