// SPDX-License-Identifier: Apache-2.0
//! One file per verb.

pub mod apply;
pub mod audit;
pub mod ca;
pub mod certificate;
pub mod change_set;
pub mod chart;
pub mod check;
pub mod check_machine;
pub mod check_pod;
pub mod commit;
pub mod context;
pub mod delete;
pub mod describe;
pub mod diff;
pub mod drain;
pub mod explain;
mod fields;
mod flows;
pub mod get;
pub mod history;
pub mod hmac;
pub mod identity;
pub mod log_level;
pub mod names;
pub mod packet;
mod pages;
pub mod paths;
mod preview;
mod problems;
pub mod retire;
pub mod route;
mod rows;
pub mod session;
mod set;
pub mod silence;
mod sparkline;
pub mod status;
pub mod token;
pub mod top;
pub mod ui;
pub mod undo;
pub mod upgrade;
pub mod wait;
mod watch;
pub mod why;

use std::io::Write;

use canopy_controller_api::version::Version;
use clap::CommandFactory;
use serde::Serialize;

use crate::cli::Cli;
use crate::client::Client;
use crate::documents::is_plain;
use crate::failure::{Exit, Failure};
use crate::output::text;

/// `completion SHELL`.
pub(crate) fn completion(shell: clap_complete::Shell, out: &mut dyn Write) -> Result<(), Failure> {
    clap_complete::generate(shell, &mut Cli::command(), "canopyctl", &mut Sink(out));
    if shell == clap_complete::Shell::Bash {
        out.write_all(names::BASH.as_bytes())?;
    }
    Ok(())
}

/// `version`: prints this program's version even if the controller cannot be reached.
pub(crate) async fn version(client: &Client, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "client: {}", env!("CARGO_PKG_VERSION"))?;
    let server: Version = client.get("asking for the controller's version", "/version").await?;
    let Version { version, api_version, term } = server;
    Ok(writeln!(out, "server: {} (API {}, term {term})", text(version), text(api_version))?)
}

/// Checks a name that becomes a path segment.
fn segment<'a>(what: &str, name: &'a str) -> Result<&'a str, Failure> {
    if is_plain(name) {
        Ok(name)
    } else {
        Err(Failure::new(Exit::Usage, format!("{name:?} is not a {what} name: use a-z, 0-9 and '-'")))
    }
}

/// Checks a `node/port` that becomes part of a path or a query.
fn link_name(name: &str) -> Result<(&str, &str), Failure> {
    let usage = || Failure::new(Exit::Usage, format!("{name:?} is not a link direction: use NODE/PORT, as in n1/eth1"));
    let (node, port) = name.split_once('/').ok_or_else(usage)?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    if port.is_empty() || port.starts_with('.') || !port.bytes().all(plain) {
        return Err(usage());
    }
    Ok((segment("node", node)?, port))
}

/// A path with query parameters.
fn with_query(path: &str, query: &impl Serialize) -> Result<String, Failure> {
    let query = serde_urlencoded::to_string(query).map_err(|e| Failure::new(Exit::Usage, e.to_string()))?;
    Ok(format!("{path}?{query}"))
}

/// Path of a link direction.
fn link_path(name: &str) -> Result<String, Failure> {
    let (node, port) = link_name(name)?;
    Ok(format!("/api/v1/links/{node}/{port}"))
}

/// clap_complete wants a sized writer.
struct Sink<'a>(&'a mut dyn Write);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
