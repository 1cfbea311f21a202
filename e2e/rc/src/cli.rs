// SPDX-License-Identifier: Apache-2.0
//! The command line, and the setup around a transfer: addresses, membership, signals and the printed result.

mod args;
mod local;
mod receive;
mod send;

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde::Serialize;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use args::{Cli, Command};

/// Parses the command line and runs the command. The calling thread becomes the data path.
pub fn run() -> Result<()> {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("starting the runtime of the controller client")?;
    let stop = stop_on_signal(&runtime)?;
    match cli.command {
        Command::Send(args) => send::run(&runtime, &stop, &args),
        Command::Receive(args) => receive::run(&runtime, &stop, &args),
    }
}

/// A flag that SIGTERM and SIGINT set.
fn stop_on_signal(runtime: &Runtime) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let _context = runtime.enter();
    let mut terminate = signal(SignalKind::terminate()).context("catching SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("catching SIGINT")?;
    runtime.spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

/// Prints a report on one line, as JSON or as `name=value` pairs.
fn print(report: &impl Serialize, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(report).context("writing the report")?);
        return Ok(());
    }
    let value = serde_json::to_value(report).context("writing the report")?;
    let pairs = value.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs.map(|(name, value)| format!("{name}={value}")).collect();
    println!("{}", pairs.join(" "));
    Ok(())
}

/// Runs `work` to its end, unless SIGTERM or SIGINT arrives first.
fn block_on<T>(runtime: &Runtime, stop: &AtomicBool, work: impl Future<Output = Result<T>>) -> Result<T> {
    let stopped = async {
        while !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            () = stopped => bail!("stopped by a signal during a call to the controller"),
        }
    })
}

/// Writes a file atomically: a reader sees all of it or nothing.
fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    std::fs::write(&partial, text)
        .and_then(|()| std::fs::rename(&partial, path))
        .with_context(|| format!("writing {}", path.display()))
}
