// SPDX-License-Identifier: Apache-2.0
//! The memory of the programs' maps against the limit of the agent's control group, to which the kernel counts it.

use std::path::Path;

use canopy_datapath::MapMemory;

use super::{Check, Host, check};

/// What the agent itself needs next to the maps.
const OWN: u64 = 64 << 20;

/// Checks the memory limit of this process's control groups, below `root` (`/`, except in tests), against what the maps take.
pub fn memory(root: &Path, maps: Result<MapMemory, String>) -> Check {
    let name = "memory limit";
    let maps = match maps {
        Ok(maps) => maps,
        Err(error) => return check(name, error, false, || "report this: the program is damaged".to_owned()),
    };
    let (needed, full) = (maps.empty + OWN, maps.full + OWN);
    let takes = format!("maps take {} without a group and {} when they are full", mib(maps.empty), mib(maps.full));
    let Some(limit) = limit(&Host { root }) else { return check(name, format!("none; {takes}"), true, String::new) };
    let found = match limit {
        limit if limit >= full => format!("{}; {takes}", mib(limit)),
        limit => format!("{}; {takes}: groups are refused before they are full", mib(limit)),
    };
    check(name, found, limit >= needed, || {
        format!("raise MemoryMax= of the unit, or the container's limit, to {} or more", mib(needed))
    })
}

/// The lowest limit of the process's control group and those above it; cgroups(7) has both versions' files.
fn limit(host: &Host<'_>) -> Option<u64> {
    let groups = host.read("proc/self/cgroup").ok()?;
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
            host.read(Path::new(base).join(group).join(file).to_str()?).ok()?.parse::<u64>().ok()
        });
        limits.min()
    };
    // Without a limit, version 2 has "max" and version 1 the largest number of whole pages.
    groups.lines().filter_map(of).min().filter(|limit| *limit < i64::MAX as u64 >> 1)
}

fn mib(octets: u64) -> String {
    format!("{} MiB", octets >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const MAPS: MapMemory = MapMemory { empty: 50 << 20, full: 900 << 20 };

    fn found(files: &[(&str, &str)]) -> Check {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory(root.path(), Ok(MAPS))
    }

    #[test]
    fn the_lowest_limit_on_the_way_up_counts() {
        let group = ("proc/self/cgroup", "0::/system.slice/canopy-agent.service\n");
        let unit = "sys/fs/cgroup/system.slice/canopy-agent.service/memory.max";
        let slice = "sys/fs/cgroup/system.slice/memory.max";
        let at = |unit_s: &str, slice_s: &str| found(&[group, (unit, unit_s), (slice, slice_s)]);
        let none = at("max\n", "max\n");
        assert!(none.fix.is_none() && none.found.starts_with("none; maps take 50 MiB"), "{none:?}");
        assert!(at("max\n", "104857600\n").fix.is_some_and(|fix| fix.contains("114 MiB")));
        for (unit_s, slice_s) in [("104857600", "max"), ("104857600", "2147483648"), ("2147483648", "104857600")] {
            assert!(at(unit_s, slice_s).fix.is_some(), "{unit_s} below {slice_s}");
        }
        let tight = at("209715200\n", "max\n");
        assert!(tight.fix.is_none() && tight.found.contains("refused before"), "{tight:?}");
        let wide = at("2147483648\n", "max\n");
        assert!(
            wide.fix.is_none() && wide.found.starts_with("2048 MiB") && !wide.found.contains("refused"),
            "{wide:?}"
        );
    }

    #[test]
    fn control_groups_of_version_1_have_a_limit_too() {
        let group = ("proc/self/cgroup", "5:cpu:/\n4:memory:/a\n0::/\n");
        let file = "sys/fs/cgroup/memory/a/memory.limit_in_bytes";
        assert!(found(&[group, (file, "9223372036854771712\n")]).found.starts_with("none"));
        assert!(found(&[group, (file, "1048576\n")]).fix.is_some());
        assert!(found(&[]).fix.is_none(), "no control group, no limit");
        assert!(memory(Path::new("/"), Err("opening the BPF object".into())).fix.is_some());
    }
}
