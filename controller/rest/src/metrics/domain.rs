// SPDX-License-Identifier: Apache-2.0
//! One scrape of the controller: itself, its store, changes, groups by phase and problems, then nodes and links.

use std::time::Duration;

use canopy_controller_actor::Controller;
use canopy_controller_actor::commit::Commit;
use canopy_controller_core::confirmations::{BOUNDS, Confirmations, Exemplar as Confirmed};
use canopy_controller_core::health::ProblemKey;
use canopy_controller_core::tenant::Scope;
use canopy_metrics::{Description, Exemplar, Family, Kind, Page, Source};

use super::{charts, limits, links, nodes, tenants};

/// Root problems in one scrape, at most.
const MAX_PROBLEMS: usize = 1000;

pub(super) static LEFT_OUT: Family<0> =
    Family::gauge("canopy_controller_series_left_out", "Series beyond the 50,000 that one scrape shows.", []);
static BUILD: Family<1> = Family::new(Kind::Info, "canopy_controller_build", "Version of the controller.", ["version"]);
static TERM: Family<0> = Family::gauge("canopy_controller_term", "Term that this controller took at its start.", []);
static REVISION: Family<0> =
    Family::gauge("canopy_controller_domain_revision", "Commands that changed the domain since the start.", []);
static WRITABLE: Family<0> = Family::gauge(
    "canopy_store_writable",
    "1 while the store takes changes; 0 on a full disk, or when it has failed.",
    [],
);
static LOST: Family<0> = Family::gauge(
    "canopy_store_lost_commits",
    "1 from the start that found acknowledged commits missing until an operator has taken note.",
    [],
);
static PENDING_COMMITS: Family<0> =
    Family::gauge("canopy_commit_pending", "Confirmed commits that wait to be confirmed, at most 1.", []);
static COMMIT_TIME: Family<0> = Family::gauge(
    "canopy_commit_rollback_seconds",
    "Time until the pending commit is rolled back unless it is confirmed; absent while none is pending.",
    [],
);
static CONFIRMED: Family<0> = Family::new(
    Kind::Histogram,
    "canopy_intent_to_kernel_seconds",
    "Time from the arrival of a change until every node that it concerns has reconciled it, with or without errors.",
    [],
);
static WAITING: Family<0> =
    Family::gauge("canopy_intent_unconfirmed_changes", "Changes that a node has not confirmed yet.", []);
static UNMEASURED: Family<0> = Family::counter(
    "canopy_intent_unmeasured_changes",
    "Changes without a time: a node has left meanwhile, or too many waited.",
    [],
);
static SPANS_LEFT_OUT: Family<0> = Family::counter(
    "canopy_trace_spans_left_out",
    "Spans of traced requests that `traces.endpoint` did not take in time.",
    [],
);
static LINES_LEFT_OUT: Family<0> = Family::counter(
    "canopy_controller_log_lines_left_out",
    "Log lines that `log.endpoint` of the controller did not take in time; standard error has them.",
    [],
);
static KEYS: Family<0> = Family::gauge(
    "canopy_idempotency_keys",
    "Keys of writes that are kept so that a write can be sent again, at most 100,000 and 24 h.",
    [],
);
static REPLAYED: Family<0> = Family::counter(
    "canopy_writes_replayed",
    "Writes that were sent again with their key since the start, and were not carried out again.",
    [],
);
static EVENTS_SUPPRESSED: Family<0> = Family::counter(
    "canopy_events_suppressed",
    "Events that were left out since the start because there were too many of their code and node.",
    [],
);
static EVENTS_UNSAVED: Family<0> = Family::counter(
    "canopy_events_unsaved",
    "Events since the start that are not in the journal, because the disk is full or too slow.",
    [],
);
static ASSESSMENTS: Family<1> = Family::gauge(
    "canopy_assessments_waiting",
    "Groups and nodes of which so many changed at once that their phases and problems are assessed later. Some in a burst of changes; if they stay for more than a minute, the controller has too little processor time.",
    ["kind"],
);
static GROUPS: Family<1> = Family::gauge("canopy_groups", "Groups in each phase.", ["phase"]);
static ACTIVE: Family<4> = Family::gauge(
    "canopy_problem_active",
    "1 for each problem that no other one explains; 0 while an operator knows of it, by a silence.",
    ["code", "severity", "kind", "object"],
);
static AFFECTED: Family<4> = Family::gauge(
    "canopy_problem_affected",
    "Problems that this one explains.",
    ["code", "severity", "kind", "object"],
);
static PROBLEMS_LEFT_OUT: Family<0> = Family::gauge(
    "canopy_controller_problems_left_out",
    "Root problems beyond what one scrape shows, and symptoms that were not kept.",
    [],
);

pub(super) fn families() -> Vec<Description> {
    let own = [
        &LEFT_OUT,
        &TERM,
        &REVISION,
        &WRITABLE,
        &LOST,
        &CONFIRMED,
        &WAITING,
        &UNMEASURED,
        &PROBLEMS_LEFT_OUT,
        &SPANS_LEFT_OUT,
        &LINES_LEFT_OUT,
        &KEYS,
        &REPLAYED,
        &EVENTS_SUPPRESSED,
        &EVENTS_UNSAVED,
    ];
    let mut all: Vec<_> = own.iter().map(|family| family.describe()).collect();
    all.extend([PENDING_COMMITS.describe(), COMMIT_TIME.describe()]);
    all.extend([BUILD.describe(), ASSESSMENTS.describe(), GROUPS.describe(), ACTIVE.describe(), AFFECTED.describe()]);
    all
}

pub(super) struct Scrape {
    pub(super) controller: Controller,
    /// The store takes changes.
    pub(super) writable: bool,
}

impl Source for Scrape {
    fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
        self.controller(page)?;
        self.changes(page)?;
        self.problems(page)?;
        charts::write(&self.controller, page)?;
        tenants::write(&self.controller, &Scope::Domain, page)?;
        nodes::write(&self.controller, page)?;
        links::write(&self.controller, page)?;
        limits::write(page)
    }
}

impl Scrape {
    fn controller(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let (term, revision) = self.controller.read(|d| (d.term(), d.revision()));
        page.write(&BUILD, [([env!("CARGO_PKG_VERSION")], 1)])?;
        page.one(&TERM, term)?;
        page.one(&REVISION, revision)?;
        page.one(&WRITABLE, u64::from(self.writable))?;
        page.one(&LOST, u64::from(self.controller.store_recovery().is_some()))?;
        let time_left = self.controller.with_commit(|pending| pending.map(Commit::time_left));
        page.one(&PENDING_COMMITS, u64::from(time_left.is_some()))?;
        if let Some(left) = time_left {
            page.one(&COMMIT_TIME, left.as_secs())?;
        }
        let phases = self.controller.phases().map(|(phase, n)| (phase.to_string(), n as u64));
        page.write(&GROUPS, phases.iter().map(|(phase, n)| ([phase.as_str()], *n)))
    }

    fn changes(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let read = |c: &Confirmations| (c.times(), c.exemplars().collect::<Vec<_>>(), c.waiting(), c.unmeasured());
        let (times, exemplars, waiting, unmeasured) = self.controller.confirmations(read);
        let bounds = BOUNDS.iter().map(|bound| bound.as_secs_f64()).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.buckets).collect();
        let exemplar = |(bucket, Confirmed { trace, time, at }): (usize, Confirmed)| Exemplar {
            bucket,
            trace: trace.to_string(),
            value: time.as_secs_f64(),
            at: Duration::from_nanos(at.nanos()),
        };
        let exemplars = exemplars.into_iter().map(exemplar).collect();
        page.histogram(&CONFIRMED, times.sum.as_secs_f64(), &buckets, exemplars)?;
        page.one(&WAITING, waiting as u64)?;
        page.one(&SPANS_LEFT_OUT, self.controller.traces().left_out())?;
        page.one(&LINES_LEFT_OUT, canopy_daemon::log::left_out())?;
        page.one(&KEYS, self.controller.keys_kept())?;
        page.one(&REPLAYED, self.controller.writes_replayed())?;
        page.one(&EVENTS_SUPPRESSED, self.controller.events().suppressed())?;
        page.one(&EVENTS_UNSAVED, self.controller.events().unsaved())?;
        let (groups, nodes) = self.controller.assessments_waiting();
        page.write(&ASSESSMENTS, [(["group"], groups as u64), (["node"], nodes as u64)])?;
        page.one(&UNMEASURED, unmeasured)
    }

    /// Root problems alone: what they affect is counted, and would be as many series as there are groups.
    fn problems(&self, page: &mut Page<'_>) -> std::fmt::Result {
        let roots = self.controller.root_problems();
        let labels = |key: &ProblemKey| {
            let info = key.code.info();
            [key.code.to_string(), info.severity.to_string(), info.object.to_string(), key.object.name()]
        };
        let shown: Vec<_> = roots.iter().take(MAX_PROBLEMS).map(|root| (labels(&root.key), root)).collect();
        let each = || shown.iter().map(|(labels, root)| (labels.each_ref().map(String::as_str), root));
        page.write(&ACTIVE, each().map(|(labels, root)| (labels, u64::from(root.silence.is_none()))))?;
        page.write(&AFFECTED, each().map(|(labels, root)| (labels, root.affects.len() as u64)))?;
        let left_out = (roots.len() - shown.len()) as u64 + self.controller.problems_left_out();
        page.one(&PROBLEMS_LEFT_OUT, left_out)
    }
}
