// SPDX-License-Identifier: Apache-2.0
//! From a store to a running controller. First start, restart and restart after a crash use this one path.

use std::sync::Arc;

use canopy_controller_core::command::MAX_WRITES;
use canopy_controller_core::threshold::ThresholdSettings;
use canopy_controller_core::{Domain, Record, Secret, Write, assume_open};
use canopy_model::addressing::AddressPlan;
use canopy_store::{Op, RESTORE_GAP, Store, StoreError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::record::{decode, op};
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

/// The record of the key of the domain's unguessable numbers: 64 hexadecimal digits, drawn at the first start. Part of every backup,
/// since numbers that were given must not be given again after a restore.
const KEY_KEY: &str = "controller/key";

/// The record of the store's revision at the last start: a restore or an import is behind it by [`RESTORE_GAP`] and more.
const STARTED_KEY: &str = "controller/started";

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
    controller.limit_moves(&controller.read(canopy_controller_core::Domain::all_moving));
    Ok(Running { controller, task })
}

fn open(store: &dyn Store, plan: AddressPlan, thresholds: ThresholdSettings) -> Result<(Domain, u64), StartError> {
    let snapshot = store.scan("").map_err(StartError::Store)?;
    let own = |name: &str| snapshot.entries.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice());
    let number = |name: &str| own(name).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let last = number(TERM_KEY).unwrap_or(0);
    let term = (snapshot.revision + 1).max(last + 1);
    let is_copy = number(STARTED_KEY).is_some_and(|at| snapshot.revision.saturating_sub(at) >= RESTORE_GAP);
    let digits = |number: u64| number.to_string().into_bytes();
    let mut ops = vec![
        Op::Put { key: TERM_KEY.into(), value: digits(term) },
        Op::Put { key: STARTED_KEY.into(), value: digits(snapshot.revision) },
    ];
    let key = match own(KEY_KEY) {
        Some(digits) => key_from(digits).ok_or(StartError::Key)?,
        None => {
            let mut drawn = [0; 32];
            getrandom::fill(&mut drawn).map_err(StartError::Random)?;
            ops.push(Op::Put { key: KEY_KEY.into(), value: hex::encode(drawn).into_bytes() });
            drawn
        }
    };
    // Restored before anything is written: a store whose records are not consistent is left unchanged.
    let expected = snapshot.revision;
    let mut records = decoded(snapshot.entries).map_err(StartError::Restore)?;
    let opened = if is_copy { assume_open(&mut records) } else { Vec::new() };
    let restored = Domain::restore(plan, thresholds, Secret::new(key), term, records);
    let mut domain = restored.map_err(|e| StartError::Restore(e.into()))?;
    if is_copy {
        ops.push(op(&Write::Put(domain.leap())));
    }
    // The revision of this start comes last: until it is written, the store is a copy.
    let opened: Vec<Op> = opened.into_iter().map(|record| op(&Write::Put(record))).collect();
    let mut revision = expected;
    for ops in opened.chunks(MAX_WRITES).chain([&ops[..]]) {
        revision = store.commit(revision, ops).map_err(StartError::Store)?;
    }
    Ok((domain, revision))
}

fn key_from(digits: &[u8]) -> Option<[u8; 32]> {
    hex::decode(digits).ok()?.try_into().ok()
}

fn decoded(entries: Vec<(String, Vec<u8>)>) -> Result<Vec<(String, Record)>, RestoreError> {
    let mut records: Vec<(String, Record)> = Vec::with_capacity(entries.len());
    for (key, value) in entries.into_iter().filter(|(key, _)| !key.starts_with(OWN_PREFIX)) {
        if let Some(record) = decode(&key, &value)? {
            records.push((key, record));
        }
    }
    Ok(records)
}
