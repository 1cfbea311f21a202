// SPDX-License-Identifier: Apache-2.0
//! The service manager's notification protocol, sd_notify(3): readiness, the watchdog and the end.

use std::time::Duration;

use sd_notify::NotifyState;

/// A state that a daemon reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It serves.
    Ready,
    /// Its main loop runs.
    Alive,
    /// It is ending.
    Stopping,
}

type Sink = Box<dyn Fn(State) + Send + Sync>;

/// Reports to the service manager; without one it does nothing.
#[derive(Default)]
pub struct Notifier {
    sink: Option<Sink>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The service manager that NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID name.
    pub fn system() -> Self {
        let watchdog = sd_notify::watchdog_enabled().filter(|allowed| !allowed.is_zero());
        Self { sink: Some(Box::new(send)), watchdog }
    }

    /// Reports to `sink` instead, and takes `watchdog` for the watchdog's timeout.
    pub fn to(sink: impl Fn(State) + Send + Sync + 'static, watchdog: Option<Duration>) -> Self {
        Self { sink: Some(Box::new(sink)), watchdog }
    }

    /// Interval of [`Notifier::alive`]: half of the watchdog's timeout, as sd_watchdog_enabled(3) recommends; `None` without a
    /// watchdog.
    pub fn alive_interval(&self) -> Option<Duration> {
        self.watchdog.map(|allowed| (allowed / 2).max(Duration::from_millis(1)))
    }

    /// The daemon serves.
    pub fn ready(&self) {
        self.report(State::Ready);
    }

    /// The daemon's main loop runs.
    pub fn alive(&self) {
        self.report(State::Alive);
    }

    /// The daemon is ending.
    pub fn stopping(&self) {
        self.report(State::Stopping);
    }

    fn report(&self, state: State) {
        if let Some(sink) = &self.sink {
            sink(state);
        }
    }
}

/// A failure is only logged: no service depends on its manager.
fn send(state: State) {
    let wire = match state {
        State::Ready => NotifyState::Ready,
        State::Alive => NotifyState::Watchdog,
        State::Stopping => NotifyState::Stopping,
    };
    if let Err(error) = sd_notify::notify(&[wire]) {
        tracing::warn!(%error, ?state, "cannot notify the service manager (NOTIFY_SOCKET)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn states_arrive_in_order_and_the_watchdog_is_fed_twice_in_its_time() {
        let seen = Arc::<Mutex<Vec<State>>>::default();
        let shared = Arc::clone(&seen);
        let notifier = Notifier::to(move |state| shared.lock().unwrap().push(state), Some(Duration::from_secs(30)));
        assert_eq!(notifier.alive_interval(), Some(Duration::from_secs(15)));
        notifier.ready();
        notifier.alive();
        notifier.stopping();
        assert_eq!(*seen.lock().unwrap(), [State::Ready, State::Alive, State::Stopping]);
        let none = Notifier::default();
        none.ready();
        assert_eq!(none.alive_interval(), None);
    }
}
