// SPDX-License-Identifier: Apache-2.0
//! The way of a browser into the API: a code that works once, exchanged for the bearer of a session.

use std::collections::BTreeMap;

use canopy_controller_core::role::Role;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metadata::Principal;

/// A secret text of a code or a bearer; its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Credential(pub String);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

/// A code for one sign-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInCode {
    /// 22 characters of base64url, to be put behind `#` in the address of the web UI.
    #[schema(value_type = String)]
    pub code: Credential,
    /// Time in which it works, in seconds from now.
    pub expires_in_seconds: u64,
}

/// Exchanges a code for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SignIn {
    /// The code.
    #[schema(value_type = String)]
    pub code: Credential,
}

/// A session of the web UI.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// 43 characters of base64url, to be sent as `Authorization: Bearer`; absent where a cookie was set instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub bearer: Option<Credential>,
    /// Time until the session ends, in seconds from now. It also ends with the controller.
    pub expires_in_seconds: u64,
    /// Who the writes of the session are by: who had the code made, through the UI.
    pub by: Principal,
    /// What the session may do in the whole domain: `viewer`, `operator` or `admin`.
    #[schema(value_type = Option<String>)]
    pub role: Option<Role>,
    /// What it may do in single tenants besides: role by name of the tenant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub tenants: BTreeMap<String, Role>,
}

/// How a browser signs in at an address, besides with a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInWays {
    /// The issuer of the identity provider; `null`: this address has no single sign-on.
    pub single_sign_on: Option<String>,
}

/// Where a sign-in continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderAddress {
    /// The address at the identity provider that the browser has to open.
    pub address: String,
}

/// What the identity provider has sent back through the browser.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ProviderAnswer {
    /// `code` of the address.
    #[schema(value_type = String)]
    pub code: Credential,
    /// `state` of the address.
    #[schema(value_type = String)]
    pub state: Credential,
    /// `iss` of the address, of providers that send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

/// A session of the web UI, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionItem {
    /// Its number since the start of the controller.
    pub id: u64,
    /// Who its writes are by.
    pub by: Principal,
    /// What it may do in the whole domain.
    #[schema(value_type = Option<String>)]
    pub role: Option<Role>,
    /// What it may do in single tenants besides: role by name of the tenant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, String>)]
    pub tenants: BTreeMap<String, Role>,
    /// Whether it is of a browser on another machine, with a cookie; otherwise it has a bearer.
    pub is_cookie: bool,
    /// Time since it began, in seconds.
    pub age_seconds: u64,
    /// Time since its last request, in seconds.
    pub unused_seconds: u64,
    /// Time until it ends, in seconds.
    pub expires_in_seconds: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_not_shown() {
        let sign_in: SignIn = serde_json::from_str(r#"{"code":"planted"}"#).unwrap();
        assert_eq!(sign_in.code.0, "planted");
        assert!(!format!("{sign_in:?}").contains("planted"));
    }
}
