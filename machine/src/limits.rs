// SPDX-License-Identifier: Apache-2.0
//! Limits of this process, which those that it starts inherit, and memory.

use crate::{Check, Machine};

/// Open files that the listeners of a controller together may need, besides those of its store.
pub const OPEN_FILES: u64 = 50_000;
/// What an application of one transfer registers at the NIC, at least.
const LOCKED: u64 = 64 << 20;
/// Chart data has a budget of 256 MiB; the domain, streams and a change set that is taken back need as much again.
const CONTROLLER: u64 = 512 << 20;

impl Machine<'_> {
    /// A process may have as many open files as a controller's listeners may need.
    pub(crate) fn open_files(&self) -> Check {
        let name = "open files";
        let Some((_, hard)) = self.limit("Max open files") else { return limits_unknown(name) };
        let fix = format!(
            "LimitNOFILE= of the unit, nofile in /etc/security/limits.d, or the container's limit: {OPEN_FILES} or more"
        );
        match hard {
            Some(hard) if hard < OPEN_FILES => Check::missing(name, format!("{hard} at most"), fix),
            Some(hard) => Check::met(name, format!("{hard} at most")),
            None => Check::met(name, "any number"),
        }
    }

    /// A process may lock as much memory as an application registers.
    pub(crate) fn locked_memory(&self) -> Check {
        let name = "locked memory";
        let Some((soft, _)) = self.limit("Max locked memory") else { return limits_unknown(name) };
        let fix = "memlock unlimited in /etc/security/limits.d, LimitMEMLOCK=infinity in a unit, or CAP_IPC_LOCK: RDMA pins memory";
        match soft {
            Some(soft) if soft < LOCKED => {
                let found = format!("{} KiB for processes started here, registering memory needs more", soft >> 10);
                Check::missing(name, found, fix)
            }
            Some(soft) => Check::met(name, format!("{} MiB", soft >> 20)),
            None => Check::met(name, "without a limit"),
        }
    }

    /// There is memory for a controller.
    pub(crate) fn memory(&self) -> Check {
        let name = "memory";
        let Some(available) = self.available() else {
            return Check::unknown(name, "/proc/meminfo cannot be read", "mount /proc");
        };
        let limit = self.memory_limit().unwrap_or(u64::MAX);
        let (own, what) =
            if limit < available { (limit, "the limit of this control group") } else { (available, "available") };
        Check::new(name, format!("{} MiB, {what}", own >> 20), own >= CONTROLLER, || {
            format!("free or add memory: a controller needs {} MiB, more with many groups", CONTROLLER >> 20)
        })
    }

    fn available(&self) -> Option<u64> {
        let text = self.read("proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }

    /// The soft and the hard limit of this name; `None` inside: there is none.
    fn limit(&self, name: &str) -> Option<(Option<u64>, Option<u64>)> {
        let text = self.read("proc/self/limits").ok()?;
        let mut fields = text.lines().find_map(|line| line.strip_prefix(name))?.split_ascii_whitespace();
        let mut next = || {
            let field = fields.next()?;
            if field == "unlimited" { Some(None) } else { field.parse().ok().map(Some) }
        };
        Some((next()?, next()?))
    }
}

fn limits_unknown(name: &'static str) -> Check {
    Check::unknown(name, "/proc/self/limits cannot be read", "mount /proc")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::root;

    fn limited(soft: &str, hard: &str) -> tempfile::TempDir {
        let limits = format!(
            "Limit  Soft Limit  Hard Limit  Units\nMax open files  {soft}  {hard}  files\nMax locked memory  {soft}  {hard}  bytes\n"
        );
        root(&[("proc/self/limits", &limits)])
    }

    /// Catches that the soft limit counts, which a controller raises by itself.
    #[test]
    fn the_hard_limit_of_open_files_counts() {
        let of = |soft, hard| Machine::at(limited(soft, hard).path()).open_files();
        assert!(of("1024", "50000").is_met() && of("1024", "unlimited").is_met());
        assert_eq!(of("1024", "49999").found, "49999 at most");
        assert!(!of("1024", "49999").is_met());
        assert!(matches!(Machine::at(root(&[]).path()).open_files().verdict, Verdict::Unknown(_)));
    }

    /// Catches that the hard limit counts, which no application raises.
    #[test]
    fn the_soft_limit_of_locked_memory_counts() {
        let of = |soft, hard| Machine::at(limited(soft, hard).path()).locked_memory();
        assert!(of("unlimited", "unlimited").is_met() && of("67108864", "unlimited").is_met());
        assert!(of("8388608", "unlimited").found.starts_with("8192 KiB for processes"));
        assert!(!of("67108863", "unlimited").is_met());
    }

    #[test]
    fn memory_is_what_is_available_within_the_limit_of_the_control_group() {
        let of = |available: u64, limit: &str| {
            let text = format!("MemTotal: 9 kB\nMemAvailable:   {} kB\n", available << 10);
            let group =
                [("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", limit), ("proc/meminfo", &text)];
            Machine::at(root(&group).path()).memory()
        };
        assert!(of(512, "max").is_met());
        assert!(!of(511, "max").is_met());
        assert_eq!(of(4096, "268435456").found, "256 MiB, the limit of this control group");
        assert!(!of(4096, "268435456").is_met());
        assert!(matches!(Machine::at(root(&[]).path()).memory().verdict, Verdict::Unknown(_)));
    }
}
