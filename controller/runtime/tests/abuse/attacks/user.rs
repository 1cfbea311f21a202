// SPDX-License-Identifier: Apache-2.0
//! A user of the controller's machine without a role, as a process of its own.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;

use super::{each, until_closed};
use crate::ground::Ground;
use crate::wire::{self, Wire};

/// A user that every system has, and that no group of the controller has.
const UID: u32 = 65_534;
/// Where the child connects to, and how long it lasts.
const LOOPBACK: &str = "CANOPY_ATTACKER_LOOPBACK";
const SOCKET: &str = "CANOPY_ATTACKER_SOCKET";
const MILLISECONDS: &str = "CANOPY_ATTACKER_MILLISECONDS";

/// Runs [`attacks_as_user`] of this program as that user.
pub(super) async fn half_sent(ground: Ground, until: Instant) {
    let lasts = until.saturating_duration_since(Instant::now());
    let attacking = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "attacks::user::attacks_as_user"])
            .env(LOOPBACK, ground.loopback.to_string())
            .env(SOCKET, &ground.rest_socket)
            .env(MILLISECONDS, lasts.as_millis().to_string())
            .stdout(Stdio::null())
            .uid(UID)
            .gid(UID)
            .spawn()
            .unwrap();
        assert!(child.wait().unwrap().success());
    });
    attacking.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "part of another test, which runs it as another user"]
async fn attacks_as_user() {
    let setting = |name: &str| std::env::var(name).expect("it is started by another test");
    let (port, socket) = (setting(LOOPBACK).parse::<u16>().unwrap(), setting(SOCKET));
    let until = Instant::now() + Duration::from_millis(setting(MILLISECONDS).parse().unwrap());
    each(2_200, until, move |n| {
        let socket = socket.clone();
        async move {
            let mut wire: Wire = match n % 2 {
                0 => wire::unix(socket.as_ref()).await?,
                _ => Box::new(wire::tcp(wire::HERE, port).await?),
            };
            wire.write_all(b"GET /livez HTTP/1.1\r\nHost: localh").await?;
            until_closed(wire).await
        }
    })
    .await;
}
