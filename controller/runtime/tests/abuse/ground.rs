// SPDX-License-Identifier: Apache-2.0
//! A controller in a process of its own, at every kind of address; its identities; what the kernel knows of its memory.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use canopy_controller_authority::{Registrar, Settings};
use canopy_identity::{Credentials, PrivateKey, Subject, Trust};
use canopy_units::UnixTime;
use serde_json::Value;
use tokio_rustls::rustls::ClientConfig;

use crate::DEADLINE;
use crate::wire::{self, HERE, Wire};

/// n1 and s1 are honest, n2 and r1 attack.
const TOPOLOGY: &str = r#"{"apiVersion":"canopy/v1","kind":"Topology","metadata":{"name":"default"},"spec":{
    "nodes":[{"name":"n1","id":1},{"name":"n2","id":2}],
    "hosts":[{"name":"s1","prefix":"2001:db8:1::/64","address":"2001:db8:1::1"},{"name":"r1","prefix":"2001:db8:2::/64","address":"2001:db8:2::1"}],
    "links":[{"a":"n1/eth1","b":"n2/eth1"},{"a":"n1/eth2","b":"s1/eth0"},{"a":"n2/eth2","b":"r1/eth0"}]}}"#;

/// How a client of the controller is recognized.
#[derive(Clone)]
pub(crate) struct Keys {
    /// Without a certificate, by HTTP/2.
    pub(crate) anonymous: Arc<ClientConfig>,
    /// Of operators, by HTTP/1.1.
    pub(crate) operator: Arc<ClientConfig>,
    pub(crate) honest_node: Arc<ClientConfig>,
    pub(crate) honest_host: Arc<ClientConfig>,
    pub(crate) node: Arc<ClientConfig>,
    pub(crate) host: Arc<ClientConfig>,
}

/// Where the controller listens, and with which secrets attackers and honest callers come.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) rest_socket: PathBuf,
    pub(crate) loopback: u16,
    pub(crate) rest: u16,
    pub(crate) grpc: u16,
    pub(crate) keys: Keys,
    /// Bearers of an honest operator, and of an attacker who may only read.
    pub(crate) operator: String,
    pub(crate) viewer: String,
}

pub(crate) struct Controller {
    child: Child,
    pub(crate) ground: Ground,
    _directory: tempfile::TempDir,
}

impl Drop for Controller {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Memory and descriptors of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Resident now and at most since the last reset, octets.
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    pub(crate) descriptors: usize,
}

impl Controller {
    pub(crate) async fn start() -> Self {
        let deadline = Instant::now() + DEADLINE;
        let mut controller = loop {
            // Another program may take a free port before the controller does.
            match Self::launch().await {
                Some(controller) => break controller,
                None => assert!(Instant::now() < deadline, "it does not start"),
            }
        };
        controller.put("/api/v1/topology", TOPOLOGY).await;
        for group in ["honest", "watched"] {
            let body =
                format!(r#"{{"apiVersion":"canopy/v1","kind":"Group","metadata":{{"name":"{group}"}},"spec":{{}}}}"#);
            controller.put(&format!("/api/v1/groups/{group}"), &body).await;
        }
        controller.ground.operator = controller.token("honest", "operator").await;
        controller.ground.viewer = controller.token("attacker", "viewer").await;
        controller
    }

    /// A controller that serves; `None` if it has ended.
    async fn launch() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path();
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        let keys = keys(&dir.join("identity"));
        let [loopback, rest, grpc] = [(); 3].map(|()| free_port());
        let rest_socket = dir.join("rest.sock");
        let mut child = Command::new(env!("CARGO_BIN_EXE_canopy-controller"))
            .env_clear()
            .env("CANOPY__IDENTITY__DIRECTORY", dir.join("identity"))
            .args(["--log-level", "error", "--store-path"])
            .arg(dir.join("store"))
            .args(["--grpc-listen", &format!("127.0.0.1:{grpc}")])
            .args(["--rest-listen", &format!("unix:{}", rest_socket.display())])
            .args(["--rest-listen", &format!("127.0.0.1:{loopback}"), "--rest-listen", &format!("0.0.0.0:{rest}")])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while wire::unix(&rest_socket).await.is_err() {
            if child.try_wait().unwrap().is_some() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (operator, viewer) = (String::new(), String::new());
        let ground = Ground { rest_socket, loopback, rest, grpc, keys, operator, viewer };
        Some(Self { child, ground, _directory: directory })
    }

    async fn put(&self, path: &str, body: &str) {
        let mut wire = self.ground.local().await.unwrap();
        let (status, text) =
            wire::ask(&mut wire, &wire::head("PUT", path, None, body.len()), body.as_bytes()).await.unwrap();
        assert!(status < 300, "{text}");
    }

    async fn token(&self, name: &str, role: &str) -> String {
        let body = format!(r#"{{"name":"{name}","role":"{role}"}}"#);
        let head = wire::head("POST", "/api/v1/tokens", None, body.len());
        let (status, text) = wire::ask(&mut self.ground.local().await.unwrap(), &head, body.as_bytes()).await.unwrap();
        assert_eq!(status, 201, "{text}");
        let made: Value = serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap();
        made["token"].as_str().unwrap().to_owned()
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// What it uses.
    pub(crate) fn used(&self) -> Use {
        let of = Path::new("/proc").join(self.child.id().to_string());
        let status = std::fs::read_to_string(of.join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_ascii_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
        };
        let descriptors = std::fs::read_dir(of.join("fd")).unwrap().count();
        Use { resident: field("VmRSS:"), peak: field("VmHWM:"), descriptors }
    }

    /// From now on the peak is counted anew (proc(5), clear_refs).
    pub(crate) fn reset_peak(&self) {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").unwrap();
    }
}

impl Ground {
    /// The socket of the controller's machine.
    pub(crate) async fn local(&self) -> std::io::Result<Wire> {
        wire::unix(&self.rest_socket).await
    }

    /// Over TLS, as the honest operator.
    pub(crate) async fn remote(&self) -> std::io::Result<Wire> {
        wire::tls(HERE, self.rest, self.keys.operator.clone()).await
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn keys(directory: &Path) -> Keys {
    let lifetime = Duration::from_secs(24 * 3600);
    let settings = Settings { directory: directory.into(), domain: "canopy".parse().unwrap(), lifetime };
    let registrar = Registrar::open(settings, UnixTime::now()).unwrap();
    let trust = Trust::Token(registrar.authority());
    let of = |subject: &str| {
        let own = made(&registrar, subject);
        Arc::new(canopy_identity::client(trust.clone(), Some(&own)).unwrap())
    };
    Keys {
        anonymous: Arc::new(canopy_identity::client(trust.clone(), None).unwrap()),
        operator: Arc::new(
            canopy_identity::operator(canopy_identity::Trust::Token(registrar.authority()), None).unwrap(),
        ),
        honest_node: of("node/n1"),
        honest_host: of("host/s1"),
        node: of("node/n2"),
        host: of("host/r1"),
    }
}

fn made(registrar: &Registrar, subject: &str) -> Credentials {
    let (subject, now): (Subject, _) = (subject.parse().unwrap(), UnixTime::now());
    let token = registrar.hand_out(subject.clone(), now).unwrap().token;
    let key = PrivateKey::generate().unwrap();
    let made = registrar.enroll(&token.secret, &subject, &key.request().unwrap(), now).unwrap();
    Credentials::new(key, made.chain, made.authorities).unwrap()
}
