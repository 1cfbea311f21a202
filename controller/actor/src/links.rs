// SPDX-License-Identifier: Apache-2.0
//! Link failure and recovery: trees and routes leave a link at once whose node reports that it carries nothing, and return to it after
//! it has been whole for a while.

use std::collections::BTreeSet;
use std::time::Duration;

use canopy_controller_core::{Command, DeadPorts, Outcome};
use canopy_model::status::ItemError;
use tokio::time::Instant;

use crate::Controller;
use crate::events::Code;

/// How long a link must be whole before trees and routes use it again, so that a flapping link moves trees once.
const LINK_SETTLES: Duration = Duration::from_secs(5);

/// Time between two checks whether a link that was silent answers again.
const CHECK_ANSWERS: Duration = Duration::from_secs(1);

/// The ports that carry nothing in a node's last report, and when to compare them with those that are avoided; kept while `watch_ports`
/// waits for them to settle.
pub(crate) struct Flap {
    reported: BTreeSet<String>,
    due: Instant,
}

impl Controller {
    /// Compares the ports that carry nothing in the node's last report with those that trees and routes avoid now.
    pub(crate) fn ports_reported(&self, node: &str) {
        let Some(ports) = self.dead_ports(node) else { return };
        let DeadPorts { avoided, reported, is_silence_new, .. } = ports;
        let mut flaps = self.flaps();
        let due = Instant::now() + LINK_SETTLES;
        match flaps.get_mut(node) {
            Some(flap) if flap.reported == reported => {}
            Some(flap) => (flap.reported, flap.due) = (reported.clone(), due),
            None if avoided == reported && !is_silence_new => return,
            None => {
                flaps.insert(node.to_owned(), Flap { reported: reported.clone(), due });
                let (this, node) = (self.clone(), node.to_owned());
                tokio::spawn(async move { this.watch_ports(&node).await });
            }
        }
        drop(flaps);
        if is_silence_new || !reported.is_subset(&avoided) {
            let (this, node) = (self.clone(), node.to_owned());
            tokio::spawn(
                async move { this.route_around(&node, |p| p.avoided.union(&p.reported).cloned().collect()).await },
            );
        }
    }

    /// The same for the nodes around one whose agent came back or stays away: that it does not answer over their links counts from now on.
    pub(crate) fn neighbours_reported(&self, node: &str) {
        let neighbours = self.read(|d| d.neighbours(node));
        neighbours.iter().for_each(|neighbour| self.ports_reported(neighbour));
    }

    fn dead_ports(&self, node: &str) -> Option<DeadPorts> {
        let now = self.now();
        self.read(|d| d.dead_ports(node, now))
    }

    /// Waits until the node's ports have not changed for `LINK_SETTLES`, then puts recovered ports back into service; those that were
    /// silent, when their links have answered for as long.
    async fn watch_ports(&self, node: &str) {
        loop {
            let due = self.flaps().get(node).map(|flap| flap.due);
            let Some(due) = due else { return };
            if Instant::now() < due {
                tokio::time::sleep_until(due).await;
                continue;
            }
            self.route_around(node, |p| p.reported.union(&p.unproven).cloned().collect()).await;
            let mut flaps = self.flaps();
            // Compared under the lock, so that no report is missed.
            let wait = match self.dead_ports(node) {
                None => None,
                Some(p) if p.avoided == p.reported && !p.is_silence_new => None,
                Some(p) if p.unproven.is_empty() => Some(LINK_SETTLES),
                Some(_) => Some(CHECK_ANSWERS),
            };
            match (flaps.get_mut(node), wait) {
                (Some(flap), Some(wait)) => flap.due = Instant::now() + wait,
                _ => _ = flaps.remove(node),
            }
        }
    }

    /// Makes trees and routes avoid the ports that `select` chooses.
    async fn route_around(&self, node: &str, select: impl FnOnce(&DeadPorts) -> BTreeSet<String>) {
        let Some(dead) = self.dead_ports(node) else { return };
        let ports = select(&dead);
        let DeadPorts { avoided, is_silence_new, .. } = dead;
        let names = |ports: Vec<&String>| ports.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(", ");
        let broken = names(ports.difference(&avoided).collect());
        let mended = names(avoided.difference(&ports).collect());
        if broken.is_empty() && mended.is_empty() && !is_silence_new {
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
                    self.events().note(Code::LinkDown, Some(node), detail);
                }
                if !mended.is_empty() {
                    tracing::info!(node, ports = mended, "ports are back in service");
                    let now = self.now();
                    let is_tried = |port| self.read(|d| d.is_tried_again(node, port, now));
                    let is_tried = mended.split(", ").any(is_tried);
                    let so_far =
                        if is_tried { ": whether data, which it lost, arrives again is tried now" } else { "" };
                    let detail = format!(
                        "{mended} has been whole for {} s and is back in service{so_far}",
                        LINK_SETTLES.as_secs()
                    );
                    self.events().note(Code::LinkUp, Some(node), detail);
                }
            }
            Err(e) => {
                let detail = format!("trees and routes still use ports that carry nothing: {e}");
                self.events().note(Code::LinkChangeNotCarriedOut, Some(node), detail);
            }
        }
    }

    /// What the node reports about these ports, and what its neighbours' counters show, for operators.
    fn why_down(&self, node: &str, ports: &str) -> String {
        let errors = self.read(|d| d.node(node)).map(|n| n.status.errors).unwrap_or_default();
        let about = |e: &&ItemError| e.kind.is_dead_link() && ports.split(", ").any(|port| port == e.name);
        let mut why: Vec<String> = errors.iter().filter(about).map(|e| e.detail.clone()).collect();
        let withholds = |port| self.read(|d| d.withholds(node, port).map(|detail| format!("port {port}: {detail}")));
        why.extend(ports.split(", ").filter_map(withholds));
        if why.is_empty() { "it has been reported again meanwhile".to_owned() } else { why.join("; ") }
    }
}
