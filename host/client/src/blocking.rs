// SPDX-License-Identifier: Apache-2.0
//! The blocking API: each call waits on a small runtime that belongs to the client.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use canopy_model::member::Connection;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::{ConnectOptions, Error, Event, JoinOptions, Ready, aio};

/// One thread that keeps the connection alive between calls; it ends with the last of client, memberships and events.
#[derive(Debug)]
pub(crate) struct Worker(Option<Runtime>);

impl Worker {
    pub(crate) fn new() -> Result<Arc<Self>, Error> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let built = builder.worker_threads(1).thread_name("canopy-host").enable_all().build();
        built
            .map(|runtime| Arc::new(Self(Some(runtime))))
            .map_err(|e| Error::Internal(format!("starting a thread: {e}")))
    }

    pub(crate) fn run<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match &self.0 {
            Some(runtime) => runtime.block_on(call),
            None => Err(Error::Internal("the client is being dropped".to_owned())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Shutdown does not wait: waiting is not permitted in every context.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection to the agent. Clones share it, and threads may; a child after `fork` needs its own.
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

    /// As [`aio::Client::connect_with`].
    ///
    /// # Errors
    /// As there.
    pub fn connect_with(options: &ConnectOptions) -> Result<Self, Error> {
        let worker = Worker::new()?;
        let inner = worker.run(aio::Client::connect_with(options))?;
        Ok(Self { worker, inner })
    }

    /// As [`aio::Client::join`].
    ///
    /// # Errors
    /// As there.
    pub fn join(&self, options: JoinOptions) -> Result<Membership, Error> {
        let inner = self.worker.run(self.inner.join(options))?;
        Ok(Membership { worker: self.worker.clone(), inner })
    }

    /// As [`aio::Client::leave`].
    ///
    /// # Errors
    /// As there.
    pub fn leave(&self, group: &str, host: &str) -> Result<(), Error> {
        self.worker.run(self.inner.leave(group, host))
    }
}

/// A host's membership of a group. Dropping it does not leave the group; with a lease, the end of the process does, or of the last of the
/// client, its memberships and events.
#[derive(Clone, Debug)]
pub struct Membership {
    worker: Arc<Worker>,
    inner: aio::Membership,
}

impl Membership {
    /// The connection parameters of the queue pair; the same for the source and for receivers.
    pub fn connection(&self) -> &Connection {
        self.inner.connection()
    }

    /// Name of the group.
    pub fn group(&self) -> &str {
        self.inner.group()
    }

    /// Name of the host.
    pub fn host(&self) -> &str {
        self.inner.host()
    }

    /// As [`aio::Membership::wait_ready`].
    ///
    /// # Errors
    /// As there.
    pub fn wait_ready(&self, receivers: u32, within: Duration) -> Result<Ready, Error> {
        self.worker.run(self.inner.wait_ready(receivers, within))
    }

    /// The events of the group from now on, its current state first. Each call has its own.
    pub fn events(&self) -> Events {
        Events { worker: self.worker.clone(), inner: self.inner.events(), over: false }
    }

    /// As [`aio::Membership::leave`].
    ///
    /// # Errors
    /// As there.
    pub fn leave(&self) -> Result<(), Error> {
        self.worker.run(self.inner.leave())
    }
}

/// A group's events: a blocking iterator that ends after [`Event::Deleted`].
#[derive(Debug)]
pub struct Events {
    worker: Arc<Worker>,
    inner: aio::Events,
    over: bool,
}

impl Events {
    /// Waits for the next event for at most `within`; `None` = no event.
    ///
    /// # Errors
    /// As [`aio::Events::next`].
    pub fn next_within(&mut self, within: Duration) -> Result<Option<Event>, Error> {
        self.worker.run(async { timeout(within, self.inner.next()).await.ok().transpose() })
    }
}

impl Iterator for Events {
    type Item = Result<Event, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let next = self.worker.run(self.inner.next());
        self.over = matches!(next, Ok(Event::Deleted));
        Some(next)
    }
}
