// SPDX-License-Identifier: Apache-2.0
//! Machine-wide settings that a lab needs, restored with the last lab.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use nix::unistd::geteuid;

use crate::names::{BPFFS, PINS};
use crate::sh;

/// A directory that always exists serves as the lock, so that no lock file is left behind.
const LOCK: &str = "/run";
const SAVED_BACKLOG: &str = "/run/canopy-lab.backlog";
const BACKLOG: &str = "/proc/sys/net/core/netdev_max_backlog";
/// Packets. A node that copies one packet to 64 veths queues 64 at once on its CPU; with the kernel's 1000 packets
/// would be lost that no real switch loses, and without being counted.
const WANTED_BACKLOG: u64 = 100_000;

/// Held while namespaces are made or machine-wide settings change, so that two labs do not interleave.
pub(crate) fn lock() -> Result<File> {
    let file = File::open(LOCK).with_context(|| format!("opening {LOCK}"))?;
    file.lock().with_context(|| format!("locking {LOCK}"))?;
    Ok(file)
}

/// Checks that this process may build a lab.
///
/// # Errors
/// Not root, or `ip`, `tc` or `nsenter` is missing: the error names the remedy.
pub(crate) fn check() -> Result<()> {
    ensure!(geteuid().is_root(), "canopy-lab makes network namespaces and loads BPF programs: run it as root");
    for tool in ["ip", "tc", "nsenter"] {
        sh::run(Command::new(tool).arg("-V"))
            .with_context(|| format!("`{tool}` is needed: install iproute2 and util-linux"))?;
    }
    Ok(())
}

/// Mounts bpffs if it is not mounted, and lengthens the per-CPU packet queue. Call with [`lock`] held.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn prepare() -> Result<()> {
    if statfs(BPFFS).with_context(|| format!("statfs {BPFFS}"))?.filesystem_type() != BPF_FS_MAGIC {
        mount(Some("bpf"), BPFFS, Some("bpf"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mounting bpffs at {BPFFS}"))?;
    }
    // A network namespace of its own, as a container or a CI runner has it, begins with a loopback interface that is down.
    sh::run(Command::new("ip").args(["link", "set", "lo", "up"])).context("setting the loopback interface up")?;
    lengthen_backlog()
}

/// Only the machine's first network namespace has the setting, and a container may not write it.
fn lengthen_backlog() -> Result<()> {
    let now = match fs::read_to_string(BACKLOG) {
        Ok(now) => now,
        Err(e) => {
            warn_short_backlog(&e);
            return Ok(());
        }
    };
    let now: u64 = now.trim().parse().with_context(|| format!("{BACKLOG} holds {now:?}"))?;
    if now < WANTED_BACKLOG {
        fs::write(SAVED_BACKLOG, now.to_string()).with_context(|| format!("writing {SAVED_BACKLOG}"))?;
        if let Err(e) = fs::write(BACKLOG, WANTED_BACKLOG.to_string()) {
            fs::remove_file(SAVED_BACKLOG).with_context(|| format!("removing {SAVED_BACKLOG}"))?;
            warn_short_backlog(&e);
        }
    }
    Ok(())
}

fn warn_short_backlog(e: &std::io::Error) {
    eprintln!(
        "canopy-lab: cannot set net.core.netdev_max_backlog to {WANTED_BACKLOG} ({e}): a node that copies one packet to many \
         links may lose copies without counting them; set it in the machine's first network namespace"
    );
}

/// Restores the machine's settings if no other lab has pins. Call with [`lock`] held.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn restore() -> Result<()> {
    let others =
        Path::new(PINS).exists() && fs::read_dir(PINS).with_context(|| format!("listing {PINS}"))?.next().is_some();
    if others {
        return Ok(());
    }
    if let Ok(saved) = fs::read_to_string(SAVED_BACKLOG) {
        fs::write(BACKLOG, saved.trim()).with_context(|| format!("writing {BACKLOG}"))?;
        fs::remove_file(SAVED_BACKLOG).with_context(|| format!("removing {SAVED_BACKLOG}"))?;
    }
    if Path::new(PINS).exists() {
        fs::remove_dir(PINS).with_context(|| format!("removing {PINS}"))?;
    }
    Ok(())
}
