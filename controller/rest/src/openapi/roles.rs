// SPDX-License-Identifier: Apache-2.0
//! Which role each operation needs, and whether one in a tenant is enough, from the table that the server decides by.

use axum::http::Method;
use serde_json::{Value, json};

use super::document::operations;
use crate::authorization::{is_of_tenants, needed};

/// Adds the lowest role of each operation as `x-canopy-role`, where it is needed as `x-canopy-scope`: `tenant` or `domain`; and how a caller authenticates besides its connection.
pub(super) fn put(document: &mut Value) {
    for (path, method, operation) in operations(document) {
        let method = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).unwrap_or_default();
        let Some(role) = needed(&method, &path, None) else {
            operation["security"] = json!([]);
            continue;
        };
        operation["x-canopy-role"] = role.name().into();
        operation["x-canopy-scope"] = if is_of_tenants(&method, &path) { "tenant" } else { "domain" }.into();
        // Programs of the controller's machine need none.
        operation["security"] = json!([{}, {"bearer": []}]);
    }
    document["components"]["securitySchemes"]["bearer"] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A token that `canopyctl token create` made, or the session of a browser."
    });
}
