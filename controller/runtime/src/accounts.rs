// SPDX-License-Identifier: Apache-2.0
//! Service accounts of Kubernetes as callers of the REST API, with the roles that the configuration gives them.

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_controller_access::Identity;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_kubernetes::{Account, Attestor, Refusal};
use canopy_controller_rest::{Accounts, NotNamed};

/// Callers by their tokens, which the API server confirms; an account that is not in `roles` is no caller. Without any role the API server is not
/// asked: bearers of strangers would be sent to it.
pub fn of(attestor: Option<Arc<Attestor>>, roles: BTreeMap<Account, Role>) -> Option<Accounts> {
    let attestor = attestor.filter(|_| !roles.is_empty())?;
    let roles = Arc::new(roles);
    Some(Accounts::new(move |token| {
        let (attestor, roles) = (attestor.clone(), roles.clone());
        async move {
            let account = attestor.account(&token, |account| roles.contains_key(account)).await.map_err(not_named)?;
            let Some(role) = roles.get(&account) else {
                let why = format!("service account {account} has no role here: see kubernetes.roles of the controller");
                return Err(NotNamed::NotValid(why));
            };
            // What acts is a token, which makes no others.
            Ok(Identity::new(Principal::operator(name(&account), None).with_token("kubernetes"), Some(*role)))
        }
    }))
}

/// What names of accounts as principals begin with. No user of a machine has such a name.
pub const PREFIX: &str = "serviceaccount:";

/// The name of an account as a principal.
pub fn name(account: &Account) -> String {
    format!("{PREFIX}{account}")
}

fn not_named(refusal: Refusal) -> NotNamed {
    let why = refusal.to_string();
    if refusal.is_unanswered() { NotNamed::Unavailable(why) } else { NotNamed::NotValid(why) }
}
