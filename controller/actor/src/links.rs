// SPDX-License-Identifier: Apache-2.0
//! Link failure and recovery: trees and routes leave a link at once whose node reports that it carries nothing, and return to it after
//! it has been whole for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_controller_core::{Command, Outcome};
use canopy_model::status::{ItemError, ItemKind};
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;

/// How long a link must be whole before trees and routes use it again, so that a flapping link moves trees once.
const LINK_SETTLES: Duration = Duration::from_secs(5);

/// The ports that carry nothing in a node's last report, and since when; kept while `watch_ports` waits for them to settle.
pub(crate) struct Flap {
    reported: BTreeSet<String>,
    since: Instant,
}

impl Controller {
    /// Compares the ports that carry nothing in the node's last report with those that trees and routes avoid now.
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

    /// Makes trees and routes avoid the ports that `select` chooses from those avoided now and those that are reported to carry nothing.
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
                    let why = self.why_down(node, &broken);
                    tracing::warn!(
                        node,
                        ports = broken,
                        why,
                        "trees and routes avoid these ports where another path exists"
                    );
                    let detail = format!("{broken} is avoided by trees and routes where another path exists: {why}");
                    self.events().note(Code::LinkDown, Some(node), None, detail);
                }
                if !mended.is_empty() {
                    tracing::info!(node, ports = mended, "ports are back in service");
                    let detail =
                        format!("{mended} has been whole for {} s and is back in service", LINK_SETTLES.as_secs());
                    self.events().note(Code::LinkUp, Some(node), None, detail);
                }
            }
            Err(e) => {
                let detail = format!("trees and routes still use ports that carry nothing: {e}");
                self.events().note(Code::LinkChangeNotCarriedOut, Some(node), None, detail);
            }
        }
    }

    /// What the node reports about these ports, for operators.
    fn why_down(&self, node: &str, ports: &str) -> String {
        let errors = self.read(|d| d.node(node)).map(|n| n.status.errors).unwrap_or_default();
        let about = |e: &&ItemError| e.kind == ItemKind::Link && ports.split(", ").any(|port| port == e.name);
        let why: Vec<String> = errors.iter().filter(about).map(|e| e.detail.clone()).collect();
        if why.is_empty() { "it has been reported again meanwhile".to_owned() } else { why.join("; ") }
    }
}
