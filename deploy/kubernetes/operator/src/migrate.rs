// SPDX-License-Identifier: Apache-2.0
//! Resources that are stored in an earlier version of their definition are stored anew in the present one.
//!
//! An API server writes the version that the definition names, and leaves what is stored as it is: `status.storedVersions` keeps the earlier
//! version until a client has written every object once. Then that version may leave the definition. A pass that is broken off is begun anew: what
//! is stored in the present version already is not written again.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Definition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::runtime::{WatchStreamExt, watcher::watch_object};
use kube::{Client, Error, ResourceExt};
use serde_json::json;

/// API servers learn of a definition one by one: until then, an earlier version could be stored still.
const SETTLE: Duration = Duration::from_secs(5);
/// After a failure; twice as long after each one that follows.
const AGAIN: Duration = Duration::from_secs(30);
/// Between two tries, at most: each begins with the first object again.
const AT_MOST: Duration = Duration::from_secs(600);
/// Refused objects that a try names in the log, at most: without the right to write, all are refused.
const NAMED: usize = 10;
/// Objects in a page.
const PAGE: u32 = 500;
/// How often one object is written that others write at the same time.
const TRIES: usize = 5;

/// What has to be stored anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The version that is stored from now on.
    pub storage: String,
    /// The version by which objects are read.
    pub served: String,
    /// Versions in which objects may be stored.
    pub stored: Vec<String>,
}

/// What has to be stored anew of a definition's objects; `None` if nothing has.
pub fn decide(definition: &Definition) -> Option<Migration> {
    let versions = &definition.spec.versions;
    let storage = versions.iter().find(|version| version.storage)?;
    let stored = definition.status.as_ref()?.stored_versions.clone()?;
    if stored.iter().all(|version| *version == storage.name) {
        return None;
    }
    let served = if storage.served { storage } else { versions.iter().find(|version| version.served)? };
    Some(Migration { storage: storage.name.clone(), served: served.name.clone(), stored })
}

/// Follows the definition of this name, for ever, and stores its objects anew when that is needed.
pub async fn follow(kubernetes: Client, name: &str) {
    let definitions = Api::<Definition>::all(kubernetes.clone());
    let mut changes = std::pin::pin!(watch_object(definitions.clone(), name).default_backoff());
    while let Some(change) = changes.next().await {
        let definition = match change {
            Ok(definition) => definition,
            Err(error) => {
                tracing::warn!(definition = name, %error, "cannot follow a definition");
                continue;
            }
        };
        if definition.as_ref().and_then(decide).is_none() {
            continue;
        }
        tokio::time::sleep(SETTLE).await;
        let mut wait = AGAIN;
        while let Err(error) = migrate(&kubernetes, &definitions, name).await {
            tracing::warn!(definition = name, %error, retry_in = ?wait, "cannot store all objects in their present version");
            tokio::time::sleep(wait).await;
            wait = AT_MOST.min(wait * 2);
        }
    }
}

/// Writes every object once, and takes the earlier versions from the definition's status.
///
/// # Errors
/// Kubernetes refuses, or is not reached; another call continues.
pub async fn migrate(kubernetes: &Client, definitions: &Api<Definition>, name: &str) -> Result<(), Error> {
    let Some(definition) = definitions.get_opt(name).await? else { return Ok(()) };
    let Some(Migration { storage, served, stored }) = decide(&definition) else { return Ok(()) };
    let spec = &definition.spec;
    let kind = GroupVersionKind::gvk(&spec.group, &served, &spec.names.kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, &spec.names.plural);
    let all = Api::<DynamicObject>::all_with(kubernetes.clone(), &resource);
    let mut page = ListParams::default().limit(PAGE);
    let (mut written, mut refused) = (0, Vec::new());
    loop {
        let list = all.list_metadata(&page).await?;
        for object in &list.items {
            let of = match object.namespace() {
                Some(namespace) => Api::namespaced_with(kubernetes.clone(), &namespace, &resource),
                None => all.clone(),
            };
            match write(&of, &object.name_any(), object.resource_version()).await {
                Ok(()) => written += 1,
                // The others are written all the same.
                Err(Error::Api(why)) if is_of_object(why.code) => {
                    if refused.len() < NAMED {
                        let (namespace, object) = (object.namespace(), object.name_any());
                        tracing::warn!(definition = name, namespace, object, %why, "Kubernetes refuses to store an object anew: change it so that it is accepted");
                        refused.push(Error::Api(why));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    if let Some(first) = refused.into_iter().next() {
        return Err(first);
    }
    // Refused if the definition is another one by now.
    let body = json!({
        "metadata": {"resourceVersion": definition.resource_version()},
        "status": {"storedVersions": [storage]},
    });
    definitions.patch_status(name, &PatchParams::default(), &Patch::Merge(body)).await?;
    tracing::info!(definition = name, storage, ?stored, written, "all objects are stored in the present version");
    Ok(())
}

/// Whether a refusal is one of this object, by a rule of its definition (422) or a webhook (400 and 403 as a rule): not of who writes, nor of
/// how much is written.
fn is_of_object(status: u16) -> bool {
    matches!(status, 400 | 403 | 422)
}

/// Writes an object as it is.
async fn write(of: &Api<DynamicObject>, name: &str, mut version: Option<String>) -> Result<(), Error> {
    for tries_left in (0..TRIES).rev() {
        let same = json!({"metadata": {"resourceVersion": version}});
        match of.patch_metadata(name, &PatchParams::default(), &Patch::Merge(same)).await {
            Err(Error::Api(refused)) if refused.code == 404 => return Ok(()),
            Err(Error::Api(refused)) if refused.code == 409 && tries_left > 0 => {
                let Some(now) = of.get_metadata_opt(name).await? else { return Ok(()) };
                version = now.resource_version();
            }
            done => return done.map(drop),
        }
    }
    Ok(())
}
