// SPDX-License-Identifier: Apache-2.0
//! Real users on real sockets: processes of other users send requests, and get what their groups and tokens permit.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use canopy_controller_access::UnixRoles;
use serde_json::{Value, json};

use crate::support::Controller;

/// Has no group but its own, on every system.
const STRANGER: u32 = 65_534;
/// Groups of Debian's base system, here with a role each.
const VIEWERS: (&str, u32) = ("daemon", 1);
const OPERATORS: (&str, u32) = ("bin", 2);
const ADMINS: (&str, u32) = ("sys", 3);
/// A user whose primary group, in the user database, is `games`.
const GAMES: (&str, u32) = ("games", 5);

/// No test of its own: the other tests start it as other users. It sends one request, as its parent has it in the environment.
#[test]
fn child() {
    let of = |name: &str| std::env::var(name).unwrap();
    if std::env::var_os("ADDRESS").is_none() {
        return;
    }
    let body = of("BODY");
    let token = std::env::var("TOKEN").map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "{} {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{token}\r\n{body}",
        of("METHOD"),
        of("ADDRESS_PATH"),
        body.len()
    );
    let mut answer = String::new();
    let address = of("ADDRESS");
    match address.strip_prefix("unix:") {
        Some(path) => {
            let mut stream = UnixStream::connect(path).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
        }
        None => {
            let mut stream = TcpStream::connect(&address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_to_string(&mut answer).unwrap();
        }
    }
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    println!("\nANSWER {} {}", head.split(' ').nth(1).unwrap(), body.replace('\n', " "));
}

struct Users {
    directory: tempfile::TempDir,
    program: PathBuf,
    controller: Controller,
}

/// A user with supplementary groups.
#[derive(Clone, Copy)]
struct User<'a> {
    uid: u32,
    gid: u32,
    groups: &'a [u32],
}

impl Users {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let roles = UnixRoles {
            viewer_groups: vec![VIEWERS.0.into(), GAMES.0.into()],
            operator_groups: vec!["no-such-group".into(), OPERATORS.0.into()],
            admin_groups: vec![ADMINS.0.into()],
            ..UnixRoles::default()
        };
        // Where every user can execute it.
        let program = directory.path().join("program");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let controller = Controller::start_for_all(directory.path(), roles).await;
        Self { directory, program, controller }
    }

    fn socket(&self) -> String {
        format!("unix:{}", self.directory.path().join("rest.sock").display())
    }

    /// Status and body of the answer to a request of this user.
    async fn send(
        &self,
        user: User<'_>,
        address: &str,
        request: (&str, &str, &Value),
        token: Option<&str>,
    ) -> (u16, Value) {
        let User { uid, gid, groups } = user;
        let groups = groups.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let mut command = tokio::process::Command::from(Command::new("setpriv"));
        command.args([format!("--reuid={uid}"), format!("--regid={gid}")]);
        command.arg(if groups.is_empty() { "--clear-groups".to_owned() } else { format!("--groups={groups}") });
        command.arg(&self.program).args(["--exact", "roles::child", "--nocapture"]).current_dir("/");
        let (method, path, body) = request;
        let body = if body.is_null() { String::new() } else { body.to_string() };
        command.envs([("ADDRESS", address), ("METHOD", method), ("ADDRESS_PATH", path), ("BODY", body.as_str())]);
        command.envs(token.map(|token| ("TOKEN", token)));
        let out = command.output().await.expect("setpriv (util-linux)");
        let text = String::from_utf8(out.stdout).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("ANSWER "));
        let line = line.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&out.stderr)));
        let (status, body) = line.split_once(' ').unwrap();
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

const fn user(uid: u32, groups: &[u32]) -> User<'_> {
    User { uid, gid: STRANGER, groups }
}

const CALLER: (&str, &str, &Value) = ("GET", "/api/v1/caller", &Value::Null);

/// Catches a user of the machine who may do something without a group, a supplementary group that does not count, and the
/// groups of the user database that are taken for those of a process.
#[tokio::test(flavor = "multi_thread")]
async fn users_of_the_machine_have_the_roles_of_their_groups() {
    let users = Users::start().await;
    let (socket, tcp) = (users.socket(), users.controller.web().to_owned());
    let group = json!({"apiVersion": "canopy/v1", "kind": "Group", "metadata": {"name": "g1"}, "spec": {}});
    let write = ("PUT", "/api/v1/groups/g1", &group);
    let revoke = ("POST", "/api/v1/revocations", &json!({"subject": "node/n1"}));
    for (user, role, may_write, may_revoke) in [
        (user(STRANGER, &[]), None, 401, 401),
        (user(STRANGER, &[7, 8]), None, 401, 401),
        (user(STRANGER, &[VIEWERS.1]), Some("viewer"), 403, 403),
        (User { gid: VIEWERS.1, ..user(STRANGER, &[]) }, Some("viewer"), 403, 403),
        (user(STRANGER, &[7, VIEWERS.1, OPERATORS.1]), Some("operator"), 201, 403),
        // Permitted: the answer is about this controller, which has no address over TLS.
        (user(STRANGER, &[ADMINS.1]), Some("admin"), 200, 409),
        (user(0, &[]), Some("admin"), 200, 409),
        // Without the group that the user database has.
        (user(GAMES.1, &[]), None, 401, 401),
    ] {
        let what = format!("user {} in {:?}", user.uid, user.groups);
        let (status, caller) = users.send(user, &socket, CALLER, None).await;
        match role {
            Some(role) => {
                assert_eq!((status, caller["role"].as_str()), (200, Some(role)), "{what}: {caller}");
                assert_eq!(caller["principal"]["uid"], user.uid, "{what}");
            }
            None => assert_eq!((status, caller["code"].as_str()), (401, Some("Unauthenticated")), "{what}: {caller}"),
        }
        assert_eq!(users.send(user, &socket, write, None).await.0, may_write, "{what} writes");
        assert_eq!(users.send(user, &socket, revoke, None).await.0, may_revoke, "{what} revokes");
        assert_eq!(users.send(user, &socket, ("GET", "/livez", &Value::Null), None).await.0, 200, "{what}");
    }
    // Over loopback the user database decides, not what a process claims of its groups.
    let (status, caller) = users.send(user(GAMES.1, &[]), &tcp, CALLER, None).await;
    assert_eq!((status, caller["role"].as_str()), (200, Some("viewer")), "{caller}");
    assert_eq!(caller["principal"], json!({"kind": "operator", "name": "games", "uid": GAMES.1}));
    assert_eq!(users.send(user(GAMES.1, &[]), &tcp, write, None).await.0, 403);
    assert_eq!(users.send(user(STRANGER, &[ADMINS.1]), &tcp, CALLER, None).await.0, 401);
    assert_eq!(users.send(user(0, &[]), &tcp, write, None).await.0, 200);
    users.controller.stop().await;
}

/// Catches a token that a restart forgets, one that works after its revocation, and a file that others can read.
#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_a_token_has_its_role_over_restarts_until_it_is_revoked() {
    let users = Users::start().await;
    let root = user(0, &[]);
    let made = json!({"name": "ci", "role": "viewer"});
    let (status, made) = users.send(root, &users.socket(), ("POST", "/api/v1/tokens", &made), None).await;
    assert_eq!(status, 201, "{made}");
    let token = made["token"].as_str().unwrap().to_owned();
    let kept = users.directory.path().join("identity/tokens.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!std::fs::read_to_string(&kept).unwrap().contains(&token["canopy_pat_".len()..]));
    let stranger = user(STRANGER, &[]);
    for address in [users.socket(), users.controller.web().to_owned()] {
        let (status, caller) = users.send(stranger, &address, CALLER, Some(&token)).await;
        assert_eq!((status, caller["principal"]["token"].as_str()), (200, Some("ci")), "{caller}");
    }
    let Users { directory, program, controller } = users;
    controller.stop().await;
    let controller = Controller::start_for_all(directory.path(), UnixRoles::default()).await;
    let users = Users { directory, program, controller };
    // canopyctl as that user, with the token in a file of its own.
    let file = users.directory.path().join("token");
    std::fs::write(&file, &token).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let whoami = canopyctl(&users.socket(), Some(&file), &["whoami"]).await.unwrap();
    assert_eq!(whoami, "root (token ci), with the role viewer\n");
    chown(&file, Some(STRANGER), None).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = canopyctl(&users.socket(), Some(&file), &["whoami"]).await.unwrap_err();
    assert!(refused.contains("mode 0644"), "{refused}");
    let listed = canopyctl(&users.socket(), None, &["token", "list"]).await.unwrap();
    assert!(listed.contains("ci") && listed.contains("viewer") && !listed.contains("never"), "{listed}");
    canopyctl(&users.socket(), None, &["token", "revoke", "ci"]).await.unwrap();
    assert_eq!(users.send(stranger, &users.socket(), CALLER, Some(&token)).await.1["code"], "TokenNotValid");
    users.controller.stop().await;
}

/// The output, or the failure, of a command line.
async fn canopyctl(server: &str, token: Option<&Path>, args: &[&str]) -> Result<String, String> {
    let file = token.map(|file| format!("--token-file={}", file.display()));
    let line = ["canopyctl", "--server", server].into_iter().chain(file.as_deref()).chain(args.iter().copied());
    let cli = <canopy_ctl::cli::Cli as clap::Parser>::try_parse_from(line).unwrap();
    let mut out = Vec::new();
    canopy_ctl::run(cli, &mut out).await.map_err(|failure| failure.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}
