// SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};

use canopy_control::pb::identity_service_server::{IdentityService, IdentityServiceServer};
use tokio::net::UnixListener;
use tokio_stream::Stream;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Endpoint, Server};
use tonic::{Request, Response};

use super::*;

/// A controller that knows the pods of a test.
#[derive(Clone, Default)]
struct Controller(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    pods: BTreeMap<String, &'static str>,
    /// What it answers instead.
    fails: Option<Code>,
    asked: usize,
    /// It answers once this is true.
    gate: Option<watch::Receiver<bool>>,
}

#[tonic::async_trait]
impl IdentityService for Controller {
    async fn identify_pod(
        &self,
        request: Request<pb::IdentifyPodRequest>,
    ) -> Result<Response<pb::IdentifyPodResponse>, Status> {
        let (pod, fails, gate) = {
            let mut state = self.0.lock().unwrap();
            state.asked += 1;
            (state.pods.get(&request.get_ref().kubernetes_token).copied(), state.fails, state.gate.clone())
        };
        if let Some(mut gate) = gate {
            gate.wait_for(|open| *open).await.unwrap();
        }
        if let Some(code) = fails {
            return Err(Status::new(code, "the API server is away"));
        }
        let pod_uid = pod.ok_or_else(|| Status::permission_denied("Kubernetes does not accept it"))?.to_owned();
        Ok(Response::new(pb::IdentifyPodResponse { account: "training/trainer".into(), pod: "p".into(), pod_uid }))
    }

    async fn enroll(&self, _: Request<pb::EnrollRequest>) -> Result<Response<pb::EnrollResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn renew(&self, _: Request<pb::RenewRequest>) -> Result<Response<pb::RenewResponse>, Status> {
        Err(Status::unimplemented(""))
    }

    type FollowAuthoritiesStream = Pin<Box<dyn Stream<Item = Result<pb::FollowAuthoritiesResponse, Status>> + Send>>;

    async fn follow_authorities(
        &self,
        _: Request<pb::FollowAuthoritiesRequest>,
    ) -> Result<Response<Self::FollowAuthoritiesStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

struct World {
    controller: Controller,
    channel: Channel,
    dir: tempfile::TempDir,
    seconds: Arc<AtomicU64>,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (controller, path) = (Controller::default(), dir.path().join("controller.sock"));
        let incoming = UnixListenerStream::new(UnixListener::bind(&path).unwrap());
        let service = IdentityServiceServer::new(controller.clone());
        tokio::spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        let channel = Endpoint::from_shared(format!("unix:{}", path.display())).unwrap().connect_lazy();
        Self { controller, channel, dir, seconds: Arc::new(AtomicU64::new(1000)) }
    }

    /// An agent's, as after a restart.
    fn tokens(&self) -> Arc<Tokens> {
        let seconds = self.seconds.clone();
        let clock = Arc::new(move || Monotonic::START + Duration::from_secs(seconds.load(Ordering::Relaxed)));
        Tokens::load(self.dir.path(), self.channel.clone(), "https://c:1".into(), clock)
    }

    fn know(&self, token: &str, uid: &'static str) {
        self.controller.0.lock().unwrap().pods.insert(token.into(), uid);
    }

    fn fail(&self, code: Option<Code>) {
        self.controller.0.lock().unwrap().fails = code;
    }

    fn asked(&self) -> usize {
        self.controller.0.lock().unwrap().asked
    }

    fn pass(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
    }
}

fn call(bearer: &str) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    metadata.insert("authorization", bearer.parse().unwrap());
    metadata
}

/// Catches a controller that is asked for each call, a refusal that does not count, and an outage that ends what was confirmed or permits what
/// was not.
#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_token_outlasts_an_outage_and_a_refused_one_does_not() {
    let world = World::start().await;
    let tokens = world.tokens();
    let code = async |token: &str| match tokens.identify(&call(&format!("Bearer {token}"))).await {
        Ok(pod) => Ok(pod.uid().to_owned()),
        Err(status) => {
            assert!(!status.message().contains(token), "{status}");
            Err(status.code())
        }
    };
    world.know("a.b.c", "1");
    for _ in 0..3 {
        assert_eq!(code("a.b.c").await, Ok("1".into()));
    }
    assert_eq!(world.asked(), 1);
    for away in [Code::Unavailable, Code::ResourceExhausted, Code::Unauthenticated, Code::Internal] {
        world.fail(Some(away));
        world.pass(20);
        assert_eq!((code("a.b.c").await, code("x.y.z").await), (Ok("1".into()), Err(Code::Unavailable)));
    }
    // A restart of the agent meanwhile.
    let after = world.tokens();
    assert_eq!(after.identify(&call("Bearer a.b.c")).await.unwrap().uid(), "1");
    let file = world.dir.path().join("host-tokens");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&file).unwrap().contains("a.b.c"));
    world.pass(3600);
    assert_eq!(code("a.b.c").await, Err(Code::Unavailable), "an hour after the last answer");

    world.fail(None);
    assert_eq!(code("a.b.c").await, Ok("1".into()));
    world.pass(10);
    world.controller.0.lock().unwrap().pods.clear();
    assert_eq!(code("a.b.c").await, Err(Code::PermissionDenied), "its pod is gone");
    world.fail(Some(Code::Unavailable));
    assert_eq!(code("a.b.c").await, Err(Code::Unavailable), "a refusal forgets it");
    let after = world.tokens();
    assert_eq!(after.identify(&call("Bearer a.b.c")).await.unwrap_err().code(), Code::Unavailable);

    // A controller of an earlier version is named, and what to do.
    world.fail(Some(Code::Unimplemented));
    let old = tokens.identify(&call("Bearer a.b.c")).await.unwrap_err();
    assert!(old.code() == Code::FailedPrecondition && old.message().contains("upgrade it"), "{old}");
}

/// Catches many processes of one pod that each ask the API server.
#[tokio::test(flavor = "multi_thread")]
async fn all_calls_with_a_token_wait_for_one_answer() {
    let world = World::start().await;
    let (tokens, (open, gate)) = (world.tokens(), watch::channel(false));
    world.know("a.b.c", "1");
    world.controller.0.lock().unwrap().gate = Some(gate);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let tokens = tokens.clone();
            tokio::spawn(async move { tokens.identify(&call("Bearer a.b.c")).await.map(|pod| pod.uid().to_owned()) })
        })
        .collect();
    // All of them have come this far: each takes a place among those who wait.
    while tokens.waiting.available_permits() > WAITING - calls.len() {
        tokio::task::yield_now().await;
    }
    open.send_replace(true);
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap(), "1");
    }
    assert_eq!(world.asked(), 1);
    assert_eq!(tokens.waiting.available_permits(), WAITING);
}

/// Catches a call without a token that passes, one of another program that is sent on, and strangers who take all places.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_token_of_a_pod_goes_no_further() {
    let world = World::start().await;
    let tokens = world.tokens();
    let none = tokens.identify(&MetadataMap::new()).await.unwrap_err();
    assert!(none.code() == Code::Unauthenticated && none.message().contains("CANOPY_TOKEN_FILE"), "{none}");
    let long = format!("Bearer a.b.{}", "x".repeat(MAX_TOKEN));
    for bad in [
        "",
        "a.b.c",
        "Basic a.b.c",
        "Bearer ",
        "Bearer canopy_pat_x",
        "Bearer a.b",
        "Bearer a..c",
        "Bearer a.b.c d",
        &long,
    ] {
        let refused = tokens.identify(&call(bad)).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated, "{bad}");
        assert!(!refused.message().contains("canopy_pat_x"), "{refused}");
    }
    assert_eq!(world.asked(), 0);
    let _all = tokens.waiting.acquire_many(WAITING as u32).await.unwrap();
    assert_eq!(tokens.identify(&call("Bearer a.b.c")).await.unwrap_err().code(), Code::ResourceExhausted);
}
