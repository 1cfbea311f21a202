// SPDX-License-Identifier: Apache-2.0
//! The order of an upgrade, or the reason why there is none.

use serde::Serialize;

use super::batches::Network;
use super::release::Release;

/// What runs now.
#[derive(Clone, Debug)]
pub struct Running {
    /// Version of the controller.
    pub controller: Release,
    /// Nodes with the versions of their agents; `None` if an agent has not reported one.
    pub agents: Vec<(String, Option<Release>)>,
    /// How the nodes are linked.
    pub network: Network,
}

/// Who is upgraded together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "upgrade", rename_all = "camelCase")]
pub enum Step {
    /// The controller, alone.
    Controller,
    /// Agents of these nodes, at the same time.
    Agents {
        /// Names of the nodes.
        names: Vec<String>,
    },
}

/// The order of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One after the other.
    pub steps: Vec<Step>,
    /// Nodes whose agents have not reported a version; they are in the steps.
    pub unknown: Vec<String>,
}

impl Running {
    /// The order in which all of it gets to version `to`, with at most `batch` agents at a time, by default a quarter of those that change.
    ///
    /// # Errors
    /// Some of what runs does not work with `to`; the text names it, and what to do.
    pub fn plan(&self, to: Release, batch: Option<usize>) -> Result<Plan, String> {
        self.refuse(to)?;
        let changes: Vec<String> =
            self.agents.iter().filter(|(_, release)| *release != Some(to)).map(|(name, _)| name.clone()).collect();
        let most = batch.unwrap_or_else(|| changes.len().div_ceil(4));
        let agents = self.network.batches(&changes, most).into_iter().map(|names| Step::Agents { names });
        let controller = (self.controller != to).then_some(Step::Controller);
        // The controller is never older than an agent: a new one knows what old agents do not report.
        let steps = match to < self.controller {
            false => controller.into_iter().chain(agents).collect(),
            true => agents.chain(controller).collect(),
        };
        let unknown =
            self.agents.iter().filter(|(_, release)| release.is_none()).map(|(name, _)| name.clone()).collect();
        Ok(Plan { steps, unknown })
    }

    fn refuse(&self, to: Release) -> Result<(), String> {
        let controller = Some(("the controller".to_owned(), self.controller));
        let agents =
            self.agents.iter().filter_map(|(name, release)| release.map(|release| (format!("agent {name}"), release)));
        let away: Vec<(String, Release)> =
            controller.into_iter().chain(agents).filter(|(_, release)| !release.works_with(to)).collect();
        // Another major version is farther than any minor one.
        let far = |(_, release): &&(String, Release)| release.steps_to(to).unwrap_or(u32::MAX);
        let Some((_, farthest)) = away.iter().max_by_key(far) else { return Ok(()) };
        let names: Vec<String> = away.iter().map(|(name, release)| format!("{name} ({release})")).collect();
        let first = match farthest.next_towards(to) {
            Some(step) => format!("bring these to {step} first: canopyctl upgrade plan --to {step}.0"),
            None => "another major version: follow the notes of that release".to_owned(),
        };
        Err(format!(
            "{to} works with the minor versions next to its own, and these are farther away: {}; {first}",
            names.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(text: &str) -> Release {
        text.parse().unwrap()
    }

    /// A line of nodes n0, n1, … with these versions.
    fn running(controller: &str, agents: &[&str]) -> Running {
        let name = |n: usize| format!("n{n}");
        let agents: Vec<(String, Option<Release>)> =
            agents.iter().enumerate().map(|(n, text)| (name(n), text.parse().ok())).collect();
        let links = (1..agents.len()).map(|n| (name(n - 1), name(n)));
        let network = Network::new(agents.iter().map(|(name, _)| name.clone()), links);
        Running { controller: release(controller), agents, network }
    }

    fn agents(names: &[&str]) -> Step {
        Step::Agents { names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn the_controller_is_first_on_the_way_up_and_last_on_the_way_back() {
        let plan = running("0.1.0", &["0.1.0", "0.1.0", "0.1.0"]).plan(release("0.2.0"), Some(1)).unwrap();
        // n1 is between the others, so it is away alone in any case, and last.
        assert_eq!(plan.steps, [Step::Controller, agents(&["n0"]), agents(&["n2"]), agents(&["n1"])]);
        let plan = running("0.2.0", &["0.2.0", "0.2.0"]).plan(release("0.1.4"), Some(9)).unwrap();
        assert_eq!(plan.steps, [agents(&["n0"]), agents(&["n1"]), Step::Controller]);
    }

    #[test]
    fn an_upgrade_that_was_interrupted_continues_with_those_that_are_left() {
        let plan = running("0.2.0", &["0.2.0", "0.1.0", "0.2.0"]).plan(release("0.2.0"), None).unwrap();
        assert_eq!(plan, Plan { steps: vec![agents(&["n1"])], unknown: vec![] });
        let plan = running("0.2.0", &["0.2.0"]).plan(release("0.2.0"), None).unwrap();
        assert_eq!(plan.steps, []);
    }

    #[test]
    fn an_agent_that_has_reported_nothing_is_upgraded_and_named() {
        let plan = running("0.1.0", &["0.1.0", ""]).plan(release("0.1.1"), None).unwrap();
        assert_eq!(plan.unknown, ["n1"]);
        assert_eq!(plan.steps, [Step::Controller, agents(&["n0"]), agents(&["n1"])]);
    }

    #[test]
    fn what_is_two_minor_versions_away_is_refused_by_name() {
        let refused = |controller: &str, agents: &[&str], to: &str| {
            running(controller, agents).plan(release(to), None).unwrap_err()
        };
        assert_eq!(
            refused("0.2.0", &["0.2.0", "0.1.7", "0.2.0"], "0.3.0"),
            "0.3.0 works with the minor versions next to its own, and these are farther away: agent n1 (0.1.7); \
bring these to 0.2 first: canopyctl upgrade plan --to 0.2.0"
        );
        let text = refused("0.4.0", &["0.4.0"], "0.2.0");
        assert!(text.contains("the controller (0.4.0), agent n0 (0.4.0); bring these to 0.3 first"), "{text}");
        let text = refused("0.3.0", &["0.2.0", "0.1.0"], "1.0.0");
        assert!(text.ends_with("another major version: follow the notes of that release"), "{text}");
        let text = refused("0.3.0", &["0.2.0", "0.1.0"], "0.4.0");
        assert!(text.contains("agent n0 (0.2.0), agent n1 (0.1.0); bring these to 0.2 first"), "{text}");
    }
}
