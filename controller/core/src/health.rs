// SPDX-License-Identifier: Apache-2.0
//! Problems from symptoms: what is open, since when, and what caused it. Pure: symptoms of one subject and the time in, problems out.
//!
//! A *subject* is what was assessed: a node, a group, the controller. Its symptoms replace those that it had before, so work is
//! proportional to what changed. Two subjects may have symptoms of one problem: both ends of a link.
//!
//! ```text
//!                    opens_after                 no symptom                 closes_after
//! symptom -> Pending -----------> Open --------------------------> Closing -------------> forgotten
//!               | no symptom       ^------------------------------- | symptom: the same problem, counted once more
//!               v
//!            forgotten
//! ```
//!
//! A symptom names the problems that cause it by fixed rules. Those of them that are open are its causes; a problem without one is a
//! *root*. Only roots are shown first: the others count under them.

use std::collections::{BTreeMap, BTreeSet};

use canopy_units::{Monotonic, UnixTime};

use crate::problem::{Object, ProblemCode};
use crate::uid::Uid;
use crate::view::SilenceView;

/// Problems kept, at most; what is beyond is counted in [`Health::left_out`].
pub const MAX_PROBLEMS: usize = 20_000;

/// What a problem is: two with the same key are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProblemKey {
    /// What is wrong.
    pub code: ProblemCode,
    /// With what.
    pub object: Object,
}

impl ProblemKey {
    /// A key.
    pub fn new(code: ProblemCode, object: Object) -> Self {
        Self { code, object }
    }

    /// 16 hexadecimal digits that name the problem: the same through flaps, and after a restart of the controller.
    pub fn id(&self) -> String {
        // FNV-1a. An operator's names are in it, so a collision can be made on purpose, and then confuses its maker.
        let text = format!("{}\0{}\0{}", self.code, self.object.kind(), self.object.name());
        let hash = text
            .bytes()
            .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        format!("{hash:016x}")
    }
}

/// What was assessed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The controller itself.
    Controller,
    /// A node with its ports and links.
    Node(String),
    /// A group with its members.
    Group(String),
}

/// One sign of a problem, as one subject shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symptom {
    /// The problem.
    pub key: ProblemKey,
    /// What was seen and where, for operators.
    pub evidence: String,
    /// Problems that would explain it.
    pub causes: Vec<ProblemKey>,
    /// Which group of its name it is about, itself or one of its members.
    pub group: Option<Uid>,
}

/// How far a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It opens at this time.
    Pending(Monotonic),
    Open,
    /// It is forgotten at this time.
    Closing(Monotonic),
}

#[derive(Clone, Debug)]
struct Known {
    stage: Stage,
    /// When its first symptom was seen.
    since: Monotonic,
    began: UnixTime,
    group: Option<Uid>,
    /// How often its symptoms began.
    count: u64,
    reports: BTreeMap<Subject, Report>,
    /// The last evidence, while there is no symptom any more.
    last: Vec<String>,
}

impl Known {
    fn is_open(&self) -> bool {
        !matches!(self.stage, Stage::Pending(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    evidence: String,
    causes: Vec<ProblemKey>,
}

/// A problem that is open, or closing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What it is.
    pub key: ProblemKey,
    /// When its first symptom was seen.
    pub since: Monotonic,
    /// The same, on the wall clock of then.
    pub began: UnixTime,
    /// Which group of its name it is about, itself or one of its members.
    pub group: Option<Uid>,
    /// How often its symptoms began since then.
    pub count: u64,
    /// No symptom is seen at present.
    pub closing: bool,
    /// What was seen and where.
    pub evidence: Vec<String>,
    /// Open problems that explain it; empty for a root.
    pub causes: Vec<ProblemKey>,
    /// Problems that it explains, directly or through others; only for a root.
    pub affects: Vec<ProblemKey>,
    /// The silence that is in force for it, where the domain's are known.
    pub silence: Option<SilenceView>,
}

impl Problem {
    /// Whether no other open problem explains it.
    pub fn is_root(&self) -> bool {
        self.causes.is_empty()
    }
}

/// A problem that opened or closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What it is.
    pub key: ProblemKey,
    /// True if it is open now.
    pub is_open: bool,
    /// See [`Problem::group`].
    pub group: Option<Uid>,
    /// What was seen, for operators.
    pub evidence: String,
}

/// All problems of a domain.
#[derive(Clone, Debug, Default)]
pub struct Health {
    known: BTreeMap<ProblemKey, Known>,
    /// Problems of which a subject has symptoms.
    by_subject: BTreeMap<Subject, BTreeSet<ProblemKey>>,
    timers: BTreeSet<(Monotonic, ProblemKey)>,
    left_out: u64,
    changes: Vec<Change>,
    version: u64,
}

impl Health {
    /// Replaces the symptoms of `subject`; none are symptoms of a subject that no longer exists.
    pub fn observe(&mut self, subject: &Subject, symptoms: Vec<Symptom>, now: Monotonic, wall: UnixTime) {
        let before = self.by_subject.remove(subject).unwrap_or_default();
        let mut seen = BTreeSet::new();
        for Symptom { key, evidence, causes, group } in symptoms {
            // The first symptom of a problem is the one that counts.
            if seen.contains(&key) {
                continue;
            }
            if self.begin(&key, group, now, wall) {
                let report = Report { evidence, causes };
                if let Some(known) = self.known.get_mut(&key)
                    && known.reports.get(subject) != Some(&report)
                {
                    known.reports.insert(subject.clone(), report);
                    self.version += 1;
                }
                seen.insert(key);
            }
        }
        for key in before.difference(&seen) {
            self.end(key, subject, now);
        }
        if !seen.is_empty() {
            self.by_subject.insert(subject.clone(), seen);
        }
        self.handle_timeout(now);
    }

    /// Opens and forgets what is due.
    pub fn handle_timeout(&mut self, now: Monotonic) {
        while let Some((at, _)) = self.timers.first()
            && *at <= now
            && let Some((_, key)) = self.timers.pop_first()
        {
            let Some(known) = self.known.get_mut(&key) else { continue };
            self.version += 1;
            match known.stage {
                Stage::Pending(at) if at <= now => {
                    known.stage = Stage::Open;
                    let evidence = known.reports.values().next().map(|r| r.evidence.clone()).unwrap_or_default();
                    let group = known.group;
                    self.changes.push(Change { key, is_open: true, group, evidence });
                }
                Stage::Closing(at) if at <= now => {
                    self.forget(&key);
                }
                // A timer of an earlier stage.
                Stage::Pending(_) | Stage::Open | Stage::Closing(_) => {}
            }
        }
    }

    /// When to call [`Health::handle_timeout`] next; `None`: not before something is observed.
    pub fn poll_timeout(&self) -> Option<Monotonic> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// What opened and closed since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// A number that grows whenever [`Health::problems`] may return something else.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Symptoms that were not kept because there were [`MAX_PROBLEMS`] already.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// What is open or closing, without causes and effects.
    pub fn open(&self) -> impl Iterator<Item = &ProblemKey> {
        self.known.iter().filter(|(_, known)| known.is_open()).map(|(key, _)| key)
    }

    /// Every problem that is open or closing: roots first, the worst first, then the oldest. Takes as long as there are problems.
    pub fn problems(&self) -> Vec<Problem> {
        let is_open = |key: &ProblemKey| self.known.get(key).is_some_and(Known::is_open);
        let causes_of = |known: &Known| -> Vec<ProblemKey> {
            let all: BTreeSet<&ProblemKey> = known.reports.values().flat_map(|r| &r.causes).collect();
            all.into_iter().filter(|key| is_open(key)).cloned().collect()
        };
        let open = self.known.iter().filter(|(_, known)| known.is_open());
        let mut problems: BTreeMap<ProblemKey, Problem> = open
            .map(|(key, known)| {
                let evidence = match known.reports.is_empty() {
                    true => known.last.clone(),
                    false => known.reports.values().map(|r| r.evidence.clone()).collect(),
                };
                let problem = Problem {
                    key: key.clone(),
                    since: known.since,
                    began: known.began,
                    group: known.group,
                    count: known.count,
                    closing: known.reports.is_empty(),
                    evidence,
                    causes: causes_of(known).into_iter().filter(|cause| cause != key).collect(),
                    affects: Vec::new(),
                    silence: None,
                };
                (key.clone(), problem)
            })
            .collect();
        for (root, affected) in affected_by_roots(&problems) {
            if let Some(problem) = problems.get_mut(&root) {
                problem.affects = affected;
            }
        }
        let mut all: Vec<Problem> = problems.into_values().collect();
        all.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.key.cmp(&b.key)));
        all
    }

    /// Notes a symptom of the problem; false if there is no room for it. One of another group that has the name now is another problem.
    fn begin(&mut self, key: &ProblemKey, group: Option<Uid>, now: Monotonic, began: UnixTime) -> bool {
        if self.known.get(key).is_some_and(|known| known.group != group) {
            self.forget(key);
        }
        if let Some(known) = self.known.get_mut(key) {
            if let Stage::Closing(_) = known.stage {
                known.stage = Stage::Open;
                known.count += 1;
            }
            return true;
        }
        if self.known.len() >= MAX_PROBLEMS {
            self.left_out += 1;
            return false;
        }
        let opens = now + key.code.info().opens_after;
        let known = Known {
            stage: Stage::Pending(opens),
            since: now,
            began,
            group,
            count: 1,
            reports: BTreeMap::new(),
            last: Vec::new(),
        };
        self.known.insert(key.clone(), known);
        self.timers.insert((opens, key.clone()));
        true
    }

    /// Forgets a problem, which has closed by that if it was open.
    fn forget(&mut self, key: &ProblemKey) {
        let Some(known) = self.known.remove(key).filter(Known::is_open) else { return };
        let report = known.reports.into_values().next().map(|report| report.evidence);
        let evidence = known.last.into_iter().next().or(report).unwrap_or_default();
        self.changes.push(Change { key: key.clone(), is_open: false, group: known.group, evidence });
        self.version += 1;
    }

    fn end(&mut self, key: &ProblemKey, subject: &Subject, now: Monotonic) {
        let Some(known) = self.known.get_mut(key) else { return };
        let report = known.reports.remove(subject);
        self.version += 1;
        if !known.reports.is_empty() {
            return;
        }
        match known.stage {
            Stage::Pending(at) => {
                self.timers.remove(&(at, key.clone()));
                self.known.remove(key);
            }
            Stage::Open => {
                let closes = now + key.code.info().closes_after;
                known.stage = Stage::Closing(closes);
                known.last = report.into_iter().map(|r| r.evidence).collect();
                self.timers.insert((closes, key.clone()));
            }
            Stage::Closing(_) => {}
        }
    }
}

/// Sorts roots first, then by severity and age.
fn order(problem: &Problem) -> impl Ord + use<> {
    (!problem.is_root(), problem.key.code.info().severity, problem.since)
}

/// What every root explains. A circle of causes, which the rules do not make, would leave its problems under no root.
fn affected_by_roots(problems: &BTreeMap<ProblemKey, Problem>) -> Vec<(ProblemKey, Vec<ProblemKey>)> {
    let mut explains: BTreeMap<&ProblemKey, Vec<&ProblemKey>> = BTreeMap::new();
    for problem in problems.values() {
        for cause in &problem.causes {
            explains.entry(cause).or_default().push(&problem.key);
        }
    }
    let below = |root: &ProblemKey| {
        let (mut found, mut next) = (BTreeSet::new(), vec![root]);
        while let Some(key) = next.pop() {
            for affected in explains.get(key).into_iter().flatten() {
                if found.insert((*affected).clone()) {
                    next.push(affected);
                }
            }
        }
        found.into_iter().collect()
    };
    problems.values().filter(|p| p.is_root()).map(|p| (p.key.clone(), below(&p.key))).collect()
}

#[cfg(test)]
mod tests;
