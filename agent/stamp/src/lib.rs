// SPDX-License-Identifier: Apache-2.0
//! STAMP (RFC 8762) and ICMPv6 Echo (RFC 4443) over a node's links: one task per link runs the state machines of
//! `canopy_agent_core::stamp` with two UDP sockets on the link's interface, another that of `canopy_agent_core::echo`. [`Hosts`] probes the hosts of stalled receivers.
//!
//! The Session-Sender's socket has its own UDP port, which identifies the session. The Session-Reflector's socket is bound to the
//! port's link-local address and to its interface, so that the kernel rejects packets that arrive elsewhere. Receive timestamps are
//! the kernel's. If the interface or address of a link does not exist, its task tries again every second.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod echo;
mod host;
mod link;
mod socket;

pub use host::Hosts;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_agent_core::echo::EchoCounts;
use canopy_agent_core::stamp::{LinkProber, Session, SessionSettings, StampLink};
use canopy_model::telemetry::LinkRtt;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Parameters of the measurement; the UDP port must be the same at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampSettings {
    /// UDP port of the Session-Reflectors.
    pub port: u16,
    /// Time between two test packets on a link.
    pub interval: Duration,
}

/// Measures links until it is dropped.
#[derive(Debug)]
pub struct Prober {
    settings: StampSettings,
    start: Instant,
    links: BTreeMap<StampLink, LinkSession>,
    echoes: BTreeMap<StampLink, echo::Watch>,
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct LinkSession {
    session: Arc<Mutex<Session>>,
    task: AbortHandle,
}

impl Drop for LinkSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Prober {
    /// A prober without links.
    pub fn new(settings: StampSettings) -> Self {
        Self {
            settings,
            start: Instant::now(),
            links: BTreeMap::new(),
            echoes: BTreeMap::new(),
            changed: Arc::new(Notify::new()),
        }
    }

    fn start_session(&self, link: &StampLink, before: Option<&LinkRtt>) -> LinkSession {
        let interval = self.settings.interval.max(Duration::from_nanos(1));
        let now = link::since(self.start);
        let session = Arc::new(Mutex::new(Session::new(SessionSettings { interval }, now, before)));
        let task = link::Task {
            link: link.clone(),
            port: self.settings.port,
            start: self.start,
            session: Arc::clone(&session),
        };
        LinkSession { session, task: tokio::spawn(task.run()).abort_handle() }
    }
}

impl LinkProber for Prober {
    /// Must be called on the tokio runtime.
    fn watch(&mut self, links: Vec<StampLink>) {
        let mut before = std::mem::take(&mut self.echoes);
        for link in &links {
            let kept = before.remove(link).inspect(|watch| watch.set_links(links.len()));
            let start = || echo::Watch::start(link, links.len(), self.start, &self.changed);
            self.echoes.insert(link.clone(), kept.unwrap_or_else(start));
        }
        drop(before);
        let mut gone = std::mem::take(&mut self.links);
        let mut kept: BTreeMap<StampLink, LinkSession> =
            links.iter().filter_map(|link| gone.remove_entry(link)).collect();
        let counts: Vec<LinkRtt> = gone.iter().map(|(link, s)| locked(&s.session).take(link.port)).collect();
        // Close the sockets of removed links before new ones bind the same addresses.
        drop(gone);
        for link in links {
            let before = counts.iter().find(|c| c.port == link.port);
            kept.entry(link).or_insert_with_key(|link| self.start_session(link, before));
        }
        self.links = kept;
    }

    fn take(&mut self) -> Vec<LinkRtt> {
        self.links.iter().map(|(link, s)| locked(&s.session).take(link.port)).collect()
    }

    fn losses(&self) -> Vec<(StampLink, EchoCounts)> {
        self.echoes.iter().map(|(link, watch)| (link.clone(), watch.counts())).collect()
    }

    fn silent(&self) -> Vec<StampLink> {
        self.echoes.iter().filter(|(_, watch)| watch.is_silent()).map(|(link, _)| link.clone()).collect()
    }

    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.changed.notified())
    }
}

/// Ignores poisoning: no code panics while a lock is held.
fn locked<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
