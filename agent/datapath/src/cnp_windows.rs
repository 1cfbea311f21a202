// SPDX-License-Identifier: Apache-2.0
//! The tails of CNP windows: the CNP of a window after which no other CNP arrives (decisions 3.12). Every other window is closed by the
//! programs, without the agent.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use canopy_bpf::node::types;
use canopy_bpf::node::{Control, Node};
use canopy_bpf::ring::Records;
use canopy_bpf::{Context, Result, chain, monotonic, read};
use canopy_units::Monotonic;

/// Windows that opened and wait for the event loop, in addition to those in the ring buffer.
const DEPTH: usize = 4096;
/// The source has no use for the CNP of a window that ended longer ago.
const STALE: Duration = Duration::from_millis(100);
/// Length of a CNP frame.
const FRAME: usize = 94;

/// Open windows, as far as the agent knows them.
pub(crate) struct CnpWindows {
    bpf: Arc<Node>,
    opened: Records<types::canopy_event>,
    /// When each is checked, and its group.
    due: BTreeSet<(Monotonic, u32)>,
    /// A window that ended longer ago is left to the next CNP.
    pub(crate) stale: Duration,
}

impl CnpWindows {
    /// Follows the windows of all groups, those that are open already included.
    pub(crate) fn open(bpf: Arc<Node>) -> Result<Self> {
        let opened = Records::read_all(bpf.cnp_events()?, "bpf-cnps", DEPTH, read)?;
        let mut windows = Self { bpf, opened, due: BTreeSet::new(), stale: STALE };
        for (group, cnp) in windows.bpf.cnps().entries()? {
            windows.follow(group, &cnp)?;
        }
        Ok(windows)
    }

    /// Sends the CNPs of windows that have ended. Never returns. Cancel safe.
    pub(crate) async fn close(&mut self) {
        loop {
            // Before waiting: where other events are always ready, a wait of no time is cancelled before it ends.
            let checked = self.check_due();
            let next = self.due.first().map(|(at, _)| at.since(monotonic()));
            let sleep = async {
                match next {
                    Some(left) => tokio::time::sleep(left).await,
                    None => std::future::pending().await,
                }
            };
            let opened = match checked {
                Ok(()) => tokio::select! {
                    () = sleep => Ok(()),
                    opened = self.opened.next() => match opened {
                        Some(e) => self.check(e.group_id),
                        None => std::future::pending().await,
                    },
                },
                Err(error) => Err(error),
            };
            if let Err(error) = opened {
                tracing::warn!(error = chain(&error), "cannot send a CNP upstream at the end of its window");
            }
        }
    }

    /// Checks the groups that are due.
    fn check_due(&mut self) -> Result<()> {
        let now = monotonic();
        while let Some((at, group)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, group));
            self.check(group)?;
        }
        Ok(())
    }

    fn check(&mut self, group: u32) -> Result<()> {
        let Some(cnp) = self.bpf.cnps().get(&group)? else { return Ok(()) };
        self.follow(group, &cnp)
    }

    /// Closes the window if it has ended lately, or remembers when it will have.
    fn follow(&mut self, group: u32, cnp: &types::canopy_cnp) -> Result<()> {
        let Some(conf) = self.bpf.groups().get(&group)?.filter(|_| cnp.running != 0) else { return Ok(()) };
        // The programs close the windows of branches that still send CNPs: several in a window, if they are congested.
        let grace = Duration::from_nanos(conf.cnp_window_ns / 4);
        let at = Monotonic::from_nanos(cnp.ends_ns) + grace;
        if at > monotonic() {
            self.due.insert((at, group));
            return Ok(());
        }
        if monotonic().since(at) >= self.stale {
            return Ok(());
        }
        let closing = || format!("closing the CNP window of group {group}");
        self.bpf.control(group, Control::Cnp, &[0; FRAME]).with_context(closing)
    }
}
