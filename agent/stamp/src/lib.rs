// SPDX-License-Identifier: Apache-2.0
//! STAMP (RFC 8762) over a node's links: one task per link with two UDP sockets on the link's interface, around the
//! machines of `canopy_agent_core::stamp`.
//!
//! The Session-Sender's socket has a port of its own, which is what names the session; the Session-Reflector's socket is
//! bound to the port's link-local address and to its interface, so that the kernel itself refuses what arrives elsewhere.
//! Times of arrival are the kernel's. A task whose interface or address is not there tries again every second, for ever.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod link;
mod socket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_agent_core::stamp::{LinkProber, Session, SessionSettings, StampLink};
use canopy_model::telemetry::LinkRtt;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How links are measured; the same port at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StampSettings {
    /// UDP port of the reflectors.
    pub port: u16,
    /// Time between two test packets of a link.
    pub interval: Duration,
}

/// Measures links until it is dropped.
#[derive(Debug)]
pub struct Prober {
    settings: StampSettings,
    start: Instant,
    links: BTreeMap<StampLink, Watched>,
}

#[derive(Debug)]
struct Watched {
    session: Arc<Mutex<Session>>,
    task: AbortHandle,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Prober {
    /// Measures nothing yet.
    pub fn new(settings: StampSettings) -> Self {
        Self { settings, start: Instant::now(), links: BTreeMap::new() }
    }

    fn begin(&self, link: &StampLink, before: Option<&LinkRtt>) -> Watched {
        let interval_ns = u64::try_from(self.settings.interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let now_ns = link::since(self.start);
        let session = Arc::new(Mutex::new(Session::new(SessionSettings { interval_ns }, now_ns, before)));
        let task = link::Task {
            link: link.clone(),
            port: self.settings.port,
            start: self.start,
            session: Arc::clone(&session),
        };
        Watched { session, task: tokio::spawn(task.run()).abort_handle() }
    }
}

impl LinkProber for Prober {
    /// Call it on the tokio runtime.
    fn watch(&mut self, links: Vec<StampLink>) {
        let mut gone = std::mem::take(&mut self.links);
        let mut kept: BTreeMap<StampLink, Watched> = links.iter().filter_map(|link| gone.remove_entry(link)).collect();
        let counts: Vec<LinkRtt> = gone.iter().map(|(link, w)| locked(&w.session).take(link.port)).collect();
        // Their sockets are in the way of new ones.
        drop(gone);
        for link in links {
            let before = counts.iter().find(|c| c.port == link.port);
            kept.entry(link).or_insert_with_key(|link| self.begin(link, before));
        }
        self.links = kept;
    }

    fn take(&mut self) -> Vec<LinkRtt> {
        self.links.iter().map(|(link, watched)| locked(&watched.session).take(link.port)).collect()
    }
}

/// Nothing panics while a session is locked.
fn locked(session: &Mutex<Session>) -> std::sync::MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
