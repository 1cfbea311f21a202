// SPDX-License-Identifier: Apache-2.0
//! The second step of a tree's move: once every node has made the new tree, or when that takes too long.

use std::time::Duration;

use canopy_controller_core::Command;

use crate::Controller;

/// Longest time that two trees lie side by side: a node that does not answer does not hold a move up for ever.
const MAKE_LASTS: Duration = Duration::from_secs(2);

impl Controller {
    /// Breaks the old trees of those `groups` whose new one every node has confirmed.
    pub(crate) fn finish_moves(&self, groups: &[String]) {
        for name in groups.iter().filter(|name| self.read(|d| d.is_made(name)) == Some(true)) {
            let (this, name) = (self.clone(), name.clone());
            tokio::spawn(async move { this.finish_move(name).await });
        }
    }

    /// Sees to it that a move of any of `groups` ends.
    pub(crate) fn limit_moves(&self, groups: &[String]) {
        let moving: Vec<String> =
            groups.iter().filter(|name| self.read(|d| d.is_made(name).is_some())).cloned().collect();
        if moving.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MAKE_LASTS).await;
            for name in moving {
                this.finish_move(name).await;
            }
        });
    }

    async fn finish_move(&self, group: String) {
        if self.read(|d| d.is_made(&group)).is_none() {
            return;
        }
        if let Err(e) = self.execute(Command::FinishMove { group: group.clone() }, None, false).await {
            self.events().note("MoveNotFinished", None, Some(&group), format!("both trees stay in force: {e}"));
        }
    }
}
