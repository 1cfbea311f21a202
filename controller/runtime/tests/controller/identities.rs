// SPDX-License-Identifier: Apache-2.0
//! Agents over TLS: what each identity may call, and how certificates are got, renewed and revoked.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::fabric_service_client::FabricServiceClient;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_control::pb::membership_service_client::MembershipServiceClient;
use canopy_control::pb::node_service_client::NodeServiceClient;
use canopy_controller_authority::{BACKDATED, Registrar, Settings, TOKEN_LIFE};
use canopy_identity::{Credentials, EnrollmentToken, PrivateKey, RENEWABLE, Secret, Subject, Trust};
use canopy_units::UnixTime;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tower::service_fn;

use crate::support::{Controller, DEADLINE, LAB};

const LIFETIME: Duration = Duration::from_secs(3600);

fn settings(directory: &Path) -> Settings {
    Settings { directory: directory.join("identity"), domain: "canopy".parse().unwrap(), lifetime: LIFETIME }
}

fn ago(span: Duration) -> UnixTime {
    UnixTime::from_nanos(UnixTime::now().nanos() - span.as_nanos() as u64)
}

/// A running controller with its authority.
struct Domain {
    controller: Controller,
    registrar: Arc<Registrar>,
    directory: tempfile::TempDir,
}

impl Domain {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let registrar = Registrar::open(settings(directory.path()), UnixTime::now()).unwrap();
        let controller = Controller::start_tls(directory.path(), registrar.clone()).await;
        Self { controller, registrar, directory }
    }

    fn trust(&self) -> Trust {
        Trust::Token(self.registrar.authority())
    }

    /// A connection with these credentials, or with none.
    fn channel(&self, trust: Trust, own: Option<Arc<Credentials>>) -> Channel {
        let port = self.controller.tls_port();
        Endpoint::from_static("http://controller").connect_with_connector_lazy(service_fn(move |_| {
            let (trust, own) = (trust.clone(), own.clone());
            async move {
                let config = canopy_identity::client(trust, own.as_deref()).unwrap();
                canopy_identity::connect("127.0.0.1", port, Arc::new(config)).await.map(TokioIo::new)
            }
        }))
    }

    /// Credentials of `subject` that were made at `now`.
    fn made(&self, subject: &str, now: UnixTime) -> Arc<Credentials> {
        made(&self.registrar, subject, now)
    }
}

fn made(registrar: &Registrar, subject: &str, now: UnixTime) -> Arc<Credentials> {
    let subject: Subject = subject.parse().unwrap();
    let token = registrar.hand_out(subject.clone(), now).unwrap().token;
    let key = PrivateKey::generate().unwrap();
    let made = registrar.enroll(&token.secret, &subject, &key.request().unwrap(), now).unwrap();
    Arc::new(Credentials::new(key, made.chain, made.authorities).unwrap())
}

/// What a client gets where the connection fails, not the call.
fn is_broken(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled)
}

/// Every call, each for node n1, host s1 at n1 or group g1.
const CALLS: [&str; 15] = [
    "watch",
    "report",
    "telemetry",
    "join own",
    "join other",
    "leave other",
    "hold own",
    "hold other",
    "watch group",
    "renew",
    "follow authorities",
    "enroll with a used token",
    "identify a pod",
    "fabric own",
    "fabric other",
];

/// Which of them are of which RPC.
const RPCS: [(&str, &[&str]); 12] = [
    ("Watch", &["watch"]),
    ("Report", &["report"]),
    ("StreamTelemetry", &["telemetry"]),
    ("Join", &["join own", "join other"]),
    ("Leave", &["leave other"]),
    ("HoldMembership", &["hold own", "hold other"]),
    ("WatchGroup", &["watch group"]),
    ("Renew", &["renew"]),
    ("FollowAuthorities", &["follow authorities"]),
    ("Enroll", &["enroll with a used token"]),
    ("IdentifyPod", &["identify a pod"]),
    ("WatchFabric", &["fabric own", "fabric other"]),
];

async fn call(what: &str, channel: Channel, own: Option<&Credentials>) -> Code {
    call_with(what, channel, own, &Secret([0; 16])).await
}

/// With the secret of an enrollment token that was used.
async fn call_with(what: &str, channel: Channel, own: Option<&Credentials>, used: &Secret) -> Code {
    let mut nodes = NodeServiceClient::new(channel.clone());
    let mut members = MembershipServiceClient::new(channel.clone());
    let join = |host: &str| pb::JoinRequest {
        group: "g1".into(),
        host: host.into(),
        role: pb::Role::Receiver.into(),
        qpn: 99,
        ..Default::default()
    };
    let answer: Result<(), Status> = match what {
        "watch" => nodes.watch(pb::WatchRequest { node: "n1".into(), ..Default::default() }).await.map(drop),
        "report" => nodes.report(pb::ReportRequest { node: "n1".into(), ..Default::default() }).await.map(drop),
        "telemetry" => {
            let sample = pb::StreamTelemetryRequest { node: "n1".into(), ..Default::default() };
            nodes.stream_telemetry(tokio_stream::iter([sample])).await.map(drop)
        }
        // A member already with another content: reaching the domain is what counts.
        "join own" => members.join(join("s1")).await.map(drop),
        "join other" => members.join(join("r1")).await.map(drop),
        "leave other" => {
            let leave = pb::LeaveRequest { group: "none".into(), host: "r1".into(), ..Default::default() };
            members.leave(leave).await.map(drop)
        }
        "hold own" | "hold other" => {
            let host = if what == "hold own" { "s1" } else { "r1" };
            let hold = pb::HoldMembershipRequest { group: "g1".into(), host: host.into() };
            match members.hold_membership(hold).await {
                Ok(answer) => answer.into_inner().message().await.map(drop),
                Err(refused) => Err(refused),
            }
        }
        "watch group" => {
            members.watch_group(pb::WatchGroupRequest { group: "g1".into(), ..Default::default() }).await.map(drop)
        }
        "renew" => {
            let other;
            let key = match own {
                Some(own) => &own.key,
                None => {
                    other = PrivateKey::generate().unwrap();
                    &other
                }
            };
            let request = pb::RenewRequest { request: key.request().unwrap() };
            IdentityServiceClient::new(channel).renew(request).await.map(drop)
        }
        "follow authorities" => {
            // An agent that trusts nothing yet, and shows what it has.
            let certificate = own.map(|own| own.chain[0].to_vec()).unwrap_or_default();
            let request = pb::FollowAuthoritiesRequest { trusted: vec![], certificate };
            IdentityServiceClient::new(channel).follow_authorities(request).await.map(drop)
        }
        "enroll with a used token" => {
            let (key, subject) = (PrivateKey::generate().unwrap(), "node/n3".to_owned());
            let (secret, request) = (used.0.to_vec(), key.request().unwrap());
            let request = pb::EnrollRequest { secret, subject, request, ..Default::default() };
            IdentityServiceClient::new(channel).enroll(request).await.map(drop)
        }
        "identify a pod" => {
            let request = pb::IdentifyPodRequest { kubernetes_token: "of.a.pod".into() };
            IdentityServiceClient::new(channel).identify_pod(request).await.map(drop)
        }
        "fabric own" | "fabric other" => {
            let host = if what == "fabric own" { "s1" } else { "r1" };
            let watch = pb::WatchFabricRequest { host: host.into(), ..Default::default() };
            FabricServiceClient::new(channel).watch_fabric(watch).await.map(drop)
        }
        other => panic!("{other}"),
    };
    answer.map_or_else(|status| status.code(), |()| Code::Ok)
}

/// What each identity gets for each call of [`CALLS`]. Written by hand: the server reads no table.
#[tokio::test(flavor = "multi_thread")]
async fn every_identity_gets_what_is_its_own_and_nothing_else() {
    use Code::{
        AlreadyExists as Exists, FailedPrecondition as Unset, NotFound as Missing, Ok as Yes, PermissionDenied as No,
        Unauthenticated as Who,
    };
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    let now = UnixTime::now();
    // The token of n3, which n3 has used, was stolen.
    let used = domain.registrar.hand_out("node/n3".parse().unwrap(), now).unwrap().token.secret;
    let own = PrivateKey::generate().unwrap().request().unwrap();
    domain.registrar.enroll(&used, &"node/n3".parse().unwrap(), &own, now).unwrap();
    let expired = ago(LIFETIME + Duration::from_secs(60));
    let table = [
        ("no certificate", None, [Who, Who, Who, Who, Who, Who, Who, Who, Who, Who, Who, No, Who, Who, Who]),
        // This controller confirms no tokens of Kubernetes.
        // s1 is a member with another QPN and without a lease, the group "none" does not exist: these are the domain's answers.
        (
            "node/n1",
            Some(domain.made("node/n1", now)),
            [Yes, Yes, Yes, Exists, No, No, Missing, No, Yes, Yes, Yes, No, Unset, Yes, No],
        ),
        (
            "node/n2",
            Some(domain.made("node/n2", now)),
            [No, No, No, No, Exists, Missing, No, Missing, Yes, Yes, Yes, No, Unset, No, Yes],
        ),
        (
            "host/s1",
            Some(domain.made("host/s1", now)),
            [No, No, No, Exists, No, No, Missing, No, Yes, Yes, Yes, No, Unset, Yes, No],
        ),
        (
            "host/r1",
            Some(domain.made("host/r1", now)),
            [No, No, No, No, Exists, Missing, No, Missing, Yes, Yes, Yes, No, Unset, No, Yes],
        ),
        // A host that has a node's name is not that node.
        (
            "host/n1",
            Some(domain.made("host/n1", now)),
            [No, No, No, No, No, No, No, No, Yes, Yes, Yes, No, Unset, No, No],
        ),
        (
            "node/s1",
            Some(domain.made("node/s1", now)),
            [No, No, No, No, No, No, No, No, Yes, Yes, Yes, No, Unset, No, No],
        ),
        (
            "expired node/n1",
            Some(domain.made("node/n1", expired)),
            [Who, Who, Who, Who, Who, Who, Who, Who, Who, Yes, Who, No, Who, Who, Who],
        ),
    ];
    for (identity, own, wanted) in table {
        let channel = domain.channel(domain.trust(), own.clone());
        let mut found = Vec::new();
        for what in CALLS {
            found.push(call_with(what, channel.clone(), own.as_deref(), &used).await);
        }
        assert_eq!(found, wanted, "{identity}: {CALLS:?}");
    }
    // A certificate is renewed for its own key: what was stolen without its key is of no use.
    let (own, other) = (domain.made("node/n1", now), domain.made("node/n1", now));
    let channel = domain.channel(domain.trust(), Some(own));
    assert_eq!(call_with("renew", channel, Some(&other), &used).await, No);
    // What is revoked, and what is an operator's, gets no connection.
    let revoked = domain.made("node/n4", now);
    domain.registrar.revoke(&revoked.certificate.subject, UnixTime::now() + Duration::from_secs(1)).unwrap();
    let key = PrivateKey::generate().unwrap();
    let made = domain.registrar.certify_operator("laptop", &key.request().unwrap(), now + Duration::from_secs(60), now);
    let made = made.unwrap();
    let operator = Arc::new(Credentials::new(key, made.chain, made.authorities).unwrap());
    for (identity, own) in [("revoked", revoked), ("operator/laptop", operator)] {
        for what in CALLS {
            let found = call_with(what, domain.channel(domain.trust(), Some(own.clone())), Some(&own), &used).await;
            assert!(is_broken(found), "{what} as {identity}: {found:?}");
        }
    }
    domain.controller.stop().await;
}

/// Catches an RPC that is in no row of the table above.
#[test]
fn every_rpc_of_the_controller_is_called() {
    let contract = [
        include_str!("../../../../proto/control/proto/canopy/v1/node.proto"),
        include_str!("../../../../proto/control/proto/canopy/v1/membership.proto"),
        include_str!("../../../../proto/control/proto/canopy/v1/identity.proto"),
        include_str!("../../../../proto/control/proto/canopy/v1/fabric.proto"),
    ];
    let names = contract.iter().flat_map(|text| text.lines()).filter_map(|line| line.trim().strip_prefix("rpc "));
    let mut names: Vec<&str> = names.filter_map(|line| line.split('(').next()).collect();
    let mut here: Vec<&str> = RPCS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    here.sort_unstable();
    assert_eq!(names, here);
    let called: Vec<&str> = RPCS.iter().flat_map(|(_, calls)| calls.iter().copied()).collect();
    assert_eq!(called, CALLS);
}

/// Catches a certificate of another authority, one that expired too long ago, and one that an agent shows as the controller's.
#[tokio::test(flavor = "multi_thread")]
async fn who_cannot_be_identified_gets_no_connection() {
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let other = Registrar::open(settings(elsewhere.path()), UnixTime::now()).unwrap();
    let of_other = Settings { domain: "elsewhere".parse().unwrap(), ..settings(domain.directory.path()) };
    let of_other_domain = made(&Registrar::open(of_other, UnixTime::now()).unwrap(), "node/n1", UnixTime::now());
    let strangers = [
        ("of another authority", made(&other, "node/n1", UnixTime::now())),
        ("of another domain", of_other_domain),
        ("expired too long ago", domain.made("node/n1", ago(LIFETIME + RENEWABLE + Duration::from_secs(60)))),
        ("not valid yet", domain.made("node/n1", UnixTime::now() + BACKDATED + Duration::from_secs(60))),
    ];
    for (what, own) in strangers {
        for rpc in ["watch", "renew"] {
            let found = call(rpc, domain.channel(domain.trust(), Some(own.clone())), Some(&own)).await;
            assert!(is_broken(found), "{what}, {rpc}: {found:?}");
        }
    }
    // And an agent talks to no other controller.
    let trusts = [Trust::Token(other.authority()), Trust::Authorities(vec![], "canopy".parse().unwrap())];
    for trust in trusts {
        let found = call("watch", domain.channel(trust, None), None).await;
        assert!(is_broken(found), "{found:?}");
    }
    domain.controller.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_certifies_one_key_of_one_name() {
    let domain = Domain::start().await;
    let token = domain.registrar.hand_out("node/n1".parse().unwrap(), UnixTime::now()).unwrap().token;
    let EnrollmentToken { secret, .. } = token;
    let ask = async |secret: &[u8], subject: &str, request: Vec<u8>| {
        let mut client = IdentityServiceClient::new(domain.channel(domain.trust(), None));
        let request =
            pb::EnrollRequest { secret: secret.to_vec(), subject: subject.into(), request, ..Default::default() };
        client.enroll(request).await.map(|answer| answer.into_inner().certified.unwrap())
    };
    let key = PrivateKey::generate().unwrap();
    let request = key.request().unwrap();
    let refusals = [
        (&secret.0[..], "node/n2", request.clone(), Code::PermissionDenied, "the token is for node/n1"),
        (&secret.0[..15], "node/n1", request.clone(), Code::InvalidArgument, "secret"),
        (&[0; 16][..], "node/n1", request.clone(), Code::PermissionDenied, "the token is not known"),
        (&secret.0[..], "controller/x", request.clone(), Code::InvalidArgument, "subject"),
        (&secret.0[..], "controller", request.clone(), Code::PermissionDenied, "the token is for node/n1"),
        (&secret.0[..], "node/n1", request[1..].to_vec(), Code::InvalidArgument, "request"),
        (&secret.0[..], "node/n1", vec![], Code::InvalidArgument, "request"),
    ];
    for (secret, subject, request, code, text) in refusals {
        let status = ask(secret, subject, request).await.unwrap_err();
        assert!(status.code() == code && status.message().contains(text), "{subject}: {status:?}");
    }
    // A request that is signed with another key than it names is not its sender's.
    let mut forged = request.clone();
    *forged.last_mut().unwrap() ^= 1;
    assert_eq!(ask(&secret.0, "node/n1", forged).await.unwrap_err().code(), Code::InvalidArgument);

    let first = ask(&secret.0, "node/n1", request.clone()).await.unwrap();
    let again = ask(&secret.0, "node/n1", request).await.unwrap();
    assert_eq!(first.authorities, again.authorities);
    let thief = PrivateKey::generate().unwrap().request().unwrap();
    let status = ask(&secret.0, "node/n1", thief).await.unwrap_err();
    assert!(status.code() == Code::PermissionDenied && status.message().contains("used already"), "{status:?}");
    let own = Arc::new(Credentials::new(key, again.chain, again.authorities).unwrap());
    assert_eq!(own.certificate.subject, Subject::Node("n1".into()));
    // What was got works, and the controller is recognized without the token.
    domain.controller.apply(LAB).await.unwrap();
    let trust = Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone());
    assert_eq!(call("watch", domain.channel(trust, Some(own.clone())), Some(&own)).await, Code::Ok);
    domain.controller.stop().await;
    assert!(TOKEN_LIFE < LIFETIME);
}

/// Catches a revocation that new connections alone know of, one that a restart forgets, and one that also hits what was made after it.
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_ends_streams_and_outlives_the_controller() {
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    let (own, other) = (domain.made("node/n1", UnixTime::now()), domain.made("node/n2", UnixTime::now()));
    let watch = async |own: &Arc<Credentials>, node: &str| {
        let mut client = NodeServiceClient::new(domain.channel(domain.trust(), Some(own.clone())));
        let mut stream =
            client.watch(pb::WatchRequest { node: node.into(), ..Default::default() }).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());
        stream
    };
    let (mut revoked, mut stays) = (watch(&own, "n1").await, watch(&other, "n2").await);
    domain.registrar.revoke(&Subject::Node("n1".into()), UnixTime::now()).unwrap();
    let ended = tokio::time::timeout(DEADLINE, async { while let Ok(Some(_)) = revoked.message().await {} });
    ended.await.expect("the stream of a revoked certificate does not end");
    let refused = call("renew", domain.channel(domain.trust(), Some(own.clone())), Some(&own)).await;
    assert!(is_broken(refused), "{refused:?}");
    // No other stream ends.
    assert_eq!(call("watch group", domain.channel(domain.trust(), Some(other.clone())), None).await, Code::Ok);
    assert!(tokio::time::timeout(Duration::from_millis(1), stays.message()).await.is_err());

    let again = Registrar::open(settings(domain.directory.path()), UnixTime::now()).unwrap();
    assert!(again.revocations().borrow().has(&own.certificate));
    assert!(!again.revocations().borrow().has(&other.certificate));
    // Enrolled again, it is another certificate, which becomes valid within a second.
    let renewed = domain.made("node/n1", UnixTime::now());
    assert!(!again.revocations().borrow().has(&renewed.certificate));
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        let found = call("report", domain.channel(domain.trust(), Some(renewed.clone())), Some(&renewed)).await;
        if found == Code::Ok {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found:?}");
        tokio::task::yield_now().await;
    }
    domain.controller.stop().await;
}

/// Catches a revocation that a clock which was set back makes worthless, and a renewal that is under way while its subject is revoked.
#[test]
fn a_revocation_covers_what_was_made_before_it_whatever_the_clock_shows() {
    let directory = tempfile::tempdir().unwrap();
    let registrar = Registrar::open(settings(directory.path()), UnixTime::now()).unwrap();
    let (own, subject) = (made(&registrar, "node/n1", UnixTime::now()), Subject::Node("n1".into()));
    let unused = registrar.hand_out(subject.clone(), UnixTime::now()).unwrap().token;
    registrar.revoke(&subject, ago(Duration::from_secs(3600))).unwrap();
    assert!(registrar.revocations().borrow().has(&own.certificate));
    let request = own.key.request().unwrap();
    let renewed = registrar.renew(&own.certificate, &request, UnixTime::now()).unwrap_err();
    assert!(renewed.to_string().contains("revoked"), "{renewed}");
    let enrolled = registrar.enroll(&unused.secret, &subject, &request, UnixTime::now()).unwrap_err();
    assert!(enrolled.to_string().contains("not known"), "{enrolled}");
    // And again at once, as a script does.
    for _ in 0..3 {
        let again = made(&registrar, "node/n1", UnixTime::now());
        assert!(!registrar.revocations().borrow().has(&again.certificate));
        registrar.revoke(&subject, UnixTime::now()).unwrap();
        assert!(registrar.revocations().borrow().has(&again.certificate));
    }
    registrar.revoke(&subject, UnixTime::now() + Duration::from_secs(3600)).unwrap();
    let token = registrar.hand_out(subject.clone(), UnixTime::now()).unwrap().token;
    let ahead = registrar.enroll(&token.secret, &subject, &request, UnixTime::now()).unwrap_err();
    assert!(ahead.to_string().contains("clock"), "{ahead}");
}

/// Catches a second agent that takes a node's configuration, and one whose own reconnection is taken for a second agent.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_in_the_name_of_a_node_is_refused_and_reported() {
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    let (first, second) = (domain.made("node/n1", UnixTime::now()), domain.made("node/n1", UnixTime::now()));
    let open = async |own: &Arc<Credentials>| {
        let mut client = NodeServiceClient::new(domain.channel(domain.trust(), Some(own.clone())));
        client.watch(pb::WatchRequest { node: "n1".into(), ..Default::default() }).await
    };
    let stream = open(&first).await.unwrap();
    let refused = open(&second).await.unwrap_err();
    assert!(refused.code() == Code::PermissionDenied && refused.message().contains("another key"), "{refused:?}");
    for what in ["report", "telemetry", "join own"] {
        let found = call(what, domain.channel(domain.trust(), Some(second.clone())), Some(&second)).await;
        assert_eq!(found, Code::PermissionDenied, "{what}");
    }
    let again = open(&first).await.unwrap();
    let events = domain.controller.ctl(&["get", "events", "--node", "n1", "-o", "json"]).await.unwrap();
    assert_eq!(events.matches("SecondAgentRefused").count(), 4, "{events}");
    // Once the first one is gone, its name is free.
    drop((stream, again));
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while open(&second).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the name is not given back");
        tokio::task::yield_now().await;
    }
    domain.controller.stop().await;
}

/// Catches a connection that lasts longer than its certificate.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_ends_with_its_certificate() {
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    // It ends in two to three seconds.
    let own = domain.made("node/n1", ago(LIFETIME - Duration::from_secs(3)));
    let mut client = NodeServiceClient::new(domain.channel(domain.trust(), Some(own.clone())));
    let request = pb::WatchRequest { node: "n1".into(), ..Default::default() };
    let mut stream = client.watch(request).await.unwrap().into_inner();
    let ended = tokio::time::timeout(DEADLINE, async { while let Ok(Some(_)) = stream.message().await {} });
    ended.await.expect("the stream of an expired certificate does not end");
    assert!(UnixTime::now() >= own.certificate.not_after);
    let channel = domain.channel(domain.trust(), Some(own.clone()));
    assert_eq!(call("watch", channel.clone(), Some(&own)).await, Code::Unauthenticated);
    assert_eq!(call("renew", channel, Some(&own)).await, Code::Ok);
    domain.controller.stop().await;
}

/// Catches a token in the audit or the events, and an act of an operator that no entry has.
#[tokio::test(flavor = "multi_thread")]
async fn operators_hand_out_tokens_and_revoke() {
    let domain = Domain::start().await;
    let ctl = async |line: &str| domain.controller.ctl(&line.split(' ').collect::<Vec<_>>()).await;
    let printed = ctl("node enroll n1").await.unwrap();
    let token: EnrollmentToken = printed.parse().unwrap();
    assert_eq!((token.authority, printed.lines().count()), (domain.registrar.authority(), 1));
    let revoked = ctl("host revoke r1").await.unwrap();
    assert!(revoked.contains("host r1"), "{revoked}");
    assert!(domain.registrar.revocations().borrow().at(&Subject::Host("r1".into())).is_some());
    let audit = ctl("audit --kind identity -o json").await.unwrap();
    let entries: serde_json::Value = serde_json::from_str(&audit).unwrap();
    let entry = |i: usize| entries["items"][i].clone();
    assert_eq!((entry(0)["action"].clone(), entry(0)["name"].clone()), ("revoke".into(), "host/r1".into()));
    assert_eq!((entry(1)["action"].clone(), entry(1)["name"].clone()), ("enroll".into(), "node/n1".into()));
    let events = ctl("get events -o json").await.unwrap();
    assert!(events.contains("IdentityRevoked"), "{events}");
    let secret = printed.trim().rsplit('.').next().unwrap();
    assert!(!audit.contains(secret) && !events.contains(secret));
    let (code, refused) = ctl("node enroll N_1").await.unwrap_err();
    assert!(code == 1 && refused.contains("subject") && refused.contains("N_1"), "{code}: {refused}");
    domain.controller.stop().await;
    // Where no agent comes over TLS.
    let directory = tempfile::tempdir().unwrap();
    let controller = Controller::start(directory.path()).await;
    let (_, refused) = controller.ctl(&["node", "enroll", "n1"]).await.unwrap_err();
    assert!(refused.contains("grpc.listen"), "{refused}");
    controller.stop().await;
}

/// Catches a connection that lasts for as long as its peer takes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_peer_takes_nothing_ends_too() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let domain = Domain::start().await;
    let own = domain.made("node/n1", ago(LIFETIME - Duration::from_secs(3)));
    let config = Arc::new(canopy_identity::client(domain.trust(), Some(&own)).unwrap());
    let mut stream = canopy_identity::connect("127.0.0.1", domain.controller.tls_port(), config).await.unwrap();
    stream.write_all(PREFACE).await.unwrap();
    let pings = PING.repeat(1000);
    let ended = tokio::time::timeout(DEADLINE, async { while stream.write_all(&pings).await.is_ok() {} });
    ended.await.expect("the connection does not end with its certificate");
    domain.controller.stop().await;
}

/// Catches a large message of a caller without a certificate that is read before it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_read_of_a_caller_who_is_not_known() {
    let domain = Domain::start().await;
    let mut nodes = NodeServiceClient::new(domain.channel(domain.trust(), None));
    // The stream never ends: the answer does not wait for it.
    let endless = tokio_stream::pending::<pb::StreamTelemetryRequest>();
    let answer = tokio::time::timeout(DEADLINE, nodes.stream_telemetry(endless)).await;
    assert_eq!(answer.expect("the server reads on").unwrap_err().code(), Code::Unauthenticated);
    domain.controller.stop().await;
}

/// Catches an authority that is made anew over what agents trust, and files that others can read.
#[test]
fn the_authority_stays_and_damage_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let open = || Registrar::open(settings(directory.path()), UnixTime::now());
    let hash = open().unwrap().authority();
    assert_eq!(open().unwrap().authority(), hash);
    let file = |name: &str| -> PathBuf { directory.path().join("identity").join(name) };
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(file("authority-key.pem")), mode(file(""))), (0o600, 0o700));
    let refused = |error: canopy_controller_authority::AuthorityError| error.to_string();
    // A cut at the first start: the key without its certificate.
    std::fs::remove_file(file("authority.pem")).unwrap();
    assert_eq!(open().unwrap().authority(), hash);

    std::fs::set_permissions(file("authority-key.pem"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = open().map(drop).map_err(refused).unwrap_err();
    assert!(error.contains("authority-key.pem") && error.contains("chmod"), "{error}");
    std::fs::set_permissions(file("authority-key.pem"), std::fs::Permissions::from_mode(0o600)).unwrap();

    std::fs::write(file("revocations.json"), "{").unwrap();
    let error = open().map(drop).map_err(refused).unwrap_err();
    assert!(error.contains("revocations.json") && error.contains("damaged"), "{error}");
    std::fs::remove_file(file("revocations.json")).unwrap();

    std::fs::remove_file(file("authority-key.pem")).unwrap();
    let error = open().map(drop).map_err(refused).unwrap_err();
    assert!(error.contains("put the key back"), "{error}");
}

/// Catches a list of hosts that does not show whose applications cannot join because the host's own agent is away.
#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_shown_with_the_agent_that_their_applications_reach() {
    let domain = Domain::start().await;
    domain.controller.apply(LAB).await.unwrap();
    let agents = async || {
        let hosts = domain.controller.ctl(&["get", "hosts", "-o", "json"]).await.unwrap();
        let hosts: serde_json::Value = serde_json::from_str(&hosts).unwrap();
        let agent = |name: &str| {
            let host = hosts["items"].as_array().unwrap().iter().find(|host| host["metadata"]["name"] == name);
            host.unwrap()["status"]["agent"].as_str().unwrap().to_owned()
        };
        ["s1", "r1"].map(agent)
    };
    let wait = async |wanted: [&str; 2]| {
        let deadline = tokio::time::Instant::now() + DEADLINE;
        while agents().await != wanted {
            assert!(tokio::time::Instant::now() < deadline, "{:?} is not {wanted:?}", agents().await);
            tokio::task::yield_now().await;
        }
    };
    wait(["OfNode", "OfNode"]).await;
    let own = domain.made("host/r1", UnixTime::now());
    wait(["OfNode", "NotConnected"]).await;
    let channel = domain.channel(domain.trust(), Some(own));
    let watch = pb::WatchGroupRequest { group: "g1".into(), ..Default::default() };
    let stream = MembershipServiceClient::new(channel.clone()).watch_group(watch).await.unwrap();
    wait(["OfNode", "Connected"]).await;
    drop((stream, channel));
    wait(["OfNode", "NotConnected"]).await;
    domain.registrar.revoke(&"host/r1".parse().unwrap(), UnixTime::now()).unwrap();
    wait(["OfNode", "OfNode"]).await;
    domain.controller.stop().await;
}
