// SPDX-License-Identifier: Apache-2.0
//! Revokes the certificates of nodes that have left, durable before the retirement has ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_actor::Controller;
use canopy_controller_actor::events::Code;
use canopy_controller_authority::Registrar;
use canopy_controller_core::Command;
use canopy_identity::Subject;
use canopy_units::UnixTime;
use tokio::task::JoinSet;

/// An agent that has reported ends by itself, once it has the answer; one that does not is disconnected after this long.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Pause after a failure.
const RETRY: Duration = Duration::from_secs(5);

/// Serves every retirement, of before the start too. Never ends.
pub(crate) async fn run(controller: Controller, registrar: Option<Arc<Registrar>>) {
    let mut steps = controller.follow_retirements();
    let mut under_way = BTreeSet::new();
    let mut tasks = JoinSet::new();
    loop {
        steps.mark_unchanged();
        for (node, retirement) in controller.retirements_to_revoke() {
            if under_way.insert((node.clone(), retirement)) {
                tasks.spawn(revoke(controller.clone(), registrar.clone(), node, retirement));
            }
        }
        tokio::select! {
            changed = steps.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            Some(Ok(done)) = tasks.join_next() => {
                under_way.remove(&done);
            }
        }
    }
}

/// Returns what it was for.
async fn revoke(
    controller: Controller,
    registrar: Option<Arc<Registrar>>,
    node: String,
    retirement: u64,
) -> (String, u64) {
    _ = tokio::time::timeout(ENDS_WITHIN, disconnected(&controller, &node)).await;
    loop {
        match revoked(&controller, registrar.clone(), &node, retirement).await {
            Ok(()) => return (node, retirement),
            Err(error) => {
                tracing::error!(node, %error, retry_in = ?RETRY, "cannot revoke the certificates of a node that has left");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn revoked(
    controller: &Controller,
    registrar: Option<Arc<Registrar>>,
    node: &str,
    retirement: u64,
) -> anyhow::Result<()> {
    let subject = Subject::Node(node.to_owned());
    if let Some(registrar) = registrar {
        tokio::task::spawn_blocking(move || registrar.revoke(&subject, UnixTime::now())).await??;
        let detail = format!("the controller revoked the certificates of node/{node}, which has left");
        controller.events().note(Code::IdentityRevoked, Some(node), detail);
    }
    let command = Command::NodeRevoked { node: node.to_owned(), retirement };
    controller.execute(command, None, false).await?;
    Ok(())
}

async fn disconnected(controller: &Controller, node: &str) {
    let mut nodes = controller.follow_nodes();
    while controller.read(|d| d.agent_of(node)).is_some_and(|(connected, _)| connected) {
        nodes.changed().await;
    }
}
