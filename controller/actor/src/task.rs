// SPDX-License-Identifier: Apache-2.0
//! The task: one command after the other, from check to durable record to published state.

use std::sync::Arc;

use canopy_controller_core::{Command, Domain, Outcome};
use canopy_store::{Op, Revision, Store, StoreError};
use canopy_units::Monotonic;
use tokio::sync::{mpsc, oneshot};

use crate::record::op;
use crate::{CommandError, Controller, Done, tag};

/// Where the store keeps the term.
pub(crate) const TERM_KEY: &str = "controller/term";
/// Commands that may wait in the queue: one second of membership changes. Beyond that, callers wait.
pub(crate) const QUEUE: usize = 1024;

pub(crate) enum Message {
    Execute(Box<Request>),
    /// Takes a term above this one, durably.
    RaiseTerm {
        above: u64,
        answer: oneshot::Sender<Result<(), CommandError>>,
    },
    Stop,
}

pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) if_match: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) answer: oneshot::Sender<Result<Done, CommandError>>,
}

/// Runs until [`Message::Stop`], or until the store fails: its state is then unknown, and only a restart, which reads
/// it, recovers.
pub(crate) async fn run(
    controller: Controller,
    store: Arc<dyn Store>,
    mut revision: Revision,
    mut queue: mpsc::Receiver<Message>,
) -> Result<(), StoreError> {
    while let Some(message) = queue.recv().await {
        let request = match message {
            Message::Execute(request) => *request,
            Message::RaiseTerm { above, answer } => {
                let raised = raise_term(&controller, &store, &mut revision, above).await;
                let failed = raised.as_ref().err().map(ToString::to_string);
                _ = answer.send(raised.map_err(CommandError::Store));
                match failed {
                    Some(detail) => return Err(StoreError::Failed { doing: "committing", detail }),
                    None => continue,
                }
            }
            Message::Stop => break,
        };
        let answer =
            execute(&controller, &store, &mut revision, request.command, request.if_match, request.dry_run).await;
        match answer {
            Err(CommandError::Store(e)) if !matches!(e, StoreError::Limit(_)) => {
                let detail = e.to_string();
                // The caller may have gone away; the command is executed all the same.
                _ = request.answer.send(Err(CommandError::Store(e)));
                return Err(StoreError::Failed { doing: "committing", detail });
            }
            answer => _ = request.answer.send(answer),
        }
    }
    Ok(())
}

async fn execute(
    controller: &Controller,
    store: &Arc<dyn Store>,
    revision: &mut Revision,
    command: Command,
    if_match: Option<String>,
    dry_run: bool,
) -> Result<Done, CommandError> {
    let rewires = matches!(command, Command::PutTopology { .. } | Command::DeleteTopology);
    let prepared = controller.read(|d| {
        check_precondition(d, &command, if_match)?;
        d.prepare(command).map_err(CommandError::from)
    })?;
    let outcome = prepared.outcome();
    if dry_run {
        return Ok(Done { outcome, applied: None });
    }
    if !prepared.is_noop() {
        let ops: Vec<Op> = prepared.writes.iter().map(op).collect();
        *revision = commit(store, *revision, ops).await.map_err(CommandError::Store)?;
    }
    let now = controller.now();
    let applied = controller.write(|d| d.apply(prepared, now))?;
    controller.publish(&applied);
    if rewires {
        controller.push_thresholds();
    }
    Ok(Done { outcome, applied: Some(applied) })
}

async fn commit(store: &Arc<dyn Store>, expected: Revision, ops: Vec<Op>) -> Result<Revision, StoreError> {
    let store = store.clone();
    let committed = tokio::task::spawn_blocking(move || store.commit(expected, &ops)).await;
    // A panic inside the store is a failure like any other: the outcome is unknown.
    committed.unwrap_or_else(|e| Err(StoreError::Failed { doing: "committing", detail: e.to_string() }))
}

/// Durable first: a restart must not fall back to a term that agents have seen exceeded.
async fn raise_term(
    controller: &Controller,
    store: &Arc<dyn Store>,
    revision: &mut Revision,
    above: u64,
) -> Result<(), StoreError> {
    if controller.read(|d| d.term()) > above {
        return Ok(());
    }
    let term = above + 1;
    let put = Op::Put { key: TERM_KEY.into(), value: term.to_string().into_bytes() };
    *revision = commit(store, *revision, vec![put]).await?;
    let nodes = controller.write(|d| d.raise_term(term));
    controller.publish_nodes(&nodes);
    Ok(())
}

fn check_precondition(domain: &Domain, command: &Command, if_match: Option<String>) -> Result<(), CommandError> {
    let Some(expected) = if_match else { return Ok(()) };
    let (resource, actual) = tag::of_target(domain, command);
    let holds = if expected == "*" { actual.is_some() } else { actual.as_ref() == Some(&expected) };
    if holds {
        return Ok(());
    }
    Err(CommandError::Precondition { resource, expected, actual: actual.unwrap_or_else(|| "absent".into()) })
}

/// See [`Controller::validate`]. Takes as long as all of `commands` take.
pub(crate) fn validate(
    mut domain: Domain,
    commands: Vec<Command>,
    now: Monotonic,
) -> Result<Vec<Outcome>, (usize, CommandError)> {
    let mut outcomes = Vec::with_capacity(commands.len());
    for (i, command) in commands.into_iter().enumerate() {
        let prepared = domain.prepare(command).map_err(|e| (i, e.into()))?;
        outcomes.push(prepared.outcome());
        domain.apply(prepared, now).map_err(|e| (i, e.into()))?;
    }
    Ok(outcomes)
}
