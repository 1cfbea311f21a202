// SPDX-License-Identifier: Apache-2.0
//! Silences: problems that operators know of, and their end.
//!
//! A silence ends at its time of the wall clock. One of a problem also ends once that has not been open for [`ABSENT`]: when it comes
//! back, it is another outage. After a start that counts from the start, since problems open again only as agents report.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use canopy_controller_core::health::{Problem, ProblemKey};
use canopy_controller_core::{Command, Domain};
use canopy_model::silence::{SilenceSpec, SilenceTarget};
use canopy_store::StoreError;
use canopy_units::{Monotonic, UnixTime};

use crate::Controller;
use crate::events::Code;
use crate::task::{Message, Task, is_refusal};

/// How long a problem is not open before the silence of it ends.
const ABSENT: Duration = Duration::from_secs(60);
/// How long after an attempt a silence is ended again.
const RETRY: Duration = Duration::from_secs(60);

/// Which silences are about to end.
#[derive(Default)]
pub(crate) struct Endings {
    /// Since when the problem is not open, by name of the silence.
    absent: BTreeMap<String, Monotonic>,
    /// When the end was asked for.
    asked: BTreeMap<String, Monotonic>,
}

impl Endings {
    /// The silences that end now, with the reason.
    fn due(&mut self, domain: &Domain, is_open: impl Fn(&str) -> bool, now: Monotonic, wall: UnixTime) -> Vec<Ending> {
        let mut due: Vec<Ending> = domain
            .ended_silences(wall)
            .map(|name| Ending { name: name.to_owned(), why: "its time has passed" })
            .collect();
        let mut absent = BTreeMap::new();
        for (name, spec) in domain.declared_silences() {
            let Some(SilenceTarget::Problem(id)) = spec.target() else { continue };
            if is_open(id) {
                continue;
            }
            let since = self.absent.get(name).copied().unwrap_or(now);
            if now >= since + ABSENT {
                due.push(Ending { name: name.to_owned(), why: "the problem is not open any more" });
            }
            absent.insert(name.to_owned(), since);
        }
        self.absent = absent;
        self.asked.retain(|_, at| now < *at + RETRY);
        due.retain(|ending| !self.asked.contains_key(&ending.name));
        self.asked.extend(due.iter().map(|ending| (ending.name.clone(), now)));
        due
    }
}

/// A silence that ends by itself.
#[derive(Debug, PartialEq, Eq)]
struct Ending {
    name: String,
    why: &'static str,
}

impl Controller {
    /// Whether a problem with this id is open or closing.
    pub fn is_open(&self, id: &str) -> bool {
        self.open_problems().contains(id)
    }

    fn open_problems(&self) -> BTreeSet<String> {
        self.health().open().map(ProblemKey::id).collect()
    }

    /// Asks the task to end what is due. A queue that is full is asked again later.
    pub(crate) fn end_silences(&self, endings: &mut Endings) {
        let acknowledges = |spec: &SilenceSpec| matches!(spec.target(), Some(SilenceTarget::Problem(_)));
        // Most domains have none.
        let open = match self.read(|d| d.declared_silences().any(|(_, spec)| acknowledges(spec))) {
            true => self.open_problems(),
            false => BTreeSet::new(),
        };
        let (now, wall) = (self.now(), UnixTime::now());
        for ending in self.read(|d| endings.due(d, |id| open.contains(id), now, wall)) {
            self.try_send(Message::EndSilence { name: ending.name, why: ending.why });
        }
    }

    /// Notes of each problem the silence that is in force, and puts those roots behind the others.
    pub(crate) fn note_silences(&self, problems: &mut [Problem]) {
        let now = UnixTime::now();
        self.read(|d| problems.iter_mut().for_each(|problem| problem.silence = d.silence_of(&problem.key, now)));
        problems.sort_by_key(|problem| (!problem.is_root(), problem.silence.is_some()));
    }
}

impl Task {
    /// Removes a silence in the name of the controller.
    pub(crate) async fn end_silence(&mut self, name: String, why: &str) -> Result<(), StoreError> {
        if self.read_only.is_some() || self.controller.read(|d| d.declared_silence(&name).is_none()) {
            return Ok(());
        }
        match self.write_own(Command::DeleteSilence { name: name.clone() }, None).await {
            // Until the disk has room.
            Err(error) if is_refusal(&error) => return Ok(()),
            Err(error) => return Err(error),
            Ok(Err(error)) => {
                tracing::error!(name, %error, "a silence could not be ended; it is tried again in {RETRY:?}")
            }
            Ok(Ok(())) => {
                self.controller.events().note(Code::SilenceEnded, None, format!("silence {name} ended: {why}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use canopy_controller_core::Secret;
    use canopy_controller_core::metadata::Labels;

    use super::*;

    const ID: &str = "0123456789abcdef";

    fn domain(until: Option<UnixTime>) -> Domain {
        let plan = Default::default();
        let mut domain =
            Domain::restore(plan, Default::default(), Default::default(), Secret::new([7; 32]), 1, []).unwrap();
        let spec = SilenceSpec { problem: Some(ID.into()), note: "x".into(), until, ..SilenceSpec::default() };
        let (name, labels) = ("s".to_owned(), Labels::new());
        let put = domain.prepare(Command::PutSilence { name, labels, spec, create_only: true }).unwrap();
        domain.apply(put, Monotonic::START).unwrap();
        domain
    }

    #[test]
    fn an_acknowledgement_ends_once_its_problem_has_been_away_for_a_minute() {
        let (domain, mut endings) = (domain(None), Endings::default());
        let mut at = |s: u64, open: bool| {
            let now = Monotonic::START + Duration::from_secs(s);
            endings.due(&domain, |id| open && id == ID, now, UnixTime::default()).len()
        };
        assert_eq!([at(0, false), at(59, false)], [0, 0], "agents report only then");
        assert_eq!([at(60, true), at(200, true), at(201, false), at(260, false)], [0; 4]);
        assert_eq!(at(261, false), 1);
        assert_eq!([at(262, false), at(320, false)], [0, 0], "it is asked for once a minute");
        assert_eq!(at(321, false), 1);
    }

    #[test]
    fn a_silence_ends_at_its_time_although_the_problem_is_open() {
        let until = UnixTime::from_nanos(1_000);
        let (domain, mut endings) = (domain(Some(until)), Endings::default());
        let mut at = |wall: u64| endings.due(&domain, |_| true, Monotonic::START, UnixTime::from_nanos(wall));
        assert_eq!(at(999), []);
        assert_eq!(at(1_000), [Ending { name: "s".into(), why: "its time has passed" }]);
    }
}
