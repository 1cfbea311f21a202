// SPDX-License-Identifier: Apache-2.0
//! Links that keep the order of a flow, by receive packet steering (RPS).
//!
//! A wire delivers packets in the order in which they were sent. A veth pair does not: it puts each packet into the backlog
//! of the CPU that sends it, and every CPU works its own backlog off. When a sender moves to another CPU, or the timer of a
//! token bucket fires on another one, a packet overtakes those that wait in the backlog of the first CPU. An RC responder
//! answers that with a NAK, as if a packet had been lost. A real interface gives a flow one receive queue, by a hash of the
//! packet's headers, and RPS does the same here: the hash chooses the backlog, whichever CPU sends.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::netns;

/// Whose list of CPUs is used: the kernel writes it in the form that it wants for `rps_cpus`.
const STATUS: &str = "/proc/thread-self/status";
const INTERFACES: &str = "/sys/class/net";

/// Steers what arrives at the interfaces of these namespaces; one that is created later is not steered.
///
/// # Errors
/// The kernel has no RPS, or refuses.
pub(crate) fn keep(namespaces: &[String]) -> Result<()> {
    let status = fs::read_to_string(STATUS).with_context(|| format!("reading {STATUS}"))?;
    let cpus = allowed(&status).with_context(|| format!("{STATUS} has no line Cpus_allowed"))?;
    for ns in namespaces {
        netns::within_own_sysfs(ns, || steer(Path::new(INTERFACES), cpus))
            .with_context(|| format!("steering packets in network namespace {ns}"))?;
    }
    Ok(())
}

fn steer(interfaces: &Path, cpus: &str) -> Result<()> {
    let list = |dir: &Path| -> Result<Vec<_>> {
        let entries = fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
        entries.map(|e| Ok(e?.path())).collect()
    };
    for interface in list(interfaces)? {
        for queue in list(&interface.join("queues"))? {
            if !queue.file_name().is_some_and(|n| n.to_string_lossy().starts_with("rx-")) {
                continue;
            }
            let file = queue.join("rps_cpus");
            ensure!(
                file.exists(),
                "{} does not exist: a lab needs a kernel with CONFIG_RPS, or links reorder packets",
                file.display()
            );
            fs::write(&file, cpus).with_context(|| format!("writing {cpus} to {}", file.display()))?;
        }
    }
    Ok(())
}

/// The CPUs on which the thread of this status may run, as a bit mask.
fn allowed(status: &str) -> Option<&str> {
    status.lines().find_map(|l| l.strip_prefix("Cpus_allowed:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_the_kernels_own_and_not_the_list_beside_it() {
        let status = "Name:\tx\nCpus_allowed:\tff,ffffffff\nCpus_allowed_list:\t0-39\n";
        assert_eq!(allowed(status), Some("ff,ffffffff"));
        assert_eq!(allowed("Cpus_allowed_list:\t0-39\n"), None);
    }

    #[test]
    fn every_receive_queue_is_steered_and_a_kernel_that_cannot_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for queue in ["a/queues/rx-0", "a/queues/rx-1", "b/queues/rx-0", "b/queues/tx-0"] {
            let queue = dir.path().join(queue);
            fs::create_dir_all(&queue).unwrap();
            if !queue.ends_with("tx-0") {
                fs::write(queue.join("rps_cpus"), "0").unwrap();
            }
        }
        steer(dir.path(), "3").unwrap();
        for queue in ["a/queues/rx-0", "a/queues/rx-1", "b/queues/rx-0"] {
            assert_eq!(fs::read_to_string(dir.path().join(queue).join("rps_cpus")).unwrap(), "3", "{queue}");
        }
        fs::remove_file(dir.path().join("b/queues/rx-0/rps_cpus")).unwrap();
        let e = format!("{:#}", steer(dir.path(), "3").unwrap_err());
        assert!(e.contains("b/queues/rx-0/rps_cpus") && e.contains("CONFIG_RPS"), "{e}");
    }
}
