// SPDX-License-Identifier: Apache-2.0
//! How much memory this process may have.

use std::path::Path;

use crate::Machine;

impl Machine<'_> {
    /// The lowest limit of the process's control group and those above it, in octets; cgroups(7) has both versions' files.
    pub fn memory_limit(&self) -> Option<u64> {
        let groups = self.read("proc/self/cgroup").ok()?;
        let of = |line: &str| {
            let mut fields = line.splitn(3, ':');
            let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
            let (base, file) = match (number, controllers) {
                ("0", "") => ("sys/fs/cgroup", "memory.max"),
                (_, controllers) if controllers.split(',').any(|name| name == "memory") => {
                    ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let limits = Path::new(path).ancestors().filter_map(|group| {
                let group = group.strip_prefix("/").unwrap_or(group);
                self.read(Path::new(base).join(group).join(file).to_str()?).ok()?.parse::<u64>().ok()
            });
            limits.min()
        };
        // Without a limit, version 2 has "max" and version 1 the largest number of whole pages.
        groups.lines().filter_map(of).min().filter(|limit| *limit < i64::MAX as u64 >> 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;

    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        Machine::at(root(files).path()).memory_limit()
    }

    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let group = ("proc/self/cgroup", "0::/system.slice/canopy-agent.service\n");
        let unit = "sys/fs/cgroup/system.slice/canopy-agent.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        let at = |unit_s: &str, slice_s: &str| limit(&[group, (unit, unit_s), (slice, slice_s)]);
        assert_eq!(at("max\n", "max\n"), None);
        assert_eq!(at("max\n", "100\n"), Some(100));
        assert_eq!(at("100\n", "max\n"), Some(100));
        assert_eq!(at("100\n", "200\n"), Some(100));
        assert_eq!(at("200\n", "100\n"), Some(100));
        assert_eq!(limit(&[]), None, "no control group, no limit");
    }

    #[test]
    fn control_groups_of_version_1_have_a_limit_too() {
        let group = ("proc/self/cgroup", "5:cpu:/\n4:memory:/a\n0::/\n");
        let file = "sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        assert_eq!(limit(&[group, (file, "9223372036854771712\n")]), None);
        assert_eq!(limit(&[group, (file, "1048576\n")]), Some(1_048_576));
    }
}
