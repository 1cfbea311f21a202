// SPDX-License-Identifier: Apache-2.0
//! TokenReview of authentication.k8s.io/v1: what is asked, and what is read of the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Account;

/// Where reviews are posted.
pub(crate) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// Names of what a bound token has of its pod (KEP-4193).
const NODE: &str = "authentication.kubernetes.io/node-name";
const POD: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    api_version: &'static str,
    kind: &'static str,
    spec: Spec<'a>,
}

#[derive(Serialize)]
struct Spec<'a> {
    token: &'a str,
    audiences: [&'a str; 1],
}

/// The request, in JSON.
pub(crate) fn request(token: &str, audience: &str) -> Vec<u8> {
    let spec = Spec { token, audiences: [audience] };
    let request = Request { api_version: "authentication.k8s.io/v1", kind: "TokenReview", spec };
    serde_json::to_vec(&request).unwrap_or_default()
}

/// The answer.
#[derive(Debug, Deserialize)]
pub(crate) struct Review {
    pub(crate) status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) authenticated: bool,
    pub(crate) user: User,
    /// Those of the request that the token has; none from an authenticator that knows no audiences.
    pub(crate) audiences: Vec<String>,
    pub(crate) error: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct User {
    username: String,
    extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The service account; `None` if it is a user of another kind.
    pub(crate) fn account(&self) -> Option<Account> {
        let (namespace, name) = self.username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
        format!("{namespace}/{name}").parse().ok()
    }

    pub(crate) fn node(&self) -> Option<&str> {
        self.extra(NODE)
    }

    pub(crate) fn pod(&self) -> Option<&str> {
        self.extra(POD)
    }

    pub(crate) fn pod_uid(&self) -> Option<&str> {
        self.extra(POD_UID)
    }

    /// A value that is there once: of two, neither is believed.
    fn extra(&self, name: &str) -> Option<&str> {
        match self.extra.get(name).map(Vec::as_slice) {
            Some([value]) if !value.is_empty() => Some(value),
            _ => None,
        }
    }
}
