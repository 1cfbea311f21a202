// SPDX-License-Identifier: Apache-2.0
//! The hashes of the authority stay published while another one replaces it.

use std::sync::Arc;

use canopy_controller_authority::Standing;
use canopy_controller_kubernetes::Attestor;
use tokio::sync::watch;

/// Publishes the hashes of every authority that agents may recognize the controller by, again after each step of a replacement.
pub(crate) async fn run(attestor: Arc<Attestor>, mut standing: watch::Receiver<Arc<Standing>>) {
    loop {
        let hashes = standing.borrow_and_update().hashes();
        // Hashes that could not be published until the next step are tried no more.
        tokio::select! {
            () = attestor.publish(&hashes) => if standing.changed().await.is_err() { return },
            changed = standing.changed() => if changed.is_err() { return },
        }
    }
}
