// SPDX-License-Identifier: Apache-2.0
//! The ConfigMap in which agents find the hashes of the authority, by which they recognize the controller.

use std::time::Duration;

use canopy_identity::AuthorityHash;
use hyper::Method;
use serde_json::json;

use crate::{Account, Settings, api};

/// Between two tries.
const PAUSES: [Duration; 6] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// Writes the hashes, one a line, into the ConfigMap's key `authorities`, by server-side apply: its other fields are left to others. Tries until it succeeds.
pub(crate) async fn publish(settings: &Settings, target: &Account, authorities: &[AuthorityHash]) {
    let Account { namespace, name } = target;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=canopy-controller&force=true");
    let text: String = authorities.iter().map(|hash| format!("{hash}\n")).collect();
    let body = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": {"authorities": text},
    });
    let mut pauses = PAUSES.iter();
    loop {
        let body = body.to_string().into_bytes();
        let answer = api::call(settings, Method::PATCH, &path, "application/apply-patch+yaml", body).await;
        let why = match answer {
            Ok((status, _)) if status.is_success() => {
                return tracing::info!(configmap = %target, "published the authority for agents");
            }
            Ok((status, _)) => format!(
                "the API server answered {status}: the controller's service account needs `create` and `patch` on it"
            ),
            Err(error) => error.to_string(),
        };
        let retry_in = *pauses.next().unwrap_or(&PAUSES[PAUSES.len() - 1]);
        tracing::warn!(configmap = %target, %why, ?retry_in, "cannot publish the authority: new agents cannot enroll");
        tokio::time::sleep(retry_in).await;
    }
}
