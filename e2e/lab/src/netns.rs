// SPDX-License-Identifier: Apache-2.0
//! Network namespaces by name, as `ip netns` keeps them.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};

use crate::sh;

/// The file that holds the namespace.
pub(crate) fn path(ns: &str) -> PathBuf {
    Path::new("/run/netns").join(ns)
}

/// True if a namespace of this name exists.
pub(crate) fn exists(ns: &str) -> bool {
    path(ns).exists()
}

/// Creates a namespace.
///
/// # Errors
/// It exists, or the kernel refuses.
pub(crate) fn add(ns: &str) -> Result<()> {
    sh::run(Command::new("ip").args(["netns", "add", ns])).map(drop)
}

/// Removes those that exist of `names`; their interfaces go with them.
///
/// # Errors
/// The kernel refuses one.
pub(crate) fn remove<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<()> {
    let lines: Vec<String> = names.into_iter().filter(|n| exists(n)).map(|n| format!("netns del {n}")).collect();
    sh::batch(Command::new("ip").args(["-batch", "-"]), &lines)
}

/// A command that runs in the namespace and sees the machine's mounts: `ip netns exec` would remount /sys and hide
/// /sys/fs/bpf.
pub(crate) fn command(ns: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut c = Command::new("nsenter");
    c.arg(format!("--net={}", path(ns).display())).arg("--").arg(program);
    c
}

/// Runs `f` on a thread in the namespace; processes that `f` starts are in it too. /sys/class/net still shows the
/// caller's namespace.
///
/// # Errors
/// The namespace does not exist, or `f` fails.
pub(crate) fn within<T: Send>(ns: &str, f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let enter = || {
        let file = File::open(path(ns)).with_context(|| format!("opening network namespace {ns}"))?;
        setns(&file, CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("entering network namespace {ns}: are you root?"))?;
        f()
    };
    std::thread::scope(|scope| scope.spawn(enter).join())
        .map_err(|_| anyhow!("a thread in network namespace {ns} panicked"))?
}

/// As [`within`], and /sys shows the namespace's own interfaces to `f`, and hides what is mounted below it elsewhere, bpffs
/// for one. No other thread sees the mount, and it ends with `f`.
///
/// # Errors
/// As [`within`], or the kernel refuses the mount.
pub(crate) fn within_own_sysfs<T: Send>(ns: &str, f: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    within(ns, || {
        unshare(CloneFlags::CLONE_NEWNS)
            .with_context(|| format!("making a mount namespace to see the queues of {ns}: are you root?"))?;
        mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
            .context("making all mounts private to one thread")?;
        mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>)
            .with_context(|| format!("mounting sysfs of network namespace {ns} at /sys"))?;
        f()
    })
}

/// Processes in any of these namespaces, without the calling process.
pub(crate) fn processes<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<i32>> {
    let inside: BTreeSet<(u64, u64)> =
        names.into_iter().filter_map(|n| fs::metadata(path(n)).ok()).map(|m| (m.dev(), m.ino())).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("listing /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        // A process that ended meanwhile, or a zombie, has no namespace.
        let Ok(meta) = fs::metadata(entry.path().join("ns/net")) else { continue };
        if inside.contains(&(meta.dev(), meta.ino())) && pid as u32 != std::process::id() {
            found.push(pid);
        }
    }
    Ok(found)
}
