// SPDX-License-Identifier: Apache-2.0
//! What hosts compose path programs from, for the streams that bring it to their agents.

use std::sync::Arc;

use canopy_controller_core::Domain;
use canopy_controller_core::fabric_now::FabricNow;
use tokio::sync::watch;

use crate::controller::Controller;

impl Controller {
    /// What hosts get, now and after every change of the topology, of its links in service, or of the contract of an agent by which it drops
    /// programs of hosts. Measurements, groups and other reports change nothing of it.
    pub fn follow_fabric(&self) -> watch::Receiver<Arc<FabricNow>> {
        self.fabric().subscribe()
    }

    /// After a command. Constant time if it changed nothing of it.
    pub(crate) fn fabric_changed(&self) {
        // The domain is read under the lock of the watch, so that of two changes the later one stays.
        self.fabric().send_if_modified(|known| {
            let next = self.read(|d| (!d.is_fabric_of(known)).then(|| d.fabric_now()));
            next.map(|next| *known = Arc::new(next)).is_some()
        });
    }

    /// After the report of an agent with another contract. A few instructions per node.
    pub(crate) fn contracts_changed(&self) {
        self.fabric().send_modify(|known| *known = Arc::new(self.read(Domain::fabric_now).share(known)));
    }
}
