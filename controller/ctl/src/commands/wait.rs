// SPDX-License-Identifier: Apache-2.0
//! `wait group NAME --for ready`.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::GroupResource;
use canopy_model::status::GroupPhase;
use tokio::time::{Instant, sleep};

use super::segment;
use crate::cli::{Until, WaitArgs};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::output::text;

/// How often what is waited for is read.
pub(super) const POLL: Duration = Duration::from_millis(200);

/// See the module. A group that does not exist yet is waited for too.
///
/// # Errors
/// The timeout expired; the message contains the last state.
pub async fn run(client: &Client, args: &WaitArgs, out: &mut dyn Write) -> Result<(), Failure> {
    let name = segment("group", &args.name)?;
    let deadline = Instant::now() + args.timeout;
    loop {
        let found = match client.get(&format!("reading group {name}"), &format!("/api/v1/groups/{name}")).await {
            Ok(group) => Some::<GroupResource>(group),
            Err(f) if f.exit == Exit::NotFound => None,
            Err(f) => return Err(f),
        };
        match (args.until, found.as_ref().map(|g| g.status.phase)) {
            (Until::Ready, Some(GroupPhase::Ready)) => return Ok(writeln!(out, "group/{name} is ready")?),
            (Until::Deleted, None) => return Ok(writeln!(out, "group/{name} is deleted")?),
            _ => {}
        }
        if Instant::now() + POLL > deadline {
            return Err(Failure::new(Exit::Timeout, late(name, args, found.as_ref())));
        }
        sleep(POLL).await;
    }
}

fn late(name: &str, args: &WaitArgs, found: Option<&GroupResource>) -> String {
    let until = format!("{:?}", args.until).to_lowercase();
    let state = found.map_or_else(
        || "it does not exist".into(),
        |g| format!("it is {}: {}", text(g.status.phase), text(&g.status.reason)),
    );
    format!(
        "group {name} was not {until} within {}; {state} (canopyctl describe group {name})",
        humantime::format_duration(args.timeout)
    )
}
