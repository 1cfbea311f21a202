// SPDX-License-Identifier: Apache-2.0
//! Status of a resource, written when it changes: by server-side apply, and at most once a second for each resource.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::failure::Failure;

/// Name of the operator among those that write fields of a resource.
pub const FIELD_MANAGER: &str = "canopy-operator";
/// Shortest time between two writes of one status.
const PAUSE: Duration = Duration::from_secs(1);
/// Resources whose last write is known; more than that are forgotten once their pause has ended.
const KNOWN: usize = 4096;

/// When each status was written last, by the resource's UID.
#[derive(Debug, Default)]
pub struct Pace(Mutex<HashMap<String, Instant>>);

impl Pace {
    /// Takes the right to write a status now.
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn take(&self, uid: &str, now: Instant) -> Result<(), Duration> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = last.get(uid).and_then(|at| PAUSE.checked_sub(now.saturating_duration_since(*at)))
            && !wait.is_zero()
        {
            return Err(wait);
        }
        if last.len() >= KNOWN {
            last.retain(|_, at| now.saturating_duration_since(*at) < PAUSE);
        }
        last.insert(uid.to_owned(), now);
        Ok(())
    }
}

/// Writes `wanted` unless the resource has it already. Returns how long it has to wait, if the last one was written just now.
///
/// # Errors
/// Kubernetes refuses, or is not reached.
pub async fn write<K, S>(
    api: &Api<K>,
    pace: &Pace,
    resource: &K,
    present: Option<&S>,
    wanted: &S,
) -> Result<Option<Duration>, Failure>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    S: Serialize + PartialEq,
{
    if present == Some(wanted) {
        return Ok(None);
    }
    let uid = resource.uid().unwrap_or_default();
    if let Err(wait) = pace.take(&uid, Instant::now()) {
        return Ok(Some(wait));
    }
    let body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        // Another resource of this name is not meant.
        "metadata": {"name": resource.name_any(), "uid": uid},
        "status": wanted,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&resource.name_any(), &params, &Patch::Apply(body)).await?;
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_once_a_second_and_those_of_others_at_once() {
        let (pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.take("a", start), Ok(()));
        assert_eq!(pace.take("a", start + PAUSE / 4), Err(PAUSE * 3 / 4));
        assert_eq!(pace.take("b", start + PAUSE / 4), Ok(()));
        assert_eq!(pace.take("a", start + PAUSE), Ok(()));
        for i in 0..KNOWN {
            pace.take(&i.to_string(), start + PAUSE).unwrap();
        }
        pace.take("c", start + PAUSE * 3).unwrap();
        assert_eq!(pace.0.lock().unwrap().len(), 1);
    }
}
