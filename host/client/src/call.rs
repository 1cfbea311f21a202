// SPDX-License-Identifier: Apache-2.0
//! Connects to a server, and retries calls while it is unreachable.

use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::Error;

/// Time limit for connecting: the kernel queues the connection of an agent that hangs.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// An agent that hangs, or was stopped, is detected within the sum.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Longest time between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Opens the socket once, so that an error is reported at once, and returns a channel that reconnects.
pub(crate) async fn channel(path: &Path) -> Result<Channel, Error> {
    let uri = path.to_str().filter(|p| p.starts_with('/')).ok_or_else(|| Error::Invalid {
        field: "path".to_owned(),
        reason: format!("{path:?} is not an absolute path in UTF-8, such as {}", crate::DEFAULT_SOCKET),
    })?;
    let opened = tokio::net::UnixStream::connect(path).await;
    drop(opened.map_err(|source| Error::Socket { path: path.to_owned(), reason: reason(&source), source })?);
    let endpoint = Endpoint::from_shared(format!("unix:{uri}"))
        .map_err(|error| Error::Invalid { field: "path".to_owned(), reason: format!("{path:?}: {error}") })?
        .connect_timeout(CONNECT_WITHIN)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    Ok(endpoint.connect_lazy())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "there is no such socket: is canopy-agent running, and is this its host_socket.path?".to_owned()
        }
        ErrorKind::ConnectionRefused => "no process listens on the socket: start canopy-agent".to_owned(),
        ErrorKind::PermissionDenied => "this user may not open the agent's socket: let it be a member of the agent's \
             host_socket.group, and add it to host_socket.uids"
            .to_owned(),
        _ => format!("cannot be opened: {error}"),
    }
}

/// Repeats `call` until the result is not [`Error::Unavailable`], or `within` has passed.
pub(crate) async fn until_answered<T, F>(within: Duration, mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let deadline = Instant::now() + within;
    let mut pause = Pause::default();
    let mut last = format!("no answer within {within:?}");
    loop {
        match timeout_at(deadline, call()).await {
            Ok(Ok(answer)) => return Ok(answer.into_inner()),
            Ok(Err(status)) => match Error::from(status) {
                Error::Unavailable(reason) => last = reason,
                settled => return Err(settled),
            },
            Err(_) => return Err(Error::Unavailable(last)),
        }
        let wait = pause.next();
        if Instant::now() + wait >= deadline {
            return Err(Error::Unavailable(last));
        }
        sleep(wait).await;
    }
}

/// Time between attempts: 50 ms, doubling up to 2 s, each drawn from its upper half, so that applications that lost
/// the same agent do not reconnect at the same time.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    doubled: u32,
}

impl Pause {
    pub(crate) fn next(&mut self) -> Duration {
        let full = Duration::from_millis(50 << self.doubled.min(6)).min(MAX_PAUSE);
        self.doubled = (self.doubled + 1).min(6);
        // The operating system's keys of a hasher are random enough for this.
        let random = (RandomState::new().build_hasher().finish() >> 11) as f64 / (1_u64 << 53) as f64;
        full / 2 + (full / 2).mul_f64(random)
    }

    pub(crate) fn reset(&mut self) {
        self.doubled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_their_bound_and_start_over() {
        let mut pause = Pause::default();
        assert!(pause.next() <= Duration::from_millis(50));
        let last = (0..100).map(|_| pause.next()).last();
        assert!(last.is_some_and(|last| (MAX_PAUSE / 2..=MAX_PAUSE).contains(&last)));
        pause.reset();
        assert!(pause.next() <= Duration::from_millis(50));
    }
}
