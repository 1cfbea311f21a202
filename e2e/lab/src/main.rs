// SPDX-License-Identifier: Apache-2.0
//! `canopy-lab`: the command line of labs.

mod cli;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use canopy_lab::demo::{self, Demo};
use canopy_lab::{Instance, Lab, LabFile, Op, line, table};
use clap::Parser;
use cli::{Change, Cli, Command, Guide, UpArgs};
use serde_json::json;

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("canopy-lab: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let instance = cli.instance()?;
    match cli.command {
        Command::Up { file, mtu, up, network_only } => {
            let mut file = LabFile::read(&file)?;
            if let Some(mtu) = mtu {
                file.override_mtu(mtu);
            }
            bring_up(file, &up, &instance, cli.dir, network_only).map(drop)?;
        }
        Command::Down => {
            let dir = cli.dir.unwrap_or_else(|| instance.default_dir());
            let was_up = canopy_lab::down(&dir)?;
            eprintln!("{}", if was_up { "down" } else { "no lab was up" });
        }
        Command::Status { json } => {
            let lab = Lab::open(&instance, cli.dir)?;
            let counters = lab.link_counters()?;
            if json {
                let delays = lab.delays()?;
                print(&json!({"state": lab.state(), "links": counters, "delays": delays}).to_string())?;
            } else {
                print(&table::status(&lab, &counters)?)?;
            }
        }
        Command::Loss { link, loss } => Lab::open(&instance, cli.dir)?.set_loss(&link, loss)?,
        Command::Set { what: Change::Delay { link, delay } } => {
            Lab::open(&instance, cli.dir)?.set_delay(&link, delay)?
        }
        Command::Demo { what: Guide::Break { what } } => print(&Lab::open(&instance, cli.dir)?.break_guided(what)?)?,
        Command::Demo { what: Guide::Mend } => {
            let was_there = Lab::open(&instance, cli.dir)?.mend_guided()?;
            eprintln!("{}", if was_there { "mended" } else { "nothing was broken by `canopy-lab demo break`" });
        }
        Command::DelayLine(args) => line::run(&args)?,
        Command::Run { file, bytes, mtu, op, transfer_timeout, json, up } => {
            let lab = lab_for(file, &up, &instance, cli.dir)?;
            return demonstrate(&lab, bytes.0.get(), mtu, op, transfer_timeout, json);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn bring_up(
    mut file: LabFile,
    up: &UpArgs,
    instance: &Instance,
    dir: Option<PathBuf>,
    network_only: bool,
) -> Result<Lab> {
    up.adjust(&mut file);
    eprintln!(
        "bringing up {}: {} nodes, {} hosts, {} links",
        file.metadata.name,
        file.spec.nodes.len(),
        file.spec.hosts.len(),
        file.spec.links.len()
    );
    let mut lab = Lab::up(file, up.options(instance.clone(), dir, network_only))?;
    if up.with_prometheus && !network_only {
        let port = lab.start_prometheus()?;
        eprintln!("Prometheus is at http://127.0.0.1:{port}/");
    }
    lab.keep();
    eprintln!("up; state, configuration and logs are in {}", lab.dir().display());
    Ok(lab)
}

/// The lab that is up if it is the one asked for, else a new one.
fn lab_for(file: Option<PathBuf>, up: &UpArgs, instance: &Instance, dir: Option<PathBuf>) -> Result<Lab> {
    let asked = file.as_deref().map(LabFile::read).transpose()?;
    let Ok(lab) = Lab::open(instance, dir.clone()) else {
        return bring_up(asked.map_or_else(demo::figure1, Ok)?, up, instance, dir, false);
    };
    if let Some(asked) = asked {
        ensure!(
            asked.topology() == lab.state().file.topology(),
            "lab {} is up and differs from the file: take it down with `canopy-lab down` first",
            lab.state().file.metadata.name
        );
    }
    ensure!(
        !up.with_prometheus || lab.state().prometheus_port.is_some(),
        "the lab is up without Prometheus: take it down with `canopy-lab down` first"
    );
    if let Some(loss) = up.loss {
        lab.set_loss("all", loss)?;
    }
    Ok(lab)
}

fn demonstrate(lab: &Lab, bytes: u64, path_mtu: u32, op: Op, timeout: u64, json: bool) -> Result<ExitCode> {
    let progress = !json && std::io::stderr().is_terminal();
    let demo = Demo { bytes, path_mtu, op, timeout: Duration::from_secs(timeout), progress };
    let done = lab.demonstrate(&demo)?;
    if json {
        print(&serde_json::to_string(&done)?)?;
    } else {
        print(&table::demonstration(&done))?;
        print(&next_steps(lab))?;
    }
    let different = done.transfer.mismatches();
    if different.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("canopy-lab: content differs from the source's at {}", different.join(", "));
    Ok(ExitCode::FAILURE)
}

fn next_steps(lab: &Lab) -> String {
    let state = lab.state();
    let url = format!("http://127.0.0.1:{}", state.rest_port.unwrap_or_default());
    let instance =
        if state.instance.is_default() { String::new() } else { format!(" --instance {}", state.instance.label()) };
    let prometheus = state.prometheus_port.map_or_else(String::new, |port| format!("  http://127.0.0.1:{port}/\n"));
    format!(
        "\nThe lab stays up. The web UI, signed in\n  canopyctl --server {url} ui\nInspect\n  {url}/plain\n  {url}/metrics\n{prometheus}Next\n  \
         canopyctl --server {url} describe group {}\n  canopyctl --server {url} get groups\n  canopy-lab{instance} status\n  canopy-lab{instance} loss all 1%\n  canopy-lab{instance} run\n  canopy-lab{instance} demo break link\n  canopy-lab{instance} down\n",
        demo::GROUP
    )
}

/// Output to a closed pipe (`| head`) is reported as an error but is no failure of the lab.
fn print(text: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{}", text.trim_end_matches('\n')).context("writing to standard output")
}
