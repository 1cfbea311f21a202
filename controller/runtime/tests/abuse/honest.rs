// SPDX-License-Identifier: Apache-2.0
//! Callers who do what they should, all the time: an operator on the controller's machine and one elsewhere, the agent of a node, and that of
//! a host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_control::pb;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::node_service_client::NodeServiceClient;
use hyper_util::rt::TokioIo;
use tokio_rustls::rustls::ClientConfig;
use tonic::transport::{Channel, Endpoint};

use crate::DEADLINE;
use crate::ground::Ground;
use crate::wire::{self, HERE, Wire};

/// What one caller got.
#[derive(Default)]
pub(crate) struct Got {
    /// How long each answer took.
    pub(crate) answers: Vec<Duration>,
    pub(crate) failures: Vec<String>,
}

impl Got {
    /// The answer that only one of a hundred exceeds, and the longest.
    pub(crate) fn tail(&self) -> (Duration, Duration) {
        let mut sorted = self.answers.clone();
        sorted.sort_unstable();
        let at = |share: usize| sorted.get(sorted.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
        (at(99), at(100))
    }

    async fn note(&mut self, what: &str, call: impl Future<Output = Result<(), String>>) {
        let begun = Instant::now();
        match tokio::time::timeout(DEADLINE, call).await {
            Ok(Ok(())) => self.answers.push(begun.elapsed()),
            Ok(Err(why)) => self.failures.push(format!("{what}: {why}")),
            Err(_) => self.failures.push(format!("{what}: no answer within {DEADLINE:?}")),
        }
    }
}

/// The callers' names, in the order of [`all`].
pub(crate) const CALLERS: [&str; 4] = ["operator here", "operator elsewhere", "node agent", "host agent"];

/// Lets all of them call until then, each over new connections, as one that was just started does.
pub(crate) async fn all(ground: &Ground, until: Instant) -> [Got; 4] {
    let (here, elsewhere, node, host) =
        tokio::join!(here(ground, until), elsewhere(ground, until), node(ground, until), host(ground, until));
    [here, elsewhere, node, host]
}

/// Between two calls of a caller.
const PAUSE: Duration = Duration::from_millis(10);

async fn here(ground: &Ground, until: Instant) -> Got {
    let mut got = Got::default();
    while Instant::now() < until {
        got.note("list", async { rest(ground.local().await, "GET", "/api/v1/groups", None, "").await }).await;
        let body = format!(
            r#"{{"apiVersion":"canopy/v1","kind":"Group","metadata":{{"name":"honest","labels":{{"n":"{}"}}}},"spec":{{}}}}"#,
            got.answers.len()
        );
        got.note("write", async { rest(ground.local().await, "PUT", "/api/v1/groups/honest", None, &body).await })
            .await;
        tokio::time::sleep(PAUSE).await;
    }
    got
}

async fn elsewhere(ground: &Ground, until: Instant) -> Got {
    let mut got = Got::default();
    while Instant::now() < until {
        let call = async { rest(ground.remote().await, "GET", "/api/v1/groups", Some(&ground.operator), "").await };
        got.note("list over TLS", call).await;
        tokio::time::sleep(PAUSE).await;
    }
    got
}

async fn rest(
    wire: std::io::Result<Wire>,
    method: &str,
    path: &str,
    bearer: Option<&str>,
    body: &str,
) -> Result<(), String> {
    let mut wire = wire.map_err(|error| format!("connecting: {error}"))?;
    let head = wire::head(method, path, bearer, body.len());
    match wire::ask(&mut wire, &head, body.as_bytes()).await {
        Ok((200..300, _)) => Ok(()),
        Ok((_, text)) => Err(text),
        Err(error) => Err(error.to_string()),
    }
}

async fn node(ground: &Ground, until: Instant) -> Got {
    let mut got = Got::default();
    while Instant::now() < until {
        let report = pb::ReportRequest { node: "n1".into(), ..Default::default() };
        let call = async {
            let mut client = NodeServiceClient::new(channel(ground, &ground.keys.honest_node));
            client.report(report).await.map(drop).map_err(|status| format!("{status:?}"))
        };
        got.note("report", call).await;
        tokio::time::sleep(PAUSE).await;
    }
    got
}

async fn host(ground: &Ground, until: Instant) -> Got {
    let mut got = Got::default();
    while Instant::now() < until {
        let mut client = MembershipServiceClient::new(channel(ground, &ground.keys.honest_host));
        let join = pb::JoinRequest {
            group: "honest".into(),
            host: "s1".into(),
            role: pb::Role::Receiver.into(),
            qpn: 99,
            ..Default::default()
        };
        let leave = pb::LeaveRequest { group: "honest".into(), host: "s1".into(), ..Default::default() };
        let text = |status: tonic::Status| format!("{status:?}");
        got.note("join", async { client.join(join).await.map(drop).map_err(text) }).await;
        got.note("leave", async { client.leave(leave).await.map(drop).map_err(text) }).await;
        tokio::time::sleep(PAUSE).await;
    }
    got
}

fn channel(ground: &Ground, config: &Arc<ClientConfig>) -> Channel {
    let (port, config) = (ground.grpc, config.clone());
    Endpoint::from_static("http://controller").connect_with_connector_lazy(tower::service_fn(move |_| {
        let config = config.clone();
        async move { wire::tls(HERE, port, config).await.map(TokioIo::new) }
    }))
}
