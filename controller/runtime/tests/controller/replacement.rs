// SPDX-License-Identifier: Apache-2.0
//! The controller's authority is replaced while agents are connected: streams, tokens, revocations, and who was left behind.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_control::pb;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_controller_authority::{Act, Registrar, Settings};
use canopy_identity::{Credentials, PrivateKey, Subject, Trust};
use canopy_units::UnixTime;
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};
use tower::service_fn;

use crate::support::{Controller, DEADLINE, LAB};

const LIFETIME: Duration = Duration::from_secs(3600);

fn registrar(directory: &Path) -> Arc<Registrar> {
    let directory = directory.join("identity");
    let settings = Settings { directory, domain: "canopy".parse().unwrap(), lifetime: LIFETIME };
    Registrar::open(settings, UnixTime::now()).unwrap()
}

/// A channel that shows `own`, if it is anything.
fn channel(port: u16, trust: Trust, own: Option<Arc<Credentials>>) -> Channel {
    Endpoint::from_static("http://controller").connect_with_connector_lazy(service_fn(move |_| {
        let (trust, own) = (trust.clone(), own.clone());
        async move {
            let config = canopy_identity::client(trust, own.as_deref()).unwrap();
            canopy_identity::connect("127.0.0.1", port, Arc::new(config)).await.map(TokioIo::new)
        }
    }))
}

fn trust(own: &Credentials) -> Trust {
    Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone())
}

fn dial(port: u16, own: &Arc<Credentials>) -> Channel {
    channel(port, trust(own), Some(own.clone()))
}

async fn enroll(port: u16, token: &canopy_identity::EnrollmentToken, name: &str) -> Result<Arc<Credentials>, Status> {
    let key = PrivateKey::generate().unwrap();
    let request = key.request().unwrap();
    let mut client = IdentityServiceClient::new(channel(port, Trust::Token(token.authority), None));
    let request =
        pb::EnrollRequest { secret: token.secret.0.to_vec(), subject: name.into(), request, ..Default::default() };
    let made = client.enroll(request).await?.into_inner().certified.unwrap();
    Ok(Arc::new(Credentials::new(key, made.chain, made.authorities).unwrap()))
}

async fn renewed(port: u16, own: &Arc<Credentials>) -> Result<Arc<Credentials>, Status> {
    let request = own.key.request().unwrap();
    let answer = IdentityServiceClient::new(dial(port, own)).renew(pb::RenewRequest { request }).await?;
    let made = answer.into_inner().certified.unwrap();
    let key = PrivateKey::from_pem(&own.key.to_pem()).unwrap();
    Ok(Arc::new(Credentials::new(key, made.chain, made.authorities).unwrap()))
}

/// The same certificate with other authorities to trust.
fn trusting(own: &Credentials, authorities: Vec<Vec<u8>>) -> Arc<Credentials> {
    let key = PrivateKey::from_pem(&own.key.to_pem()).unwrap();
    let chain = own.chain.iter().map(|der| der.to_vec()).collect();
    Arc::new(Credentials::new(key, chain, authorities).unwrap())
}

async fn follow(port: u16, own: &Arc<Credentials>) -> Result<Streaming<pb::FollowAuthoritiesResponse>, Status> {
    let trusted = own.trusted().unwrap().iter().map(|hash| hash.0.to_vec()).collect();
    let request = pb::FollowAuthoritiesRequest { trusted, certificate: own.chain[0].to_vec() };
    Ok(IdentityServiceClient::new(dial(port, own)).follow_authorities(request).await?.into_inner())
}

async fn next(stream: &mut Streaming<pb::FollowAuthoritiesResponse>) -> pb::FollowAuthoritiesResponse {
    tokio::time::timeout(DEADLINE, stream.message()).await.expect("no instruction").unwrap().unwrap()
}

async fn watch(port: u16, own: &Arc<Credentials>, node: &str) -> Result<Streaming<pb::WatchResponse>, Status> {
    let request = pb::WatchRequest { node: node.into(), ..Default::default() };
    let mut stream = NodeServiceClient::new(dial(port, own)).watch(request).await?.into_inner();
    stream.message().await?.ok_or_else(|| Status::unavailable("no snapshot"))?;
    Ok(stream)
}

fn is_open(stream: &mut Streaming<pb::WatchResponse>) -> bool {
    use tokio_stream::Stream;
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        match std::pin::Pin::new(&mut *stream).poll_next(&mut cx) {
            std::task::Poll::Pending => return true,
            std::task::Poll::Ready(Some(Ok(_))) => {}
            std::task::Poll::Ready(_) => return false,
        }
    }
}

/// Credentials whose certificate has expired, and can be renewed.
fn made_earlier(registrar: &Registrar, name: &str) -> Arc<Credentials> {
    let (subject, key): (Subject, _) = (name.parse().unwrap(), PrivateKey::generate().unwrap());
    let at = UnixTime::from_nanos(UnixTime::now().nanos() - 2 * LIFETIME.as_nanos() as u64);
    let token = registrar.hand_out(subject.clone(), at).unwrap().token;
    let made = registrar.enroll(&token.secret, &subject, &key.request().unwrap(), at).unwrap();
    Arc::new(Credentials::new(key, made.chain, made.authorities).unwrap())
}

/// Catches a step that ends a stream before its agent has another certificate, a token that a step makes worthless, a revocation that one
/// forgets, an agent that was left behind and is let in, and a step that neither audit nor events have.
#[tokio::test(flavor = "multi_thread")]
async fn streams_tokens_and_revocations_outlast_the_replacement() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = registrar(directory.path());
    let expired = made_earlier(&registrar, "host/old");
    let controller = Controller::start_tls(directory.path(), registrar).await;
    controller.apply(LAB).await.unwrap();
    let port = controller.tls_port();
    let token = async |name: &str| -> canopy_identity::EnrollmentToken {
        let (kind, name) = name.split_once('/').unwrap();
        controller.ctl(&[kind, "enroll", name]).await.unwrap().parse().unwrap()
    };
    let first = token("node/n1").await;
    let own = enroll(port, &first, "node/n1").await.unwrap();
    let behind = enroll(port, &token("host/r1").await, "host/r1").await.unwrap();
    let revoked = enroll(port, &token("node/n2").await, "node/n2").await.unwrap();
    controller.ctl(&["node", "revoke", "n2"]).await.unwrap();
    let mut stream = watch(port, &own, "n1").await.unwrap();
    let mut instructions = follow(port, &own).await.unwrap();
    let shown = controller.ctl(&["ca", "status"]).await.unwrap();
    assert!(shown.contains("Replacement:  none") && shown.contains("3 of 3 are ready"), "{shown}");

    let shown = controller.ctl(&["ca", "rotate"]).await.unwrap();
    assert!(shown.contains("announced since") && shown.contains("host/r1: away, does not trust"), "{shown}");
    let sent = next(&mut instructions).await;
    assert_eq!((sent.authorities.len(), sent.renew_within_ns), (2, 0));
    let (code, refused) = controller.ctl(&["ca", "issue"]).await.unwrap_err();
    assert!(code == 4 && refused.contains("node/n1") && !refused.contains("host/r1"), "{code}: {refused}");
    // A token of before the next authority signs, used after it does.
    let early = token("host/s1").await;
    let own = trusting(&own, sent.authorities);
    let mut instructions = follow(port, &own).await.unwrap();
    controller.ctl(&["ca", "issue"]).await.unwrap();
    let sent = next(&mut instructions).await;
    assert_eq!((sent.authorities.len(), sent.renew_within_ns > 0), (0, true));
    let late = token("host/r2").await;
    assert!(early.authority == first.authority && late.authority != first.authority);
    for (token, name) in [(&early, "host/s1"), (&late, "host/r2")] {
        let made = enroll(port, token, name).await.unwrap();
        assert_eq!(made.trusted().unwrap().len(), 2, "{name}");
    }
    // One that knows the former authority alone reaches the controller still.
    assert!(follow(port, &behind).await.is_ok());
    assert!(renewed(port, &revoked).await.is_err());
    // One that was switched off for long comes back by itself until the former authority is dropped, which waits for it.
    let (_, refused) = controller.ctl(&["ca", "finish"]).await.unwrap_err();
    assert!(refused.contains("host/old"), "{refused}");
    let back = renewed(port, &expired).await.unwrap();
    assert!(follow(port, &back).await.is_ok());
    // An answer that does not arrive leaves the agent with the certificate that it shows: nothing is finished without it.
    let new = renewed(port, &own).await.unwrap();
    let all_but_it = ["ca", "finish", "--accept-loss", "host/r1", "--accept-loss", "host/s1"];
    let (_, refused) = controller.ctl(&all_but_it).await.unwrap_err();
    assert!(refused.contains("node/n1") && !refused.contains("host/s1") && !refused.contains("host/r2"), "{refused}");
    let mut instructions = follow(port, &new).await.unwrap();
    let (_, refused) = controller.ctl(&["ca", "finish"]).await.unwrap_err();
    assert!(refused.contains("host/r1") && !refused.contains("node/n1"), "{refused}");
    assert!(is_open(&mut stream), "a stream ended before the former authority was dropped");

    let began = Instant::now();
    controller.ctl(&["ca", "finish", "--accept-loss", "host/r1"]).await.unwrap();
    let ended = async { while let Ok(Some(_)) = stream.message().await {} };
    tokio::time::timeout(DEADLINE, ended).await.expect("a certificate of the former authority is still in use");
    let mut stream = watch(port, &new, "n1").await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "the stream was gone for {:?}", began.elapsed());
    let sent = next(&mut instructions).await;
    let last = trusting(&new, sent.authorities);
    assert_eq!((last.trusted().unwrap(), sent.renew_within_ns), (vec![late.authority], 0));
    assert!(follow(port, &last).await.is_ok());
    // The agent that was left behind trusts nothing that answers here, and gets the reason.
    let refused = follow(port, &behind).await.unwrap_err();
    let reason = std::error::Error::source(&refused).map(|source| format!("{source:?}")).unwrap_or_default();
    assert!(reason.contains("Authority"), "{refused:?}");
    // Neither with what the former authority has signed, nor with what was revoked under it.
    for own in [&behind, &revoked, &expired] {
        let known = trusting(own, last.authorities.iter().map(|der| der.to_vec()).collect());
        assert!(renewed(port, &known).await.is_err(), "{}", own.certificate.subject);
    }
    assert!(enroll(port, &first, "node/n1").await.is_err(), "a token of the former authority");
    assert!(is_open(&mut stream));
    let again = enroll(port, &token("host/r1").await, "host/r1").await.unwrap();
    assert_eq!(again.trusted().unwrap(), vec![late.authority]);

    let audit = controller.ctl(&["audit", "--kind", "identity", "-n", "50", "-o", "json"]).await.unwrap();
    for step in ["authority/rotate", "authority/issue", "authority/finish"] {
        assert_eq!(audit.matches(step).count(), 1, "{step}: {audit}");
    }
    let events = controller.ctl(&["get", "events", "-o", "json"]).await.unwrap();
    assert!(events.contains("AuthorityReplacement") && events.contains("left behind: host/r1"), "{events}");
    controller.stop().await;
}

/// Catches an agent that reports the certificate of another, an authority that a wrong report names, and a call without a certificate.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reports_its_own_certificate_alone() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = registrar(directory.path());
    let controller = Controller::start_tls(directory.path(), registrar.clone()).await;
    controller.apply(LAB).await.unwrap();
    let port = controller.tls_port();
    let of = async |name: &str| {
        let token = registrar.hand_out(name.parse().unwrap(), UnixTime::now()).unwrap().token;
        enroll(port, &token, name).await.unwrap()
    };
    let (own, other) = (of("node/n1").await, of("node/n2").await);
    let ask = async |channel: Channel, trusted: Vec<Vec<u8>>, certificate: Vec<u8>| {
        let request = pb::FollowAuthoritiesRequest { trusted, certificate };
        IdentityServiceClient::new(channel).follow_authorities(request).await.map(drop).unwrap_err()
    };
    let hash = vec![vec![7; 32]];
    for (trusted, certificate, field) in [
        (hash.clone(), other.chain[0].to_vec(), "certificate"),
        (hash.clone(), vec![], "certificate"),
        (vec![vec![7; 31]], own.chain[0].to_vec(), "trusted"),
        (vec![vec![7; 32]; 9], own.chain[0].to_vec(), "trusted"),
    ] {
        let refused = ask(dial(port, &own), trusted, certificate).await;
        assert!(refused.code() == Code::InvalidArgument && refused.message().starts_with(field), "{refused:?}");
    }
    let anonymous = channel(port, Trust::Token(registrar.authority()), None);
    assert_eq!(ask(anonymous, hash, own.chain[0].to_vec()).await.code(), Code::Unauthenticated);
    let known = [registrar.authority()];
    let shown = registrar.rotation(UnixTime::now()).holders;
    assert!(shown.iter().all(|one| one.trusts && one.authority == known[0]), "{shown:?}");
    controller.stop().await;
}

/// Catches a replacement that waits for days and raises no alert.
#[tokio::test(flavor = "multi_thread")]
async fn a_replacement_that_lasts_is_a_problem_until_it_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = registrar(directory.path());
    let subject: Subject = "node/n1".parse().unwrap();
    let token = registrar.hand_out(subject.clone(), UnixTime::now()).unwrap().token;
    let request = PrivateKey::generate().unwrap().request().unwrap();
    registrar.enroll(&token.secret, &subject, &request, UnixTime::now()).unwrap();
    let earlier = UnixTime::from_nanos(UnixTime::now().nanos() - LIFETIME.as_nanos() as u64);
    registrar.rotate(Act::Announce, &[], earlier).unwrap();
    registrar.rotate(Act::Issue, &[], earlier).unwrap();
    let controller = Controller::start_tls(directory.path(), registrar).await;
    let wait = async |is_there: bool| {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        loop {
            let problems = controller.ctl(&["get", "problems", "-o", "json"]).await.unwrap();
            if problems.contains("AuthorityReplacementLate") == is_there {
                return problems;
            }
            assert!(tokio::time::Instant::now() < deadline, "{problems}");
            tokio::task::yield_now().await;
        }
    };
    let problems = wait(true).await;
    assert!(problems.contains("node/n1"), "{problems}");
    controller.ctl(&["ca", "finish", "--accept-loss", "node/n1"]).await.unwrap();
    wait(false).await;
    controller.stop().await;
}
