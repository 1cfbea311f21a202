// SPDX-License-Identifier: Apache-2.0
//! Problems of the domain: assessed when something about a node or a group changed, and when time passes.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use canopy_controller_core::drops::Rise;
use canopy_controller_core::health::{Change, Health, Problem, ProblemKey, Subject, Symptom};
use canopy_controller_core::problem::{Object, ProblemCode};
use canopy_controller_core::tenant::Scope;
use canopy_controller_core::view::WaitedFor;
use canopy_model::telemetry::GroupTelemetry;
use canopy_units::UnixTime;

use crate::Controller;
use crate::assessing::AT_ONCE;
use crate::events::Code;
use crate::silences::Endings;

/// Time between two checks of what time alone changes: silent nodes, problems that open or close.
const TICK: Duration = Duration::from_millis(500);

/// Problems as they were listed, and of which versions of health and silences.
pub(crate) type ListedProblems = ((u64, u64), Arc<Vec<Problem>>);

impl Controller {
    /// Every problem that is open or closing: roots first, then roots of which operators know, the worst first, then the oldest.
    ///
    /// Made when something has changed since the last call: in an outage there are as many as groups.
    pub fn problems(&self) -> Arc<Vec<Problem>> {
        let mut listed = self.listed_problems();
        let of_silences = self.read(|d| d.silences_version(UnixTime::now()));
        let health = self.health();
        let version = (health.version(), of_silences);
        if let Some((of, problems)) = &*listed
            && *of == version
        {
            return Arc::clone(problems);
        }
        let mut problems = health.problems();
        drop(health);
        self.note_silences(&mut problems);
        let problems = Arc::new(problems);
        *listed = Some((version, Arc::clone(&problems)));
        problems
    }

    /// Whether a scope has a problem: of groups of its tenants and their members.
    pub fn has_problem(&self, scope: &Scope, problem: &Problem) -> bool {
        scope.is_domain() || scope.has_of(self.tenant_of_problem(problem).as_deref())
    }

    /// The tenant of the group that a problem is about; `None`: it is the domain's, as one is of another group that had the name
    /// before.
    pub fn tenant_of_problem(&self, problem: &Problem) -> Option<String> {
        let group = problem.key.object.group()?;
        self.read(|d| d.tenant_of_one(group, problem.group).map(str::to_owned))
    }

    /// Symptoms that were not kept because there were too many.
    pub fn problems_left_out(&self) -> u64 {
        self.health().left_out()
    }

    /// Processes the arrival of a node's telemetry with what it counted of its groups, and when by its clock.
    pub fn telemetry_received<'a>(
        &self,
        node: &str,
        taken: UnixTime,
        samples: impl Iterator<Item = &'a GroupTelemetry> + Clone,
    ) {
        let (now, wall) = (self.now(), UnixTime::now());
        let groups = self.write(|d| {
            d.clock_shown(node, taken, wall);
            let mut groups = d.telemetry_received(node, now);
            groups.extend(d.progress(node, samples, now, wall));
            groups
        });
        self.reassess_node(node);
        if !groups.is_empty() {
            self.groups_changed(&groups);
        }
    }

    /// For which receivers the source of a group waits; `None` if there is no such group.
    pub fn waited_for(&self, group: &str) -> Option<WaitedFor> {
        let now = self.now();
        self.read(|d| d.waited_for(group, now))
    }

    /// Processes drop counters of a node that rose.
    pub fn drops_rose(&self, node: &str, rises: Vec<Rise>) {
        let now = self.now();
        if self.write(|d| d.drops_rose(node, rises, now)) {
            self.assess_node(node);
        }
    }

    /// Reads a node's symptoms. Under one lock with storing them, so that older ones never replace newer ones.
    pub(crate) fn assess_node(&self, node: &str) {
        let mut health = self.health();
        let now = self.now();
        let symptoms = self.read(|d| d.node_symptoms(node, now));
        health.observe(&Subject::Node(node.to_owned()), symptoms, now, UnixTime::now());
    }

    /// The same for a group.
    pub(crate) fn assess_group(&self, group: &str) {
        let mut health = self.health();
        let now = self.now();
        let symptoms = self.read(|d| d.group_symptoms(group, now));
        health.observe(&Subject::Group(group.to_owned()), symptoms, now, UnixTime::now());
    }

    /// Has the problems that `faults` of the authority returns, each with its evidence; it is called several times a second. Only the first call
    /// counts.
    pub fn watch_authority(&self, faults: impl Fn(UnixTime) -> Vec<(ProblemCode, String)> + Send + Sync + 'static) {
        _ = self.0.authority.set(Box::new(faults));
    }

    fn assess_controller(&self) {
        let symptom = |code, evidence| Symptom {
            key: ProblemKey::new(code, Object::Controller),
            evidence,
            causes: vec![],
            group: None,
        };
        let full = self.why_read_only().map(|why| symptom(ProblemCode::StoreReadOnly, why));
        let lost = self.store_recovery().map(|lost| symptom(ProblemCode::StoreLostCommits, lost.to_string()));
        let expiring = self.expiring_commit().map(|why| symptom(ProblemCode::CommitExpiring, why));
        let refused = self.refused_by_rollback().map(|why| symptom(ProblemCode::RollbackRefused, why));
        let clock =
            self.read(|d| d.controllers_clock_differs()).map(|why| symptom(ProblemCode::ControllerClockDiffers, why));
        let of_authority = self.0.authority.get().map(|faults| faults(UnixTime::now())).unwrap_or_default();
        let own = [full, lost, expiring, refused, clock].into_iter().flatten();
        let symptoms = own.chain(of_authority.into_iter().map(|(code, why)| symptom(code, why))).collect();
        self.health().observe(&Subject::Controller, symptoms, self.now(), UnixTime::now());
    }

    /// Assesses everything once, then what time changes, until it is aborted.
    pub(crate) async fn watch_health(self, groups: Vec<String>) {
        let nodes = self.read(|d| d.node_names());
        nodes.iter().for_each(|node| self.assess_node(node));
        for some in groups.chunks(AT_ONCE) {
            some.iter().for_each(|group| self.assess_group(group));
            tokio::task::yield_now().await;
        }
        let (mut open, mut endings) = (0, Endings::default());
        loop {
            let now = self.now();
            for node in self.write(|d| d.expire_restarts(now)) {
                self.node_changed(&node);
                self.neighbours_reported(&node);
            }
            let (nodes, groups) = self.write(|d| d.mark_silent_nodes(now));
            nodes.iter().for_each(|node| self.assess_node(node));
            // Whose time may have passed; few.
            let leaving: Vec<String> = self.read(|d| d.retirements().map(|of| of.node.clone()).collect());
            leaving.iter().for_each(|node| self.assess_node(node));
            if !groups.is_empty() {
                self.groups_changed(&groups);
            }
            self.assess_controller();
            let changes = {
                let mut health = self.health();
                health.handle_timeout(self.now());
                let silences = self.read(|d| d.silences_version(UnixTime::now()));
                self.problems_are(health.version().wrapping_mul(1 << 20).wrapping_add(silences));
                health.take_changes()
            };
            self.note_incidents(&changes, self.now());
            let opened = changes.iter().filter(|change| change.is_open).count() as u64;
            open = (open + opened).saturating_sub(changes.len() as u64 - opened);
            changes.into_iter().for_each(|change| self.note_problem(change));
            self.chart_fleet(open);
            self.end_silences(&mut endings);
            tokio::time::sleep(TICK).await;
        }
    }

    /// The phase of a group has an event of its own.
    fn note_problem(&self, change: Change) {
        let Change { key, is_open, group: uid, evidence } = change;
        let node = match &key.object {
            Object::Group(_) => return,
            Object::Node(node) => Some(node.as_str()),
            Object::Port(port) => port.split('/').next(),
            Object::Controller | Object::Link(_) | Object::Member { .. } => None,
        };
        let group = match &key.object {
            Object::Member { group, .. } => Some(group.as_str()),
            _ => None,
        };
        let info = key.code.info();
        let (code, detail) = if is_open {
            let detail = format!("{} {}: {evidence} ({}, problem {})", key.object, info.title, key.code, key.id());
            (Code::ProblemOpened, detail)
        } else {
            (Code::ProblemClosed, format!("{}: {} (problem {})", key.object, key.code, key.id()))
        };
        match group {
            // Of a group that has this name since, it shows nothing.
            Some(group) => {
                let tenant = self.read(|d| d.tenant_of_one(group, uid).map(str::to_owned));
                self.events().note_group(code, node, (group, tenant), detail);
            }
            None => self.events().note(code, node, detail),
        }
    }

    /// The problems that no other one explains: those of which operators know behind the others.
    pub fn root_problems(&self) -> Vec<Problem> {
        self.problems().iter().filter(|problem| problem.is_root()).cloned().collect()
    }

    pub(crate) fn health(&self) -> MutexGuard<'_, Health> {
        self.health_lock().lock().unwrap_or_else(PoisonError::into_inner)
    }
}
