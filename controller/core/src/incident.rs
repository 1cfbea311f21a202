// SPDX-License-Identifier: Apache-2.0
//! Incidents: each opening of a problem, with the charts of what it is about from 5 min before to 5 min after. They stay when the problem
//! has closed, so that a night can be examined in the morning. Pure: changes of problems, charts and the time in, incidents out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use canopy_units::{Monotonic, UnixTime};
use serde::{Deserialize, Serialize};

use crate::chart::ring::Point;
use crate::chart::series::{ChartObject, Series};
use crate::health::{Change, Problem, ProblemKey};
use crate::problem::Severity;

/// Incidents kept; the oldest makes room.
pub const MAX_INCIDENTS: usize = 200;
/// Seconds of charts before a problem opens, and from then on.
pub const AROUND: u64 = 300;
/// Problems that a root explains and that its incident names, at most.
pub const MAX_AFFECTED: usize = 50;
/// Objects whose charts an incident has, at most.
pub const MAX_OBJECTS: usize = 16;
/// Series of an incident, at most.
pub const MAX_SERIES: usize = 32;
/// Incidents begun within [`STORM`], at most: what happened before a storm is not pushed out by it.
const MAX_IN_STORM: usize = 50;
const STORM: Duration = Duration::from_secs(600);
/// Incidents begun within [`STARTING`] of the controller's start, at most: agents that take their time to connect again are no night to
/// examine, and there are no charts from before.
const MAX_AT_START: usize = 5;
const STARTING: Duration = Duration::from_secs(60);
/// A reading arrives this long after the time that it is about, at most: the charts are read so much later.
const LATE: u64 = 6;
/// Seconds after the opening at which the charts are saved; what a controller has saved outlives it.
const SAVES: [u64; 2] = [AROUND / 2, AROUND + LATE];

/// A problem with its object, as text: an older controller reads what a newer one has written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemName {
    /// Its code.
    pub code: String,
    /// Kind of its object.
    pub kind: String,
    /// Name of its object.
    pub name: String,
}

impl From<&ProblemKey> for ProblemName {
    fn from(key: &ProblemKey) -> Self {
        Self { code: key.code.to_string(), kind: key.object.kind().to_string(), name: key.object.name() }
    }
}

/// One series of an incident.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SavedSeries {
    /// Of what.
    pub object: ChartObject,
    /// What was measured.
    pub series: Series,
    /// One per second; `None` is a gap.
    pub points: Vec<Option<Point>>,
}

/// One opening of a problem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Incident {
    /// Second of its opening since 1970 in ten digits, a hyphen, and the problem's id: in this order they are the order of time.
    pub id: String,
    /// Id of the problem.
    pub problem: String,
    /// What the problem is.
    #[serde(flatten)]
    pub of: ProblemName,
    /// How bad it is, as in the API.
    pub severity: String,
    /// What is wrong; follows the object's name.
    pub title: String,
    /// What was seen when it opened.
    pub evidence: Vec<String>,
    /// When it opened.
    pub opened_unix_ns: UnixTime,
    /// When it closed; `None` while it is open, and if the controller ended before.
    #[serde(default)]
    pub closed_unix_ns: Option<UnixTime>,
    /// How often it opened anew within the time of the charts.
    #[serde(default)]
    pub reopened: u32,
    /// Open problems that explained it when the charts were last saved.
    #[serde(default)]
    pub causes: Vec<ProblemName>,
    /// Problems that it explained then, [`MAX_AFFECTED`] at most.
    #[serde(default)]
    pub affects: Vec<ProblemName>,
    /// Start of the first point of every series; each point is of one second.
    pub start_unix_ns: UnixTime,
    /// Seconds that the charts cover by now.
    #[serde(default)]
    pub seconds: usize,
    /// The charts; all series have as many points.
    #[serde(default)]
    pub series: Vec<SavedSeries>,
}

/// Whether the text can be the id of an incident: digits and lower-case hexadecimal digits only, so it is also a name of a file.
pub fn is_id(text: &str) -> bool {
    let Some((second, problem)) = text.split_once('-') else { return false };
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    second.len() == 10
        && second.bytes().all(|b| b.is_ascii_digit())
        && problem.len() == 16
        && problem.bytes().all(is_hex)
}

/// An incident whose charts are not complete.
#[derive(Clone, Debug)]
struct Running {
    id: String,
    opened: Monotonic,
    /// Of [`SAVES`], how many are done.
    saved: usize,
    objects: Vec<ChartObject>,
    /// Second on the charts' clock from which on points are missing.
    next: u64,
    /// Second at which the charts end.
    end: u64,
}

/// Seconds of the charts' clock whose points an incident wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which incident.
    pub id: String,
    /// Its problem.
    pub key: ProblemKey,
    /// Of which objects.
    pub objects: Vec<ChartObject>,
    /// The first second.
    pub first: u64,
    /// How many of them.
    pub count: usize,
}

/// Incidents of a domain.
#[derive(Clone, Debug, Default)]
pub struct Incidents {
    /// In the order of time.
    kept: BTreeMap<String, Arc<Incident>>,
    running: BTreeMap<ProblemKey, Running>,
    /// Those that are open, and not in `running`.
    open: BTreeMap<ProblemKey, String>,
    recent: Vec<Monotonic>,
    left_out: u64,
}

impl Incidents {
    /// Adds what an earlier controller has kept. Nothing of it is open or incomplete any more.
    pub fn restore(&mut self, kept: impl IntoIterator<Item = Incident>) {
        self.kept.extend(
            kept.into_iter().filter(|i| is_id(&i.id)).map(|incident| (incident.id.clone(), Arc::new(incident))),
        );
    }

    /// Whether a problem that opens now becomes an incident: not an [`Severity::Info`], not one that another problem explains, not one
    /// whose last incident still takes charts, and not one too many at once. `now` is counted from the controller's start.
    pub fn begins(&mut self, problem: &Problem, now: Monotonic) -> bool {
        if problem.key.code.info().severity == Severity::Info || !problem.is_root() {
            return false;
        }
        if let Some(running) = self.running.get(&problem.key) {
            if let Some(incident) = self.kept.get_mut(&running.id).map(Arc::make_mut) {
                incident.reopened += 1;
                incident.closed_unix_ns = None;
            }
            return false;
        }
        self.recent.retain(|at| now.since(*at) < STORM);
        let most = if now.since(Monotonic::START) < STARTING { MAX_AT_START } else { MAX_IN_STORM };
        if self.recent.len() >= most {
            self.left_out += 1;
            return false;
        }
        true
    }

    /// Begins an incident, which is due at once; `second` is now on the charts' clock.
    pub fn begin(&mut self, problem: &Problem, now: Monotonic, second: u64, wall: UnixTime) {
        let info = problem.key.code.info();
        let first = second.saturating_sub(AROUND);
        let incident = Incident {
            id: format!("{:010}-{}", wall.nanos() / 1_000_000_000, problem.key.id()),
            problem: problem.key.id(),
            of: (&problem.key).into(),
            severity: info.severity.to_string(),
            title: info.title.to_owned(),
            evidence: problem.evidence.clone(),
            opened_unix_ns: wall,
            closed_unix_ns: None,
            reopened: 0,
            causes: Vec::new(),
            affects: Vec::new(),
            start_unix_ns: UnixTime::from_nanos(
                (wall.nanos() / 1_000_000_000).saturating_sub(second - first) * 1_000_000_000,
            ),
            seconds: 0,
            series: Vec::new(),
        };
        let id = incident.id.clone();
        self.recent.push(now);
        self.open.remove(&problem.key);
        let running =
            Running { id: id.clone(), opened: now, saved: 0, objects: Vec::new(), next: first, end: second + AROUND };
        self.running.insert(problem.key.clone(), running);
        self.kept.insert(id, Arc::new(incident));
    }

    /// Notes that a problem closed. Returns the incident that is to be written, unless it takes charts: it is written with them.
    pub fn closed(&mut self, change: &Change, wall: UnixTime) -> Option<Arc<Incident>> {
        let running = self.running.get(&change.key).map(|running| running.id.clone());
        let id = running.clone().or_else(|| self.open.remove(&change.key))?;
        let incident = self.kept.get_mut(&id)?;
        Arc::make_mut(incident).closed_unix_ns = Some(wall);
        running.is_none().then(|| incident.clone())
    }

    /// Incidents whose charts are to be saved now, and of which seconds.
    pub fn due(&self, now: Monotonic, second: u64) -> Vec<Wanted> {
        let is_due = |running: &Running| match running.saved.checked_sub(1) {
            None => true,
            Some(done) => SAVES.get(done).is_some_and(|after| now.since(running.opened).as_secs() >= *after),
        };
        self.running.iter().filter(|(_, r)| is_due(r)).map(|(key, r)| r.wanted(key, second)).collect()
    }

    /// All of them, to save what there is before the controller ends.
    pub fn unsaved(&self, second: u64) -> Vec<Wanted> {
        self.running.iter().map(|(key, r)| r.wanted(key, second)).collect()
    }

    /// One of them, to show what there is.
    pub fn unsaved_of(&self, id: &str, second: u64) -> Option<Wanted> {
        let (key, running) = self.running.iter().find(|(_, running)| running.id == id)?;
        Some(running.wanted(key, second))
    }

    /// Adds the points that were wanted, and what the problem explains now if it is open. Returns the incident that is to be written.
    pub fn save(
        &mut self,
        wanted: &Wanted,
        charts: &[(ChartObject, Series, Vec<Option<Point>>)],
        problem: Option<&Problem>,
    ) -> Option<Arc<Incident>> {
        let running = self.running.get_mut(&wanted.key).filter(|running| running.id == wanted.id)?;
        running.next = wanted.first + wanted.count as u64;
        running.saved += 1;
        let is_complete = running.saved > SAVES.len();
        let kept = self.kept.get_mut(&wanted.id)?;
        let incident = Arc::make_mut(kept);
        incident.extend(wanted.count, charts);
        if let Some(problem) = problem {
            incident.causes = problem.causes.iter().map(Into::into).collect();
            incident.affects = problem.affects.iter().take(MAX_AFFECTED).map(Into::into).collect();
        }
        let written = kept.clone();
        if is_complete {
            self.running.remove(&wanted.key);
            if written.closed_unix_ns.is_none() {
                self.open.insert(wanted.key.clone(), wanted.id.clone());
            }
        }
        Some(written)
    }

    /// The objects of an incident that takes charts become these.
    pub fn set_objects(&mut self, key: &ProblemKey, objects: Vec<ChartObject>) {
        if let Some(running) = self.running.get_mut(key) {
            running.objects = objects;
        }
    }

    /// Removes the oldest that are too many.
    pub fn trim(&mut self) -> Vec<String> {
        let mut gone = Vec::new();
        while self.kept.len() > MAX_INCIDENTS
            && let Some((id, _)) = self.kept.pop_first()
        {
            self.running.retain(|_, running| running.id != id);
            self.open.retain(|_, open| *open != id);
            gone.push(id);
        }
        gone
    }

    /// All of them, the newest first.
    pub fn newest(&self) -> impl Iterator<Item = &Arc<Incident>> {
        self.kept.values().rev()
    }

    /// One of them.
    pub fn get(&self, id: &str) -> Option<Arc<Incident>> {
        self.kept.get(id).cloned()
    }

    /// Openings of problems that were not kept because there were too many at once.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Running {
    fn wanted(&self, key: &ProblemKey, second: u64) -> Wanted {
        // What is later may still be measured.
        let to = second.saturating_sub(LATE).clamp(self.next, self.end.max(self.next));
        Wanted {
            id: self.id.clone(),
            key: key.clone(),
            objects: self.objects.clone(),
            first: self.next,
            count: (to - self.next) as usize,
        }
    }
}

impl Incident {
    /// Adds `count` points to every series; one that is not among `charts` gets gaps, and one that is new begins with gaps.
    pub fn extend(&mut self, count: usize, charts: &[(ChartObject, Series, Vec<Option<Point>>)]) {
        for (object, series, points) in charts {
            let known = self.series.iter().position(|s| s.object == *object && s.series == *series);
            let at = match known {
                Some(at) => at,
                None if self.series.len() < MAX_SERIES && points.iter().any(Option::is_some) => {
                    let points = vec![None; self.seconds];
                    self.series.push(SavedSeries { object: object.clone(), series: *series, points });
                    self.series.len() - 1
                }
                None => continue,
            };
            self.series[at].points.extend(points.iter().take(count));
        }
        self.seconds += count;
        for series in &mut self.series {
            series.points.resize(self.seconds, None);
        }
    }
}

#[cfg(test)]
mod tests;
