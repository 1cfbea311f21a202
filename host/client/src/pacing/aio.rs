// SPDX-License-Identifier: Apache-2.0
//! The same API for applications with a tokio runtime. Every future may be dropped at any time.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::pacer_service_client::PacerServiceClient;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::transport::Channel;
use tonic::{Code, Response, Streaming};

use super::{Action, OpenOptions, Qp, Status, wire};
use crate::Error;
use crate::call::{Pause, channel};

/// Time limit of a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A host has at most 65,536 paced QPs, of some 100 octets each.
const MAX_ANSWER_BYTES: usize = 32 << 20;

type Grpc = PacerServiceClient<Channel>;

/// A connection to the daemon; clones share it. It reconnects when the daemon restarts.
#[derive(Clone, Debug)]
pub struct Client {
    grpc: Grpc,
}

impl Client {
    /// Connects to the daemon's socket at an absolute path; see [`DEFAULT_SOCKET`](super::DEFAULT_SOCKET).
    ///
    /// # Errors
    /// [`Error::Socket`]: it is not there, or this user may not open it.
    pub async fn connect(path: impl AsRef<Path>) -> Result<Self, Error> {
        let made = channel(path.as_ref()).await.map_err(of_the_pacer)?;
        Ok(Self { grpc: PacerServiceClient::new(made).max_decoding_message_size(MAX_ANSWER_BYTES) })
    }

    /// The daemon and its live queue pairs.
    ///
    /// # Errors
    /// The daemon did not answer within 5 s.
    pub async fn status(&self) -> Result<Status, Error> {
        wire::status(answer(self.grpc.clone().list_qps(pb::ListQpsRequest {})).await?)
    }

    /// Registers a queue pair. A repeated call changes what is different, and keeps the options of earlier calls.
    ///
    /// # Errors
    /// An argument is wrong, this user may not call the daemon, another queue pair has the flow, or the daemon did
    /// not answer within 5 s.
    pub async fn open(&self, options: OpenOptions) -> Result<Qp, Error> {
        let request = options.request()?;
        wire::qp(answer(self.grpc.clone().open_qp(request)).await?.qp)
    }

    /// Ends the pacing of a queue pair; succeeds if it is not paced.
    ///
    /// # Errors
    /// This user may not call the daemon, or it did not answer within 5 s.
    pub async fn close(&self, qpn: u32) -> Result<(), Error> {
        match timeout(ANSWER_WITHIN, self.grpc.clone().close_qp(pb::CloseQpRequest { qpn })).await {
            Ok(Err(status)) if status.code() == Code::NotFound => Ok(()),
            Ok(answered) => answered.map(drop).map_err(Error::from),
            Err(_) => Err(silent()),
        }
    }

    /// The state of every queue pair, then each change.
    pub fn actions(&self) -> Actions {
        Actions { grpc: self.grpc.clone(), stream: None, pause: Pause::default(), retry_at: None }
    }
}

/// Changes of a host's queue pairs. After an error the next call opens the watch again, which starts with their
/// state.
#[derive(Debug)]
pub struct Actions {
    grpc: Grpc,
    stream: Option<Box<Streaming<pb::WatchActionsResponse>>>,
    pause: Pause,
    retry_at: Option<Instant>,
}

impl Actions {
    /// Waits for the next change.
    ///
    /// # Errors
    /// [`Error::Unavailable`]: the daemon is away. Otherwise it refuses: too many watches are open.
    pub async fn next(&mut self) -> Result<Action, Error> {
        if let Some(at) = self.retry_at {
            sleep_until(at).await;
            self.retry_at = None;
        }
        let stream = match &mut self.stream {
            Some(open) => open,
            closed => match answer(self.grpc.watch_actions(pb::WatchActionsRequest {})).await {
                Ok(opened) => closed.insert(Box::new(opened)),
                Err(error) => {
                    self.retry_at = Some(Instant::now() + self.pause.next());
                    return Err(error);
                }
            },
        };
        let ended = match stream.message().await {
            Ok(Some(message)) => {
                self.pause.reset();
                return wire::action(message);
            }
            Ok(None) => Error::Unavailable("canopy-pacer stopped".to_owned()),
            Err(status) => Error::from(status),
        };
        self.stream = None;
        self.retry_at = Some(Instant::now() + self.pause.next());
        Err(ended)
    }
}

async fn answer<T>(call: impl Future<Output = Result<Response<T>, tonic::Status>>) -> Result<T, Error> {
    match timeout(ANSWER_WITHIN, call).await {
        Ok(answered) => answered.map(Response::into_inner).map_err(Error::from),
        Err(_) => Err(silent()),
    }
}

fn silent() -> Error {
    Error::Unavailable(format!("canopy-pacer did not answer within {ANSWER_WITHIN:?}"))
}

/// A socket of the daemon that cannot be opened needs another remedy than that of an agent.
fn of_the_pacer(error: Error) -> Error {
    let Error::Socket { path, source, reason } = error else { return error };
    let reason = match source.kind() {
        ErrorKind::NotFound => {
            "there is no such socket: is `canopy-pacer run` running, and is this its --socket?".to_owned()
        }
        ErrorKind::ConnectionRefused => "no process listens on the socket: start `canopy-pacer run`".to_owned(),
        ErrorKind::PermissionDenied => {
            "this user may not open canopy-pacer's socket: let it be a member of its --socket-group".to_owned()
        }
        _ => reason,
    };
    Error::Socket { path, reason, source }
}
