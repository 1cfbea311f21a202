// SPDX-License-Identifier: Apache-2.0
//! Lists that the controller sends page by page.

use canopy_controller_api::query::{LinkQuery, NodeQuery};
use canopy_controller_api::{LinkResource, List, NodeResource};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::with_query;
use crate::client::Client;
use crate::failure::Failure;

/// Items per request.
pub(super) const PAGE: usize = 500;

/// One page. `target` is `path` with the query.
pub(super) async fn list<T: DeserializeOwned>(client: &Client, path: &str, target: &str) -> Result<List<T>, Failure> {
    client.get(&format!("listing {path}"), target).await
}

/// All pages, as one list. Under a filter, any of them may be empty.
pub(super) async fn pages<T: DeserializeOwned, Q: Serialize>(
    client: &Client,
    path: &str,
    query: impl Fn(Option<String>) -> Q,
) -> Result<List<T>, Failure> {
    let mut whole = list(client, path, &with_query(path, &query(None))?).await?;
    while let Some(next) = whole.metadata.next.take() {
        let page: List<T> = list(client, path, &with_query(path, &query(Some(next)))?).await?;
        whole.items.extend(page.items);
        whole.metadata = page.metadata;
    }
    Ok(whole)
}

/// All nodes, without their ports.
pub(super) async fn nodes(client: &Client) -> Result<Vec<NodeResource>, Failure> {
    let query = |next| NodeQuery { limit: Some(PAGE), next, summary: true, ..NodeQuery::default() };
    Ok(pages(client, "/api/v1/nodes", query).await?.items)
}

/// All link directions.
pub(super) async fn links(client: &Client) -> Result<Vec<LinkResource>, Failure> {
    let query = |next| LinkQuery { limit: Some(PAGE), next, ..LinkQuery::default() };
    Ok(pages(client, "/api/v1/links", query).await?.items)
}
