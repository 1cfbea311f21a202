// SPDX-License-Identifier: Apache-2.0
//! The end of the server, as streams see it.

use tokio::sync::watch;

/// Waits until `closing` is true, or for ever if its sender was dropped.
pub(crate) async fn closed(closing: &mut watch::Receiver<bool>) {
    if closing.wait_for(|c| *c).await.is_err() {
        std::future::pending::<()>().await;
    }
}
