// SPDX-License-Identifier: Apache-2.0
//! Agents in Kubernetes: the token of a service account, confirmed by an API server, makes the agent of one node or host, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_controller_api::sign_in::Credential;
use canopy_controller_authority::{Registrar, Settings};
use canopy_controller_kubernetes::{self as kubernetes, Attestor, Outcome};
use canopy_controller_runtime::accounts;
use canopy_identity::{Credentials, PrivateKey, Subject, Trust};
use canopy_testkit::kubernetes::{FakeApi, Mood, Pod};
use canopy_units::UnixTime;
use hyper::Method;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::service_fn;

use crate::support::{Controller, DEADLINE};

/// A controller that asks an API server.
struct Domain {
    controller: Controller,
    registrar: Arc<Registrar>,
    api: FakeApi,
    directory: tempfile::TempDir,
}

impl Domain {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (domain, lifetime) = ("canopy".parse().unwrap(), Duration::from_secs(3600));
        let authority = Settings { directory: directory.path().join("identity"), domain, lifetime };
        let registrar = Registrar::open(authority, UnixTime::now()).unwrap();
        let api = FakeApi::start(directory.path()).await;
        let attestor = Attestor::new(settings(&api));
        let controller = Controller::start_attesting(directory.path(), registrar.clone(), attestor).await;
        Self { controller, registrar, api, directory }
    }

    fn channel(&self, own: Option<Arc<Credentials>>) -> Channel {
        let (port, trust) = (self.controller.tls_port(), Trust::Token(self.registrar.authority()));
        Endpoint::from_static("http://controller").connect_with_connector_lazy(service_fn(move |_| {
            let (trust, own) = (trust.clone(), own.clone());
            async move {
                let config = canopy_identity::client(trust, own.as_deref()).unwrap();
                canopy_identity::connect("127.0.0.1", port, Arc::new(config)).await.map(TokioIo::new)
            }
        }))
    }

    async fn enroll(&self, token: &str, subject: &str) -> Result<Arc<Credentials>, Status> {
        let key = PrivateKey::generate().unwrap();
        let request = pb::EnrollRequest {
            subject: subject.into(),
            request: key.request().unwrap(),
            kubernetes_token: token.into(),
            ..Default::default()
        };
        let answer = IdentityServiceClient::new(self.channel(None)).enroll(request).await?;
        let pb::Certified { chain, authorities, .. } = answer.into_inner().certified.unwrap();
        Ok(Arc::new(Credentials::new(key, chain, authorities).unwrap()))
    }

    async fn events(&self, code: &str) -> Vec<String> {
        let server = format!("unix:{}", self.directory.path().join("rest.sock").display());
        let client = canopy_ctl::client::Client::new(&server, None).unwrap();
        let list: Value = client.get("events", &format!("/api/v1/events?code={code}")).await.unwrap();
        list["items"].as_array().unwrap().iter().map(|item: &Value| item["detail"].as_str().unwrap().into()).collect()
    }
}

fn settings(api: &FakeApi) -> kubernetes::Settings {
    kubernetes::Settings {
        api: api.url().parse().unwrap(),
        ca_file: api.ca_file(),
        token_file: api.token_file(),
        audience: "canopy".into(),
        node_agents: Some("canopy/canopy-agent".parse().unwrap()),
        host_agents: Some("canopy/canopy-host-agent".parse().unwrap()),
        publish: Some("canopy/canopy-authority".parse().unwrap()),
        nodes: [("worker-1".to_owned(), "n1".to_owned())].into(),
        hosts: Default::default(),
    }
}

fn refused(answer: Result<Arc<Credentials>, Status>, code: Code, text: &str) {
    let status = answer.unwrap_err();
    assert!(status.code() == code && status.message().contains(text), "{status:?}");
}

/// Catches a token of any pod that makes any agent: of another node, of another service account, for another program.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_makes_the_agent_of_its_own_node_and_of_no_other() {
    let domain = Domain::start().await;
    let (node, host) = ("canopy:canopy-agent", "canopy:canopy-host-agent");
    domain.api.know("node-1", Pod::new(node, "worker-1"));
    domain.api.know("host-2", Pod::new(host, "worker-2"));
    domain.api.know("stranger", Pod::new("default:canopy-agent", "worker-1"));
    domain.api.know("elsewhere", Pod { audience: "vault".into(), ..Pod::new(node, "worker-1") });
    domain.api.know("old", Pod { node: None, ..Pod::new(node, "worker-1") });
    let own = domain.enroll("node-1", "node/n1").await.unwrap();
    assert_eq!(own.certificate.subject, Subject::Node("n1".into()));
    let of_host = domain.enroll("host-2", "host/worker-2").await.unwrap();
    assert_eq!(of_host.certificate.subject, Subject::Host("worker-2".into()));
    // What was got is a certificate like any other.
    let watch = pb::WatchGroupRequest { group: "none".into(), ..Default::default() };
    let found = MembershipServiceClient::new(domain.channel(Some(own))).watch_group(watch).await.unwrap_err();
    assert_eq!(found.code(), Code::NotFound);

    let denied = Code::PermissionDenied;
    refused(domain.enroll("node-1", "node/n2").await, denied, "it makes node/n1");
    refused(domain.enroll("node-1", "node/worker-1").await, denied, "it makes node/n1");
    refused(domain.enroll("node-1", "host/n1").await, denied, "it makes node/n1");
    refused(domain.enroll("node-1", "controller").await, denied, "it makes node/n1");
    refused(domain.enroll("host-2", "node/worker-2").await, denied, "it makes host/worker-2");
    refused(domain.enroll("stranger", "node/n1").await, denied, "it makes nothing");
    refused(domain.enroll("elsewhere", "node/n1").await, denied, "audience");
    refused(domain.enroll("old", "node/n1").await, denied, "names no node");
    refused(domain.enroll("unknown", "node/n1").await, denied, "does not accept the token");
    let asked = domain.api.reviews();
    refused(domain.enroll("not a token", "node/n1").await, Code::InvalidArgument, "kubernetes_token");
    refused(domain.enroll("node-1", "node/N1").await, Code::InvalidArgument, "subject");
    assert_eq!(domain.api.reviews(), asked, "the API server was asked for nothing");
    let enrolled = domain.events("Enrolled").await;
    assert!(
        enrolled.len() == 2 && enrolled.iter().any(|e| e.contains("pod canopy-agent-x2x on node worker-1")),
        "{enrolled:?}"
    );
    // A stranger who reaches the port fills no events, pods of the cluster do.
    assert_eq!(domain.events("EnrollmentRefused").await.len(), 6);
    domain.controller.stop().await;
}

/// Catches a revoked agent that its DaemonSet brings back, and an operator's token that does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_node_comes_back_by_an_operator_alone() {
    let domain = Domain::start().await;
    domain.api.know("node-1", Pod::new("canopy:canopy-agent", "worker-1"));
    domain.enroll("node-1", "node/n1").await.unwrap();
    let subject = Subject::Node("n1".into());
    domain.registrar.revoke(&subject, UnixTime::now()).unwrap();
    refused(domain.enroll("node-1", "node/n1").await, Code::PermissionDenied, "does not bring it back");
    let token = domain.registrar.hand_out(subject.clone(), UnixTime::now()).unwrap().token;
    let key = PrivateKey::generate().unwrap();
    domain.registrar.enroll(&token.secret, &subject, &key.request().unwrap(), UnixTime::now()).unwrap();
    domain.controller.stop().await;
}

/// Catches an API server that is away and takes the controller with it, and one that is believed whatever it answers.
#[tokio::test(flavor = "multi_thread")]
async fn without_the_api_server_an_enrollment_is_to_be_tried_again() {
    let domain = Domain::start().await;
    domain.api.know("node-1", Pod::new("canopy:canopy-agent", "worker-1"));
    let own = domain.enroll("node-1", "node/n1").await.unwrap();
    for (mood, text) in [(Mood::Fails(500), "500"), (Mood::Floods, "limit"), (Mood::Hangs, "no answer within 5s")] {
        domain.api.set(mood);
        refused(domain.enroll("node-1", "node/n1").await, Code::Unavailable, text);
    }
    domain.api.set(Mood::Fails(403));
    refused(domain.enroll("node-1", "node/n1").await, Code::FailedPrecondition, "tokenreviews");
    // Another one at its address has no certificate of the cluster.
    domain.api.set(Mood::Well);
    let (ca, kept) = (domain.api.ca_file(), std::fs::read(domain.api.ca_file()).unwrap());
    let other = tempfile::tempdir().unwrap();
    let _other = FakeApi::start(other.path()).await;
    std::fs::copy(other.path().join("ca.crt"), &ca).unwrap();
    refused(domain.enroll("node-1", "node/n1").await, Code::Unavailable, "certificate");
    std::fs::write(&ca, kept).unwrap();
    domain.enroll("node-1", "node/n1").await.unwrap();
    let Domain { controller, registrar, api, directory } = domain;
    drop(api);
    let domain =
        Domain { controller, registrar, api: FakeApi::start(tempfile::tempdir().unwrap().path()).await, directory };
    refused(domain.enroll("node-1", "node/n1").await, Code::Unavailable, "did not answer");
    // Renewals do not ask the API server.
    let request = pb::RenewRequest { request: own.key.request().unwrap() };
    IdentityServiceClient::new(domain.channel(Some(own))).renew(request).await.unwrap();
    assert!(Outcome::Unavailable.counted() >= 6 && Outcome::Accepted.counted() >= 2);
    domain.controller.stop().await;
}

/// Catches an agent that learns of pods on other nodes, a caller without a certificate that learns of any, and a token that an answer shows.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_pod_names_it_to_the_agent_of_its_own_node_alone() {
    let domain = Domain::start().await;
    domain.api.know("node-1", Pod::new("canopy:canopy-agent", "worker-1"));
    domain.api.know("host-2", Pod::new("canopy:canopy-host-agent", "worker-2"));
    let (node, host) =
        (domain.enroll("node-1", "node/n1").await.unwrap(), domain.enroll("host-2", "host/worker-2").await.unwrap());
    let trainer = Pod { uid: Some("0a1b".into()), ..Pod::new("training:trainer", "worker-1") };
    domain.api.know("of.the.trainer", trainer.clone());
    domain.api.know("of.the.second", Pod { node: Some("worker-2".into()), ..trainer.clone() });
    domain.api.know("of.the.vault", Pod { audience: "vault".into(), ..trainer });
    let ask = async |own: &Option<Arc<Credentials>>, token: &str| {
        let request = pb::IdentifyPodRequest { kubernetes_token: token.into() };
        let answer = IdentityServiceClient::new(domain.channel(own.clone())).identify_pod(request).await;
        answer.map(tonic::Response::into_inner).map_err(|status| {
            assert!(!status.message().contains("of.the"), "{status}");
            (status.code(), status.message().to_owned())
        })
    };
    let (node, host) = (Some(node), Some(host));
    let found = ask(&node, "of.the.trainer").await.unwrap();
    let wanted = pb::IdentifyPodResponse {
        account: "training/trainer".into(),
        pod: "trainer-x2x".into(),
        pod_uid: "0a1b".into(),
    };
    assert_eq!(found, wanted);
    assert_eq!(ask(&host, "of.the.second").await.unwrap(), wanted);
    let denied = Code::PermissionDenied;
    for (own, token, why) in [
        (&node, "of.the.second", "node worker-2 is not of a pod at node/n1: its node is node/worker-2"),
        (&host, "of.the.trainer", "node worker-1 is not of a pod at host/worker-2: its node is host/worker-1"),
        (&node, "of.the.vault", "audience"),
        (&node, "of.the.dead", "does not accept"),
    ] {
        let (code, text) = ask(own, token).await.unwrap_err();
        assert!(code == denied && text.contains(why), "{token}: {text}");
    }
    let asked = domain.api.reviews();
    assert_eq!(ask(&None, "of.the.trainer").await.unwrap_err().0, Code::Unauthenticated);
    let request = pb::IdentifyPodRequest { kubernetes_token: "of.the.trainer".into() };
    let local = IdentityServiceClient::new(domain.controller.channel().await).identify_pod(request).await.unwrap_err();
    assert!(local.code() == denied && local.message().contains("only an agent"), "{local}");
    assert_eq!(domain.api.reviews(), asked, "the API server was asked for nothing");
    domain.api.set(Mood::Fails(500));
    assert_eq!(ask(&node, "of.the.trainer").await.unwrap_err().0, Code::Unavailable);
    domain.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_authority_is_published_for_agents() {
    let domain = Domain::start().await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while domain.api.applied().is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let (path, content) = domain.api.applied().remove(0);
    assert_eq!(path, "/api/v1/namespaces/canopy/configmaps/canopy-authority");
    assert_eq!(content["data"]["authorities"], format!("{}\n", domain.registrar.authority()));
    domain.controller.stop().await;
}

/// Catches a token of any pod that is a caller of the REST API, one that has more than its role, a stream that outlasts the token, and an API
/// server that is asked for each request.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_account_has_the_role_that_the_configuration_gives_it() {
    let domain = Domain::start().await;
    let server = format!("unix:{}", domain.directory.path().join("rest.sock").display());
    let send = async |token: &str, path: &str| {
        let client = canopy_ctl::client::Client::new(&server, None).unwrap();
        let client = client.with_token(Some(Credential(token.to_owned()))).unwrap();
        let answer = client.send(Method::GET, path, None).await.unwrap();
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    domain.api.know("of.the.cleanup", Pod::new("canopy:canopy-cleanup", "worker-1"));
    domain.api.know("of.the.prometheus", Pod::new("monitoring:prometheus", "worker-2"));
    domain.api.know("of.an.agent", Pod::new("canopy:canopy-agent", "worker-1"));
    let vaults = Pod { audience: "vault".into(), ..Pod::new("canopy:canopy-cleanup", "worker-1") };
    domain.api.know("of.the.vault", vaults);
    for _ in 0..3 {
        let (status, caller) = send("of.the.cleanup", "/api/v1/caller").await;
        assert!(
            status == 200 && caller.contains("serviceaccount:canopy/canopy-cleanup") && caller.contains("\"admin\""),
            "{caller}"
        );
    }
    assert_eq!(domain.api.reviews(), 1, "each request has asked the API server");
    let at_once = (0..20).map(|_| send("of.the.prometheus", "/metrics"));
    assert!(futures::future::join_all(at_once).await.iter().all(|(status, _)| *status == 200));
    assert_eq!(domain.api.reviews(), 2, "each of the requests at once has asked the API server");
    assert_eq!(send("of.the.prometheus", "/metrics").await.0, 200);
    let (status, why) = send("of.the.prometheus", "/api/v1/nodes").await;
    assert!(status == 403 && why.contains("RoleNeeded"), "{why}");
    for (token, reason) in [
        ("of.an.agent", "canopy/canopy-agent has no role"),
        ("of.the.vault", "audience"),
        ("of.no.one", "does not accept"),
        ("not a.token", "not a token"),
    ] {
        let (status, why) = send(token, "/api/v1/caller").await;
        assert!(status == 401 && why.contains("TokenNotValid") && why.contains(reason), "{token}: {why}");
        assert!(!why.contains(token), "{why}");
    }
    domain.api.set(Mood::Fails(500));
    let (status, why) = send("another.of.it", "/api/v1/caller").await;
    assert!(status == 503 && why.contains("TokenNotConfirmed"), "{why}");
    let (attestor, none) = (Arc::new(Attestor::new(settings(&domain.api))), Default::default());
    assert!(accounts::of(Some(attestor), none).is_none(), "without roles, bearers would be sent to the API server");
    // What was confirmed a moment ago is known.
    assert_eq!(send("of.the.cleanup", "/api/v1/caller").await.0, 200);
    domain.controller.stop().await;
}
