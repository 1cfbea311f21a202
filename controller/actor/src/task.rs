// SPDX-License-Identifier: Apache-2.0
//! The task: one command after the other, from check to durable record to published state.

use std::sync::Arc;

use canopy_controller_core::{Command, Domain, Outcome, Write};
use canopy_store::{Op, Revision, Store, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::{CommandError, Controller, Done, tag};

/// Commands that may wait in the queue: one second of membership changes. Beyond that, callers wait.
pub(crate) const QUEUE: usize = 1024;

pub(crate) enum Message {
    Execute(Box<Request>),
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
        let (store, expected) = (store.clone(), *revision);
        let committed = tokio::task::spawn_blocking(move || store.commit(expected, &ops)).await;
        // A panic inside the store is a failure like any other: the outcome is unknown.
        let committed =
            committed.unwrap_or_else(|e| Err(StoreError::Failed { doing: "committing", detail: e.to_string() }));
        *revision = committed.map_err(CommandError::Store)?;
    }
    let applied = controller.write(|d| d.apply(prepared))?;
    controller.publish(&applied);
    if rewires {
        controller.tune_links();
    }
    Ok(Done { outcome, applied: Some(applied) })
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
pub(crate) fn validate(mut domain: Domain, commands: Vec<Command>) -> Result<Vec<Outcome>, (usize, CommandError)> {
    let mut outcomes = Vec::with_capacity(commands.len());
    for (i, command) in commands.into_iter().enumerate() {
        let prepared = domain.prepare(command).map_err(|e| (i, e.into()))?;
        outcomes.push(prepared.outcome());
        domain.apply(prepared).map_err(|e| (i, e.into()))?;
    }
    Ok(outcomes)
}

fn op(write: &Write) -> Op {
    match write {
        Write::Put { key, value } => Op::Put { key: key.clone(), value: value.clone() },
        Write::Delete { key } => Op::Delete { key: key.clone() },
    }
}
