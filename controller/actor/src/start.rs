// SPDX-License-Identifier: Apache-2.0
//! From a store to a running controller. First start, restart and restart after a crash use this one path.

use std::sync::Arc;

use canopy_controller_core::threshold::ThresholdSettings;
use canopy_controller_core::{Domain, Record};
use canopy_model::addressing::AddressPlan;
use canopy_store::{Op, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::record::decode;
use crate::task::TERM_KEY;
use crate::{Controller, RestoreError, StartError, task};

/// Prefix of the controller's own records; all others belong to the domain.
const OWN_PREFIX: &str = "controller/";

/// A controller and its task.
pub struct Running {
    /// The handle.
    pub controller: Controller,
    /// Ends with `Ok` after [`Controller::stop`], with an error when the store failed.
    pub task: JoinHandle<Result<(), StoreError>>,
}

/// Reads the store, takes the next term and spawns the task on the current tokio runtime.
///
/// The term is the store's revision after it was written, or one more than the last term where that is higher: it grows with every
/// start and, since revisions jump forward, with every restore and import. Where the store is older all the same than what agents
/// saw, [`Controller::raise_term`] follows them.
///
/// # Errors
/// The store cannot be read or written, or its records are not a consistent domain.
pub async fn start(store: Arc<dyn Store>, plan: AddressPlan) -> Result<Running, StartError> {
    start_with(store, plan, ThresholdSettings::default()).await
}

/// [`start`] with the default alpha and K_base, for links without their own.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    store: Arc<dyn Store>,
    plan: AddressPlan,
    thresholds: ThresholdSettings,
) -> Result<Running, StartError> {
    let opened = store.clone();
    let (domain, revision) = tokio::task::spawn_blocking(move || open(&*opened, plan, thresholds))
        .await
        .map_err(|_| StartError::Runtime)??;
    let (commands, queue) = mpsc::channel(task::QUEUE);
    let controller = Controller::new(domain, store.clone(), commands);
    let task = tokio::spawn(task::run(controller.clone(), store, revision, queue));
    controller.push_thresholds();
    Ok(Running { controller, task })
}

fn open(store: &dyn Store, plan: AddressPlan, thresholds: ThresholdSettings) -> Result<(Domain, u64), StartError> {
    let snapshot = store.scan("").map_err(StartError::Store)?;
    let last = snapshot.entries.iter().find(|(key, _)| key == TERM_KEY);
    let last = last.and_then(|(_, term)| std::str::from_utf8(term).ok()?.parse::<u64>().ok()).unwrap_or(0);
    let term = (snapshot.revision + 1).max(last + 1);
    // Restored before the term is written: a store whose records are not consistent is left unchanged.
    let expected = snapshot.revision;
    let domain = restore(plan, thresholds, term, snapshot.entries).map_err(StartError::Restore)?;
    let put = Op::Put { key: TERM_KEY.into(), value: term.to_string().into_bytes() };
    let revision = store.commit(expected, &[put]).map_err(StartError::Store)?;
    Ok((domain, revision))
}

fn restore(
    plan: AddressPlan,
    thresholds: ThresholdSettings,
    term: u64,
    entries: Vec<(String, Vec<u8>)>,
) -> Result<Domain, RestoreError> {
    let mut records: Vec<(String, Record)> = Vec::with_capacity(entries.len());
    for (key, value) in entries.into_iter().filter(|(key, _)| !key.starts_with(OWN_PREFIX)) {
        if let Some(record) = decode(&key, &value)? {
            records.push((key, record));
        }
    }
    Ok(Domain::restore(plan, thresholds, term, records)?)
}
