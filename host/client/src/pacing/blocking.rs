// SPDX-License-Identifier: Apache-2.0
//! The blocking API: each call waits on a small runtime that belongs to the client.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Action, OpenOptions, Qp, Status, aio};
use crate::Error;
use crate::blocking::Worker;

/// A connection to the daemon. Clones share it, and threads may; a child after `fork` needs its own.
#[derive(Clone, Debug)]
pub struct Client {
    worker: Arc<Worker>,
    inner: aio::Client,
}

impl Client {
    /// As [`aio::Client::connect`].
    ///
    /// # Errors
    /// As there.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        let worker = Worker::new()?;
        let inner = worker.run(aio::Client::connect(path))?;
        Ok(Self { worker, inner })
    }

    /// As [`aio::Client::status`].
    ///
    /// # Errors
    /// As there.
    pub fn status(&self) -> Result<Status, Error> {
        self.worker.run(self.inner.status())
    }

    /// As [`aio::Client::open`].
    ///
    /// # Errors
    /// As there.
    pub fn open(&self, options: OpenOptions) -> Result<Qp, Error> {
        self.worker.run(self.inner.open(options))
    }

    /// As [`aio::Client::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(&self, qpn: u32) -> Result<(), Error> {
        self.worker.run(self.inner.close(qpn))
    }

    /// The state of every queue pair, then each change.
    pub fn actions(&self) -> Actions {
        Actions { worker: self.worker.clone(), inner: self.inner.actions() }
    }
}

/// Changes of a host's queue pairs: a blocking iterator that never ends. After an error it starts again with their
/// state.
#[derive(Debug)]
pub struct Actions {
    worker: Arc<Worker>,
    inner: aio::Actions,
}

impl Actions {
    /// Waits for the next change for at most `within`; `None` = no change.
    ///
    /// # Errors
    /// As [`aio::Actions::next`].
    pub fn next_within(&mut self, within: Duration) -> Result<Option<Action>, Error> {
        self.worker.run(async { timeout(within, self.inner.next()).await.ok().transpose() })
    }
}

impl Iterator for Actions {
    type Item = Result<Action, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.worker.run(self.inner.next()))
    }
}
