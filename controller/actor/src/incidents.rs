// SPDX-License-Identifier: Apache-2.0
//! Incidents: each opening of a problem with the charts around it, in memory and in files beside the store, which is never asked for it.
//!
//! Locks are taken in this order: incidents, charts, domain. A thread of its own writes the files, so a disk that hangs delays nothing.

use std::collections::HashMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use canopy_controller_core::chart::ring::Point;
use canopy_controller_core::chart::series::{ChartObject, Series};
use canopy_controller_core::chart::store::{Charts, seconds};
use canopy_controller_core::health::{Change, Problem, ProblemKey};
use canopy_controller_core::incident::{Incident, Incidents, MAX_OBJECTS, Wanted};
use canopy_controller_core::problem::Object;
use canopy_store::{Files, StoreError};
use canopy_units::{Monotonic, UnixTime};

use crate::Controller;

/// Directory of the files, beside the store.
const DIR: &str = "incidents";
/// Files that wait for the disk, at most.
const QUEUE: usize = 64;

/// Everything about incidents that the controller keeps.
pub(crate) struct IncidentState {
    incidents: Mutex<Incidents>,
    writer: Mutex<Option<Writer>>,
    /// Writes that failed, or that were left out because the disk is full or too slow.
    unsaved: Arc<AtomicU64>,
}

enum Write {
    Put(Arc<Incident>),
    Remove(String),
}

struct Writer {
    queue: SyncSender<Write>,
    thread: JoinHandle<()>,
}

impl IncidentState {
    /// What is kept beside the store; `None` keeps it in memory only. Blocks on the disk.
    pub(crate) fn open(store: Option<&std::path::Path>) -> Self {
        let mut incidents = Incidents::default();
        let unsaved = Arc::new(AtomicU64::new(0));
        let opened = store.map(|path| Files::open(path.join(DIR)));
        let writer = match opened {
            None => None,
            Some(Err(error)) => {
                tracing::error!(%error, "cannot keep incidents: they are lost when the controller ends");
                None
            }
            Some(Ok(files)) => {
                incidents.restore(files.all().iter().filter_map(|(name, content)| read(name, content)));
                for gone in incidents.trim() {
                    remove(&files, &gone);
                }
                Writer::new(files, unsaved.clone())
            }
        };
        Self { incidents: Mutex::new(incidents), writer: Mutex::new(writer), unsaved }
    }

    fn lock(&self) -> MutexGuard<'_, Incidents> {
        self.incidents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, write: Write) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.as_ref().is_some_and(|writer| writer.queue.try_send(write).is_err()) {
            self.unsaved.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what is written is written, and writes nothing more.
    fn end(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Writer { queue, thread }) = writer {
            drop(queue);
            _ = thread.join();
        }
    }
}

impl Writer {
    fn new(files: Files, unsaved: Arc<AtomicU64>) -> Option<Self> {
        let (queue, writes) = mpsc::sync_channel(QUEUE);
        let run = move || {
            for write in writes {
                match write {
                    Write::Remove(id) => remove(&files, &id),
                    Write::Put(incident) => {
                        if let Err(error) = put(&files, &incident) {
                            unsaved.fetch_add(1, Ordering::Relaxed);
                            tracing::warn!(incident = incident.id, %error, "cannot write an incident: it is lost when the controller ends");
                        }
                    }
                }
            }
        };
        let spawned = std::thread::Builder::new().name("incidents".to_owned()).spawn(run);
        let thread = spawned.inspect_err(|error| tracing::error!(%error, "cannot keep incidents: no thread"));
        Some(Self { queue, thread: thread.ok()? })
    }
}

fn read(name: &str, content: &[u8]) -> Option<Incident> {
    match serde_json::from_slice::<Incident>(content) {
        Ok(incident) if incident.id == name => Some(incident),
        Ok(_) => {
            tracing::warn!(file = name, "a file of an incident has another name than it: it is left out");
            None
        }
        Err(error) => {
            tracing::warn!(file = name, %error, "a file of an incident is damaged, or of a newer controller: it is left out");
            None
        }
    }
}

fn put(files: &Files, incident: &Incident) -> Result<(), StoreError> {
    // A map with string keys and finite numbers: nothing of it can fail.
    let content = serde_json::to_vec(incident).unwrap_or_default();
    files.put(&incident.id, &content)
}

fn remove(files: &Files, id: &str) {
    if let Err(error) = files.remove(id) {
        tracing::warn!(incident = id, %error, "cannot remove an incident that is too old: it is tried again at the next start");
    }
}

impl Controller {
    /// Incidents, the newest first.
    pub fn incidents(&self) -> Vec<Arc<Incident>> {
        self.incident_state().lock().newest().cloned().collect()
    }

    /// One incident with its charts up to now.
    pub fn incident(&self, id: &str) -> Option<Arc<Incident>> {
        let incidents = self.incident_state().lock();
        let mut incident = incidents.get(id)?;
        if let Some(mut wanted) = incidents.unsaved_of(id, self.chart_second()) {
            // What has been measured for the first time since it opened is shown as well.
            wanted.objects = self.objects_of(&wanted.key, &wanted.objects, &[]);
            Arc::make_mut(&mut incident).extend(wanted.count, &self.points(&wanted));
        }
        Some(incident)
    }

    /// Openings of problems that are no incident because there were too many at once.
    pub fn incidents_left_out(&self) -> u64 {
        self.incident_state().lock().left_out()
    }

    /// Writes of incidents that failed, or that a full or slow disk did not get.
    pub fn incidents_unsaved(&self) -> u64 {
        self.incident_state().unsaved.load(Ordering::Relaxed)
    }

    /// Begins and ends incidents with the problems that changed, and saves the charts that are due.
    pub(crate) fn note_incidents(&self, changes: &[Change], now: Monotonic) {
        let (second, wall) = (self.chart_second(), UnixTime::now());
        let is_due = !self.incident_state().lock().due(now, second).is_empty();
        if changes.is_empty() && !is_due {
            return;
        }
        // As long as there are problems: only when one opened, or twice for an incident.
        let is_wanted = is_due || changes.iter().any(|change| change.is_open);
        let problems = if is_wanted { self.problems() } else { Arc::default() };
        let by_key: HashMap<&ProblemKey, &Problem> = problems.iter().map(|problem| (&problem.key, problem)).collect();
        let problem_of = |key: &ProblemKey| by_key.get(key).copied();
        let mut incidents = self.incident_state().lock();
        for change in changes {
            let Some(problem) = change.is_open.then(|| problem_of(&change.key)).flatten() else {
                incidents.closed(change, wall).into_iter().for_each(|incident| self.keep(incident));
                continue;
            };
            if incidents.begins(problem, now) {
                incidents.begin(problem, now, second, wall);
            }
        }
        for mut wanted in incidents.due(now, second) {
            let problem = problem_of(&wanted.key);
            let affects = problem.map(|problem| problem.affects.as_slice()).unwrap_or_default();
            wanted.objects = self.objects_of(&wanted.key, &wanted.objects, affects);
            incidents.set_objects(&wanted.key, wanted.objects.clone());
            let saved = incidents.save(&wanted, &self.points(&wanted), problem);
            saved.into_iter().for_each(|incident| self.keep(incident));
        }
        for gone in incidents.trim() {
            self.incident_state().write(Write::Remove(gone));
        }
    }

    /// Saves what there is, before the controller ends. Blocks on the disk.
    pub(crate) fn end_incidents(&self) {
        let mut incidents = self.incident_state().lock();
        for wanted in incidents.unsaved(self.chart_second()) {
            let saved = incidents.save(&wanted, &self.points(&wanted), None);
            saved.into_iter().for_each(|incident| self.keep(incident));
        }
        self.incident_state().end();
    }

    fn keep(&self, incident: Arc<Incident>) {
        match self.why_read_only() {
            // The space is for the store.
            Some(_) => _ = self.incident_state().unsaved.fetch_add(1, Ordering::Relaxed),
            None => self.incident_state().write(Write::Put(incident)),
        }
    }

    fn points(&self, wanted: &Wanted) -> Vec<(ChartObject, Series, Vec<Option<Point>>)> {
        self.with_charts(|charts| {
            let of = |object: &ChartObject| {
                let all = charts.charts(object, None, seconds(wanted.first, wanted.count));
                let object = object.clone();
                all.into_iter().map(move |chart| (object.clone(), chart.series, chart.points))
            };
            wanted.objects.iter().flat_map(of).collect()
        })
    }

    /// What the charts of a problem are of: its own object first, what they are of already, then what it explains.
    fn objects_of(&self, key: &ProblemKey, known: &[ChartObject], affects: &[ProblemKey]) -> Vec<ChartObject> {
        let mut all = self.with_charts(|charts| self.objects_with(&key.object, charts));
        let mut add = |objects: &[ChartObject]| {
            for object in objects {
                if all.len() < MAX_OBJECTS && !all.contains(object) {
                    all.push(object.clone());
                }
            }
            all.len() >= MAX_OBJECTS
        };
        let mut is_full = add(known);
        for affected in affects {
            if is_full {
                break;
            }
            is_full = add(&self.with_charts(|charts| self.objects_with(&affected.object, charts)));
        }
        all.truncate(MAX_OBJECTS);
        all
    }

    fn chart_second(&self) -> u64 {
        self.chart_now().nanos() / 1_000_000_000
    }

    /// What shows the state of `object`.
    fn objects_with(&self, object: &Object, charts: &Charts) -> Vec<ChartObject> {
        let group_of = |name: &str| ChartObject::Group(name.to_owned());
        match object {
            Object::Controller => vec![ChartObject::Fleet],
            Object::Node(node) => {
                let first = ChartObject::Link { node: node.clone(), port: String::new() };
                let is_of_node = |o: &ChartObject| matches!(o, ChartObject::Link { node: n, .. } if n == node);
                let links = charts.objects(first, MAX_OBJECTS, is_of_node);
                std::iter::once(ChartObject::Node(node.clone())).chain(links).collect()
            }
            Object::Link(ends) => ends.split("--").filter_map(sending).collect(),
            Object::Port(port) => sending(port).into_iter().collect(),
            Object::Group(group) => {
                let (node, address) = (String::new(), Ipv6Addr::UNSPECIFIED);
                let first = ChartObject::Branch { group: group.clone(), node, address };
                let is_of_group = |o: &ChartObject| matches!(o, ChartObject::Branch { group: g, .. } if g == group);
                let branches = charts.objects(first, MAX_OBJECTS, is_of_group);
                std::iter::once(group_of(group)).chain(branches).collect()
            }
            Object::Member { group, host } => {
                let member = self.read(|d| d.member(group, host)).map(|member| member.status);
                let branch =
                    member.map(|m| ChartObject::Branch { group: group.clone(), node: m.node, address: m.address });
                branch.into_iter().chain([group_of(group)]).collect()
            }
        }
    }
}

/// The link direction that begins at a port, `n1/eth1`.
fn sending(port: &str) -> Option<ChartObject> {
    let (node, port) = port.split_once('/')?;
    Some(ChartObject::Link { node: node.to_owned(), port: port.to_owned() })
}
