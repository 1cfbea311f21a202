// SPDX-License-Identifier: Apache-2.0
//! HTTP over TCP on loopback: which Host headers are accepted, and that open connections do not prevent shutdown.
#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use canopy_controller_runtime::{Listen, Parts, run};
use canopy_store::MemStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const DEADLINE: Duration = Duration::from_secs(30);

async fn start() -> (SocketAddr, watch::Sender<bool>, JoinHandle<anyhow::Result<()>>) {
    let listener = Listen::Tcp(([127, 0, 0, 1], 0).into()).bind().await.unwrap();
    let Listen::Tcp(address) = listener.address().unwrap() else { panic!("not TCP") };
    let (stop, shutdown) = watch::channel(false);
    let parts = Parts {
        store: Arc::new(MemStore::new()),
        addressing: Default::default(),
        thresholds: Default::default(),
        hmac: Default::default(),
        traces: None,
        lease_grace: Duration::from_secs(60),
        registrar: None,
        attestor: None,
        roles: Default::default(),
        quotas: Default::default(),
        tokens: Default::default(),
        accounts: None,
        grpc: vec![],
        rest: vec![listener],
        web: None,
        single_sign_on: None,
        shutdown,
        on_ready: Box::new(|| ()),
    };
    (address, stop, tokio::spawn(run(parts)))
}

/// The first bytes of the answer to a request for `/livez` that names `host`; the connection stays open.
async fn ask(address: SocketAddr, host: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET /livez HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).await.unwrap();
    let mut buffer = [0; 4096];
    let n = tokio::time::timeout(DEADLINE, stream.read(&mut buffer)).await.unwrap().unwrap();
    (String::from_utf8_lossy(&buffer[..n]).into_owned(), stream)
}

#[tokio::test]
async fn only_requests_that_name_this_machine_are_taken() {
    let (address, stop, task) = start().await;
    assert!(ask(address, &address.to_string()).await.0.starts_with("HTTP/1.1 200"));
    let (answer, _) = ask(address, "rebound.example").await;
    assert!(answer.starts_with("HTTP/1.1 421") && answer.contains("problem+json"), "{answer}");
    stop.send_replace(true);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn connections_that_are_kept_open_do_not_keep_it_from_ending() {
    let (address, stop, task) = start().await;
    let (_, _idle) = ask(address, "localhost").await;
    let mut half = TcpStream::connect(address).await.unwrap();
    half.write_all(b"GET /livez HT").await.unwrap();
    stop.send_replace(true);
    tokio::time::timeout(DEADLINE, task).await.expect("it does not end").unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it still accepts");
}

/// Catches a caller without a name, and one that is always the controller's own user.
#[tokio::test]
async fn a_write_over_loopback_has_the_user_who_sent_it() {
    let (address, stop, task) = start().await;
    let body = r#"{"apiVersion":"canopy/v1","kind":"Group","metadata":{"name":"g1"},"spec":{}}"#;
    let request = format!(
        "POST /api/v1/groups HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let mut buffer = [0; 4096];
    while !answer.ends_with('}') {
        let n = tokio::time::timeout(DEADLINE, stream.read(&mut buffer)).await.unwrap().unwrap();
        assert_ne!(n, 0, "{answer}");
        answer += &String::from_utf8_lossy(&buffer[..n]);
    }
    let uid = nix::unistd::geteuid().as_raw();
    assert!(answer.contains(r#""writtenBy":{"kind":"operator","name":""#), "{answer}");
    assert!(answer.contains(&format!(r#","uid":{uid}}}"#)), "{answer}");
    stop.send_replace(true);
    task.await.unwrap().unwrap();
}
