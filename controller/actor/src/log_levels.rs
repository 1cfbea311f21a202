// SPDX-License-Identifier: Apache-2.0
//! Filters of log lines that operators set for a while: of the controller, and of agents.
//!
//! They are in memory only. An agent counts the time itself: it returns to the filter of its configuration whether or not a controller is
//! there. One that connects again meanwhile gets the filter for the time that is left. The audit has who set which one.

use std::collections::BTreeMap;
use std::sync::Arc;

use canopy_controller_core::audit::{Action, IntentKind};
use canopy_controller_core::principal::Principal;
use canopy_controller_core::request_id::RequestId;
use canopy_model::log_level::{LogFilter, LogOrder, MINOR_VERSION};
use canopy_units::{Monotonic, UnixTime};
use tokio::sync::watch;

use crate::{CommandError, Controller, Target};

/// Whose log lines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogTarget {
    /// The controller's.
    Controller,
    /// Those of the agent of this node.
    Agent(String),
}

impl std::fmt::Display for LogTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Controller => f.write_str("controller"),
            Self::Agent(node) => write!(f, "agent/{node}"),
        }
    }
}

/// A filter in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLevel {
    /// The filter.
    pub filter: LogFilter,
    /// Who set it.
    pub by: Principal,
    /// Until when it holds.
    pub until: UnixTime,
    /// The same on the clock of [`Controller::now`].
    pub ends: Monotonic,
}

/// Why a filter is not set.
#[derive(Debug, thiserror::Error)]
pub enum LogLevelError {
    /// There is no such node.
    #[error("there is no node {0:?}")]
    NoNode(String),
    /// Its agent could not apply it.
    #[error("the agent of node {0} is not connected: set the level once it is, or in its configuration (log.level)")]
    NotConnected(String),
    /// Its agent does not know filters.
    #[error("the agent of node {node} has contract 1.{has}, and levels are set from 1.{MINOR_VERSION} on: upgrade it")]
    Unable {
        /// The node.
        node: String,
        /// Minor version of the contract with its agent.
        has: u32,
    },
    /// The entry of the audit could not be stored.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// The filters in force, and some whose time has passed.
#[derive(Default)]
pub(crate) struct LogBook(watch::Sender<Arc<BTreeMap<LogTarget, LogLevel>>>);

/// The filters of one daemon.
pub struct LogOrders {
    target: LogTarget,
    levels: watch::Receiver<Arc<BTreeMap<LogTarget, LogLevel>>>,
    sent: Option<LogLevel>,
    controller: Controller,
}

impl LogOrders {
    /// The next filter of this daemon; waits for ever if there is none. Cancel safe.
    pub async fn next(&mut self) -> LogOrder {
        loop {
            if self.levels.changed().await.is_err() {
                return std::future::pending().await;
            }
            let present = self.levels.borrow_and_update().get(&self.target).cloned();
            let now = self.controller.now();
            let holds = |level: &LogLevel| level.ends > now;
            let present = present.filter(holds);
            if present == self.sent {
                continue;
            }
            match (std::mem::replace(&mut self.sent, present.clone()), present) {
                (_, Some(level)) => return LogOrder { filter: Some(level.filter), within: level.ends.since(now) },
                (Some(before), None) if holds(&before) => return LogOrder::default(),
                (_, None) => {}
            }
        }
    }
}

impl Controller {
    /// Sets the filter of a daemon for a while, or returns to that of its configuration.
    ///
    /// # Errors
    /// See [`LogLevelError`].
    pub async fn set_log_level(
        &self,
        target: LogTarget,
        order: LogOrder,
        by: Principal,
        request: Option<RequestId>,
    ) -> Result<(), LogLevelError> {
        if let LogTarget::Agent(node) = &target {
            self.takes_levels(node)?;
        }
        let action = if order.filter.is_some() { Action::Update } else { Action::Delete };
        self.remark(&target, action, by.clone(), request).await?;
        let (now, until) = (self.now(), UnixTime::now() + order.within);
        tracing::info!(%target, filter = order.filter.as_ref().map(LogFilter::as_str), within = ?order.within, %by, "setting a log level");
        self.log_book().0.send_modify(|levels| {
            let mut next: BTreeMap<_, _> = levels.iter().map(|(t, level)| (t.clone(), level.clone())).collect();
            next.retain(|_, level| level.ends > now);
            match order.filter {
                Some(filter) => _ = next.insert(target, LogLevel { filter, by, until, ends: now + order.within }),
                None => _ = next.remove(&target),
            }
            *levels = Arc::new(next);
        });
        Ok(())
    }

    /// The filters in force that operators have set.
    pub fn log_levels(&self) -> Vec<(LogTarget, LogLevel)> {
        let (now, levels) = (self.now(), self.log_book().0.borrow().clone());
        let holds = levels.iter().filter(|(_, level)| level.ends > now);
        holds.map(|(target, level)| (target.clone(), level.clone())).collect()
    }

    /// Filters of one daemon, from the one in force on.
    pub fn log_orders(&self, target: LogTarget) -> LogOrders {
        let mut levels = self.log_book().0.subscribe();
        levels.mark_changed();
        LogOrders { target, levels, sent: None, controller: self.clone() }
    }

    fn takes_levels(&self, node: &str) -> Result<(), LogLevelError> {
        let agent = self.read(|d| d.agent_of(node));
        let (connected, has) = agent.ok_or_else(|| LogLevelError::NoNode(node.to_owned()))?;
        if !connected {
            return Err(LogLevelError::NotConnected(node.to_owned()));
        }
        // Before its first report it is not known.
        if has.is_some_and(|has| has < MINOR_VERSION) {
            return Err(LogLevelError::Unable { node: node.to_owned(), has: has.unwrap_or_default() });
        }
        Ok(())
    }

    /// Writes an entry of the audit about what is no resource, durably.
    async fn remark(
        &self,
        of: &LogTarget,
        action: Action,
        by: Principal,
        request: Option<RequestId>,
    ) -> Result<(), CommandError> {
        let target = Target { kind: IntentKind::LogLevel, name: of.to_string() };
        self.audited(target, action, by, request).await
    }
}
