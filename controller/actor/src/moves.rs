// SPDX-License-Identifier: Apache-2.0
//! What follows once every node has confirmed: a group is opened for data, and a tree's move (make-before-break) takes its second
//! step, which a timeout brings about too.

use std::time::Duration;

use canopy_controller_core::Command;

use crate::Controller;
use crate::events::Code;

/// Longest time that both trees are in force: a node that does not answer cannot delay a move for ever.
const MAX_STAGING: Duration = Duration::from_secs(2);

impl Controller {
    /// Removes the old trees of those `groups` whose new tree every node has confirmed.
    pub(crate) fn finish_moves(&self, groups: &[String]) {
        for name in groups.iter().filter(|name| self.read(|d| d.is_made(name)) == Some(true)) {
            let (this, name) = (self.clone(), name.clone());
            tokio::spawn(async move { this.finish_move(name).await });
        }
    }

    /// Opens those `groups` that every node has confirmed for the first time in the source's session.
    pub(crate) fn open_groups(&self, groups: &[String]) {
        for name in groups.iter().filter(|name| self.read(|d| d.may_open(name))) {
            let (this, group) = (self.clone(), name.clone());
            tokio::spawn(async move {
                if let Err(e) = this.execute(Command::OpenGroup { group: group.clone() }, None, false).await {
                    this.events().note(
                        Code::GroupNotOpened,
                        None,
                        Some(&group),
                        format!("its headend takes no data: {e}"),
                    );
                }
            });
        }
    }

    /// Starts the timeout after which the moves of `groups` are finished.
    pub(crate) fn limit_moves(&self, groups: &[String]) {
        let moving: Vec<String> =
            groups.iter().filter(|name| self.read(|d| d.is_made(name).is_some())).cloned().collect();
        if moving.is_empty() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(MAX_STAGING).await;
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
            self.events().note(Code::MoveNotFinished, None, Some(&group), format!("both trees stay in force: {e}"));
        }
    }
}
