// SPDX-License-Identifier: Apache-2.0
//! Leaves on behalf of processes that have ended: their leases are held by no stream any more.

use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use tokio::sync::watch as state;
use tokio::task::block_in_place;
use tonic::Code;
use tonic::transport::Channel;

use super::leases::{Leases, Unheld};
use super::owner::Owner;
use super::owners::Owners;
use super::served::Served;
use super::{ANSWER_WITHIN, closed};

/// Time between two attempts, doubling from the first to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// Ends leases that no stream holds.
pub(super) struct Ending {
    pub(super) controller: MembershipServiceClient<Channel>,
    pub(super) owners: Arc<Owners>,
    pub(super) leases: Arc<Leases>,
    pub(super) served: Served,
    pub(super) closing: state::Receiver<bool>,
}

impl Ending {
    /// Ends the membership in time, unless a stream holds its lease again, or the agent stops: then the next agent does.
    pub(super) fn schedule(self: &Arc<Self>, unheld: Unheld) {
        let (this, mut closing) = (Arc::clone(self), self.closing.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = this.end(unheld) => {}
                () = closed(&mut closing) => {}
            }
        });
    }

    async fn end(&self, unheld: Unheld) {
        tokio::time::sleep_until(unheld.at).await;
        while let Some(grace) = self.leases.grace() {
            tokio::time::sleep_until(grace).await;
        }
        let (group, host) = &unheld.key;
        let mut pause = FIRST_PAUSE;
        while self.leases.is_due(&unheld) {
            if !self.served.has(host) {
                tracing::info!(group, host, "the lease ends without a leave: the host is not attached here any more");
                return block_in_place(|| self.leases.end(&unheld.key));
            }
            // Busy: a call for this membership is in progress, perhaps that of the process's successor, which changes the lease.
            if let Ok(claim) = self.owners.claim(group, host, &Owner::ROOT)
                && self.leases.begin_end(&unheld)
            {
                match self.leave(group, host, claim.owner()).await {
                    Ok(()) => {
                        tracing::info!(group, host, "left: no process holds the membership's lease any more");
                        return block_in_place(|| {
                            self.leases.end(&unheld.key);
                            claim.end();
                        });
                    }
                    Err(reason) => {
                        self.leases.keep(&unheld);
                        if pause == FIRST_PAUSE {
                            tracing::warn!(
                                group,
                                host,
                                reason,
                                "cannot leave for a process that has ended, trying again"
                            );
                        }
                    }
                }
            }
            tokio::time::sleep(pause).await;
            pause = LAST_PAUSE.min(pause * 2);
        }
    }

    async fn leave(&self, group: &str, host: &str, owner: Option<&Owner>) -> Result<(), String> {
        let (uid, account) = owner.map(Owner::for_request).unwrap_or_default();
        let request = pb::LeaveRequest { group: group.to_owned(), host: host.to_owned(), uid, account };
        match tokio::time::timeout(ANSWER_WITHIN, self.controller.clone().leave(request)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(refused)) if refused.code() == Code::NotFound => Ok(()),
            Ok(Err(refused)) => Err(refused.message().to_owned()),
            Err(_) => Err("the controller did not answer in time".to_owned()),
        }
    }
}
