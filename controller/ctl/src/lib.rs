// SPDX-License-Identifier: Apache-2.0
//! `canopyctl`: the operator's command line, a client of the REST API and of nothing else.
//!
//! [`cli`] says what can be asked, [`run`] does it with writers as arguments, [`client`] speaks plain HTTP over TCP loopback or a
//! Unix socket, [`failure`] maps every error to a message and an exit code.

pub mod cli;
pub mod client;
pub mod commands;
pub mod documents;
pub mod failure;
pub mod output;

use std::io::Write;

use cli::{Cli, Command};
use client::Client;
use failure::Failure;

/// Carries out one command line; what it prints goes to `out`.
///
/// # Errors
/// What went wrong, with its exit code; already written for a person.
pub async fn run(cli: Cli, out: &mut dyn Write) -> Result<(), Failure> {
    let client = Client::new(&cli.server)?;
    match cli.command {
        Command::Apply(a) => commands::apply::run(&client, &a, out).await,
        Command::Get(a) => commands::get::run(&client, &a, out).await,
        Command::Describe(a) => commands::describe::run(&client, &a, out).await,
        Command::Delete(a) => commands::delete::run(&client, &a, out).await,
        Command::Wait(a) => commands::wait::run(&client, &a, out).await,
        Command::Completion { shell } => commands::completion(shell, out),
        Command::Version => commands::version(&client, out).await,
    }
}
