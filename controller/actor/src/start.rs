// SPDX-License-Identifier: Apache-2.0
//! From a store to a running controller. First start, restart and restart after a crash use this one path.

use std::path::PathBuf;
use std::sync::Arc;

use canopy_controller_core::command::MAX_WRITES;
use canopy_controller_core::hmac::HmacSettings;
use canopy_controller_core::threshold::ThresholdSettings;
use canopy_controller_core::{Domain, Record, Secret, Shared, Write, assume_open};
use canopy_model::addressing::AddressPlan;
use canopy_store::{Op, RESTORE_GAP, Recovery, Store, StoreError};
use canopy_units::UnixTime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::books::Books;
use crate::change_sets::ChangeSets;
use crate::commit::Commit;
use crate::events::{Code, Events};
use crate::incidents::IncidentState;
use crate::joins::Joins;
use crate::once::Once;
use crate::record::{decode, op};
use crate::task::{self, Task};
use crate::term::{STARTED_KEY, TERM_KEY, start_ops};
use crate::{Controller, RestoreError, StartError};

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

/// Reads the store, takes the next term and spawns the task on the current tokio runtime.
///
/// The term is the store's revision after it was written, or one more than the last term where that is higher: it grows with every
/// start and, since revisions jump forward, with every restore and import. Where the store is older all the same than what agents
/// saw, [`Controller::raise_term`] follows them.
///
/// On a full disk the controller starts with the last term and takes no changes; it takes the next term once the store can be written.
/// A store that is new, or a copy from before the last change, is not started then.
///
/// # Errors
/// The store cannot be read or written, or its records are not a consistent domain.
pub async fn start(store: Arc<dyn Store>, plan: AddressPlan) -> Result<Running, StartError> {
    start_with(store, plan, ThresholdSettings::default(), HmacSettings::default()).await
}

/// [`start`] with the default alpha and K_base, for links without their own, and with what operators want of the SRH HMAC TLV.
///
/// # Errors
/// As [`start`].
pub async fn start_with(
    store: Arc<dyn Store>,
    plan: AddressPlan,
    thresholds: ThresholdSettings,
    hmac: HmacSettings,
) -> Result<Running, StartError> {
    let opened = store.clone();
    let open = move || {
        let domain = open(&*opened, plan, thresholds, hmac)?;
        Ok::<_, StartError>((domain, IncidentState::open(opened.beside()), Events::open(opened.beside())))
    };
    let (opened, incidents, events) = tokio::task::spawn_blocking(open).await.map_err(|_| StartError::Runtime)??;
    let Opened { domain, revision, books, joins, once, commit, change_sets, unstarted, read_only, recovery } = opened;
    let (commands, queue) = mpsc::channel(task::QUEUE);
    let (durable, settled) = watch::channel(0);
    let controller =
        Controller::new(domain, store.clone(), commands, settled, (commit, change_sets), incidents, events);
    if let Some(lost) = recovery {
        controller.events().note(Code::StoreRecovered, None, lost.to_string());
    }
    controller.audit_ends_at(books.next());
    let mut task = Task {
        controller: controller.clone(),
        store,
        revision,
        unstarted,
        durable,
        queue,
        books,
        joins,
        principals: Shared::default(),
        once,
        traced: Vec::new(),
        read_only: None,
        drain_retry: None,
        deletion_retry: None,
        rates: Default::default(),
    };
    controller.keys_are(task.once.len());
    if let Some(path) = read_only {
        task.becomes_read_only(path);
    }
    let (watching, assessing) = (controller.clone(), controller.clone());
    let mut health = tokio::spawn(async move {
        let groups = watching.group_names();
        tokio::join!(watching.watch_health(groups), assessing.assess_waiting())
    });
    let ending = controller.clone();
    let task = tokio::spawn(async move {
        let ended = tokio::select! {
            ended = task.run() => ended,
            // Without it no phase and no problem would be found any more.
            Err(died) = &mut health => std::panic::resume_unwind(died.into_panic()),
        };
        // They hold the store and the files beside it, which the next controller opens.
        health.abort();
        _ = health.await;
        _ = tokio::task::spawn_blocking(move || {
            ending.end_incidents();
            ending.events().end();
        })
        .await;
        ended
    });
    controller.push_thresholds();
    controller.advance_hmac();
    controller.retirements_restored();
    controller.limit_moves(&controller.read(canopy_controller_core::Domain::all_moving));
    Ok(Running { controller, task })
}

struct Opened {
    domain: Domain,
    revision: u64,
    books: Books,
    joins: Joins,
    once: Once,
    commit: Option<Commit>,
    change_sets: ChangeSets,
    /// The last term, if the next one could not be stored on a full disk.
    unstarted: Option<u64>,
    /// The full store.
    read_only: Option<PathBuf>,
    recovery: Option<Recovery>,
}

fn open(
    store: &dyn Store,
    plan: AddressPlan,
    thresholds: ThresholdSettings,
    hmac: HmacSettings,
) -> Result<Opened, StartError> {
    let snapshot = store.scan("").map_err(StartError::Store)?;
    let own = |name: &str| snapshot.entries.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_slice());
    let number = |name: &str| own(name).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u64>().ok());
    let last = number(TERM_KEY).unwrap_or(0);
    let (term, mut ops) = start_ops(snapshot.revision, last);
    let is_copy = number(STARTED_KEY).is_some_and(|at| snapshot.revision.saturating_sub(at) >= RESTORE_GAP);
    let is_new = own(KEY_KEY).is_none();
    // Of a store that was put back, what was given since is not known: it has to leap first.
    let may_wait = !is_new && !is_copy;
    let read_only = match store.ready() {
        Err(StoreError::Full { path }) if may_wait => Some(path),
        _ => None,
    };
    let (term, unstarted) = if read_only.is_some() { (last, Some(last)) } else { (term, None) };
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
    let books = Books::restore(snapshot.entries.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
    let pairs = snapshot.entries.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
    let joins = Joins::restore(pairs.clone());
    let once = Once::restore(pairs.clone());
    let change_sets = ChangeSets::restore(pairs.clone());
    let commit = Commit::restore(pairs, UnixTime::now(), Instant::now())
        .map_err(|(key, source)| StartError::Restore(RestoreError::Record { key, source }))?;
    let mut records = decoded(snapshot.entries).map_err(StartError::Restore)?;
    let opened = if is_copy { assume_open(&mut records) } else { Vec::new() };
    let restored = Domain::restore(plan, thresholds, hmac, Secret::new(key), term, records);
    let mut domain = restored.map_err(|e| StartError::Restore(e.into()))?;
    if is_copy {
        ops.push(op(&Write::Put(domain.leap())));
    }
    // The revision of this start comes last: until it is written, the store is a copy.
    let opened: Vec<Op> = opened.into_iter().map(|record| op(&Write::Put(record))).collect();
    let mut revision = expected;
    for ops in opened.chunks(MAX_WRITES).chain([&ops[..]]).filter(|_| unstarted.is_none()) {
        revision = store.commit(revision, ops).map_err(StartError::Store)?;
    }
    Ok(Opened {
        domain,
        revision,
        books,
        joins,
        once,
        commit,
        change_sets,
        unstarted,
        read_only,
        recovery: store.recovery(),
    })
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
