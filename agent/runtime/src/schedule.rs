// SPDX-License-Identifier: Apache-2.0
//! When to reconcile next. Pure: takes the time as an argument.

use std::time::Duration;

use canopy_agent_core::Scope;
use tokio::time::Instant;

/// How often everything is compared, whatever happens meanwhile: a notification can be lost.
const RESYNC: Duration = Duration::from_secs(30);
/// Minimum interval of reconciles for kernel changes, which come in bursts (a link that goes down removes its routes).
const SPACING: Duration = Duration::from_millis(100);
/// Retries after errors.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(15);

/// The deadline of the next reconcile, and what it has to compare.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: Option<Instant>,
    finished: Option<Instant>,
    failures: u32,
    /// What changed since the last one began; `None`: nothing that is known.
    changed: Option<Scope>,
    /// When everything is to be compared; `None` before the first time, and while it is.
    all_due: Option<Instant>,
}

impl Schedule {
    /// When to reconcile; `None` until there is a spec.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// A new spec: reconcile at once and reset the retry backoff.
    pub(crate) fn spec_changed(&mut self, now: Instant) {
        self.failures = 0;
        self.due = Some(now);
        self.changed = self.changed.max(Some(Scope::Spec));
    }

    /// The kernel changed: reconcile as soon as the spacing after the last reconcile permits.
    pub(crate) fn kernel_changed(&mut self, now: Instant) {
        let earliest = self.finished.map_or(now, |finished| now.max(finished + SPACING));
        self.due = self.due.map(|due| due.min(earliest));
        self.changed = self.changed.max(Some(Scope::Network));
    }

    /// A reconcile begins; returns what it has to compare.
    pub(crate) fn begins(&mut self, now: Instant) -> Scope {
        let known = self.changed.take().filter(|_| self.all_due.is_some_and(|due| now < due));
        let scope = known.unwrap_or(Scope::All);
        if scope == Scope::All {
            self.all_due = None;
        }
        scope
    }

    /// A reconcile ended; `as_desired` if the kernel matches the spec.
    pub(crate) fn finished(&mut self, now: Instant, as_desired: bool) {
        self.finished = Some(now);
        let all = *self.all_due.get_or_insert(now + RESYNC);
        self.due = Some(all);
        if as_desired {
            self.failures = 0;
        } else {
            let wait = FIRST_RETRY.saturating_mul(1 << self.failures.min(4)).min(LAST_RETRY);
            self.failures = self.failures.saturating_add(1);
            // What failed is tried again with everything, whatever comes before.
            let retry = all.min(now + wait);
            (self.due, self.all_due) = (Some(retry), Some(retry));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(schedule: &Schedule, now: Instant) -> Duration {
        schedule.due().unwrap() - now
    }

    #[tokio::test]
    async fn retries_back_off_to_fifteen_seconds_and_a_new_spec_starts_over() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        let mut seconds = vec![];
        for _ in 0..6 {
            schedule.begins(now);
            schedule.finished(now, false);
            seconds.push(waits(&schedule, now).as_secs());
        }
        assert_eq!(seconds, [1, 2, 4, 8, 15, 15]);
        schedule.spec_changed(now);
        assert_eq!(waits(&schedule, now), Duration::ZERO);
        schedule.begins(now);
        schedule.finished(now, false);
        assert_eq!(waits(&schedule, now), FIRST_RETRY);
        schedule.begins(now);
        schedule.finished(now, true);
        assert_eq!(waits(&schedule, now), RESYNC);
    }

    #[tokio::test]
    async fn kernel_changes_never_postpone_and_need_a_spec() {
        let now = Instant::now();
        let mut schedule = Schedule::default();
        schedule.kernel_changed(now);
        assert_eq!(schedule.due(), None, "there is nothing to reconcile with yet");
        schedule.spec_changed(now);
        schedule.kernel_changed(now);
        assert_eq!(waits(&schedule, now), Duration::ZERO);
        schedule.finished(now, true);
        schedule.kernel_changed(now);
        assert_eq!(waits(&schedule, now), SPACING);
        schedule.kernel_changed(now + Duration::from_millis(50));
        assert_eq!(waits(&schedule, now), SPACING, "a burst does not postpone the deadline");
    }

    /// Catches an audit for each notice of the kernel, and notices that keep it away for ever.
    #[tokio::test]
    async fn what_is_known_to_have_changed_is_compared_and_everything_every_thirty_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut schedule = Schedule::default();
        schedule.spec_changed(at(0));
        assert_eq!(schedule.begins(at(0)), Scope::All, "nothing is known of the kernel yet");
        schedule.finished(at(1), true);
        assert_eq!(schedule.due(), Some(at(31)));
        schedule.spec_changed(at(2));
        assert_eq!(schedule.begins(at(2)), Scope::Spec);
        schedule.finished(at(2), true);
        assert_eq!(schedule.due(), Some(at(31)), "a change puts off nothing");
        schedule.spec_changed(at(3));
        schedule.kernel_changed(at(3));
        schedule.spec_changed(at(3));
        assert_eq!(schedule.begins(at(3)), Scope::Network);
        // While it ran.
        schedule.kernel_changed(at(3));
        schedule.finished(at(4), true);
        for second in 4..31 {
            schedule.kernel_changed(at(second));
            assert_eq!(schedule.begins(at(second)), Scope::Network);
            schedule.finished(at(second), true);
        }
        schedule.kernel_changed(at(31));
        assert_eq!(schedule.begins(at(31)), Scope::All);
        // Longer than the interval: others have their turn all the same.
        schedule.finished(at(70), true);
        assert_eq!(schedule.due(), Some(at(100)));
        assert_eq!(schedule.begins(at(100)), Scope::All);
        schedule.finished(at(100), false);
        assert_eq!(schedule.due(), Some(at(101)));
        schedule.kernel_changed(at(100));
        assert_eq!(schedule.begins(at(100)), Scope::Network);
        schedule.finished(at(100), false);
        assert_eq!(schedule.due(), Some(at(101)), "what failed is not put off by notices");
        schedule.kernel_changed(at(101));
        assert_eq!(schedule.begins(at(101)), Scope::All, "what failed is tried again as a whole");
    }
}
