// SPDX-License-Identifier: Apache-2.0
//! Groups that are to be assessed soon: when agents come and go, each of them concerns many groups, and many agents concern each group.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::Controller;

/// Agents of one group that come or go within this time cost one assessment.
const TOGETHER: Duration = Duration::from_millis(20);
/// Groups that are assessed without a break.
pub(crate) const AT_ONCE: usize = 100;

/// The groups that wait.
#[derive(Debug, Default)]
pub(crate) struct Assessing {
    names: Mutex<BTreeSet<String>>,
    news: Notify,
}

impl Assessing {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller {
    /// As [`Controller::groups_changed`], once [`TOGETHER`] has passed and for all callers until then at once. For changes that people read:
    /// a report may open a group or end its move, and is not to wait.
    pub(crate) fn assess_soon(&self, groups: Vec<String>) {
        if !groups.is_empty() {
            self.assessing().lock().extend(groups);
            self.assessing().news.notify_one();
        }
    }

    /// Assesses the groups that wait, until it is aborted.
    pub(crate) async fn assess_groups(self) {
        loop {
            self.assessing().news.notified().await;
            tokio::time::sleep(TOGETHER).await;
            let groups: Vec<String> = std::mem::take(&mut *self.assessing().lock()).into_iter().collect();
            for some in groups.chunks(AT_ONCE) {
                self.groups_changed(some);
                tokio::task::yield_now().await;
            }
        }
    }
}
