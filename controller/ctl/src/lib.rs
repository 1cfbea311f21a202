// SPDX-License-Identifier: Apache-2.0
//! `canopyctl`: the operator's command line, a client of the REST API and of nothing else.
//!
//! [`cli`] defines the command line, [`contexts`] has the servers that users have named, [`run`] executes it with writers as arguments, [`client`] sends HTTP over
//! a Unix socket, TLS or TCP loopback, `proxy` forwards a browser's requests to it, [`failure`] maps every error to a message and an exit code.
//! [`upgrade`] makes the order of an upgrade.

pub mod cli;
pub mod client;
pub mod commands;
pub mod contexts;
pub mod documents;
pub mod failure;
pub mod output;
mod proxy;
pub mod stream;
pub mod upgrade;

use std::io::Write;

use cli::{CertificateArgs, Cli, Command, ContextArgs, NodeAction};
use client::Client;
use failure::Failure;

/// Executes one command line; writes its output to `out`.
///
/// # Errors
/// The failure, with its exit code and a message for users.
pub async fn run(cli: Cli, out: &mut dyn Write) -> Result<(), Failure> {
    // An empty variable is one that was not set.
    let env = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // It mends what keeps every other command from its server.
    if let Command::Context(ContextArgs { action }) = &cli.command {
        return commands::context::run(action, &env, out);
    }
    if let Command::Completion { shell } = cli.command {
        return commands::completion(shell, out);
    }
    // Before anything is installed there is no server, and nothing is asked of one.
    if let Command::Check(args) = &cli.command
        && args.machine.pre
    {
        return commands::check_machine::run(args, out);
    }
    let server = contexts::server(cli.server.as_deref(), cli.context.as_deref(), &env)?;
    if let Command::Certificate(CertificateArgs { action }) = &cli.command
        && let Some(done) = commands::certificate::offline(action, out, &mut std::io::stderr())
    {
        return done;
    }
    let token = contexts::token(cli.token_file, &server, &env)?;
    let certificate = contexts::certificate(cli.certificate_file, &server, &env)?;
    let server = server.context;
    let authority = contexts::authority(cli.authority, server.authority, &env)?;
    let manager = cli.take_over.then(|| client::TAKE_OVER.to_owned());
    let client = Client::showing(&server.server, authority, certificate.as_ref())?;
    let client = client.within(cli.commit).managing(manager).with_token(token)?;
    match cli.command {
        Command::Apply(a) => commands::apply::run(&client, &a, out).await,
        Command::Get(a) => commands::get::run(&client, &a, out).await,
        Command::Upgrade(a) => commands::upgrade::run(&client, &a, out).await,
        Command::Check(a) => match &a.pod {
            Some(file) => commands::check_pod::run(&client, file, &a, out).await,
            None => commands::check::run(&client, &a, out).await,
        },
        Command::Status(a) => commands::status::run(&client, &a, out).await,
        Command::Why(a) => commands::why::run(&client, &a, out).await,
        Command::Top(a) => commands::top::run(&client, &a, out).await,
        Command::Packet(a) => commands::packet::run(&client, &a, out).await,
        Command::Decode(a) => commands::paths::decode(&client, &a, out).await,
        Command::Route(a) => commands::route::run(&client, &a, out).await,
        Command::Explain { what } => commands::explain::run(&client, what.as_deref(), out).await,
        Command::Describe(a) => commands::describe::run(&client, &a, out).await,
        Command::Diff(a) => commands::diff::run(&client, &a, out).await,
        Command::Chart(a) => commands::chart::run(&client, &a, out).await,
        Command::History(a) => commands::history::run(&client, &a, out).await,
        Command::Undo(a) => commands::undo::run(&client, &a, out).await,
        Command::Audit(a) => commands::audit::run(&client, &a, out).await,
        Command::Delete(a) => commands::delete::run(&client, &a, out).await,
        Command::Drain(a) => commands::drain::drain(&client, &a, out).await,
        Command::Undrain(a) => commands::drain::undrain(&client, &a, out).await,
        Command::Ack(a) => commands::silence::ack(&client, &a, out).await,
        Command::Silence(a) => commands::silence::run(&client, &a, out).await,
        Command::Unsilence(a) => commands::silence::unsilence(&client, &a, out).await,
        Command::Wait(a) => commands::wait::run(&client, &a, out).await,
        Command::Commit(a) => commands::commit::run(&client, &a, out).await,
        Command::ChangeSet(a) => commands::change_set::run(&client, &a.action, out).await,
        Command::LogLevel(a) => commands::log_level::run(&client, &a, out).await,
        Command::Hmac(a) => commands::hmac::run(&client, &a, out).await,
        Command::Ca(a) => commands::ca::run(&client, &a.action, out).await,
        Command::Node(a) => match a.action {
            NodeAction::Identity(a) => commands::identity::run(&client, "node", &a, out, &mut std::io::stderr()).await,
            NodeAction::Retire(a) => commands::retire::run(&client, &a, out, &mut std::io::stderr()).await,
        },
        Command::Host(a) => commands::identity::run(&client, "host", &a.action, out, &mut std::io::stderr()).await,
        Command::Certificate(a) => commands::certificate::run(&client, &a.action, out, &mut std::io::stderr()).await,
        Command::Token(a) => commands::token::run(&client, &a.action, out, &mut std::io::stderr()).await,
        Command::Session(a) => commands::session::run(&client, &a.action, out).await,
        Command::Whoami => commands::token::caller(&client, out).await,
        Command::Ui(a) => commands::ui::run(&client, &a, out).await,
        Command::Names { kind, prefix } => commands::names::run(&client, &kind, &prefix, out).await,
        Command::Completion { .. } | Command::Context(_) => Ok(()),
        Command::Version => commands::version(&client, out).await,
    }
}
