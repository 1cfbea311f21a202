// SPDX-License-Identifier: Apache-2.0
//! The memory of the programs' maps against the limit of the agent's control group, to which the kernel counts it.

use std::path::Path;

use canopy_datapath::MapMemory;
use canopy_machine::{Check, Machine};

/// What the agent itself needs next to the maps.
const OWN: u64 = 64 << 20;

/// Checks the memory limit of this process's control groups, below `root` (`/`, except in tests), against what the maps take.
pub fn memory(root: &Path, maps: Result<MapMemory, String>) -> Check {
    let name = "memory limit";
    let maps = match maps {
        Ok(maps) => maps,
        Err(error) => return Check::new(name, error, false, || "report this: the program is damaged".to_owned()),
    };
    let (needed, full) = (maps.empty + OWN, maps.full + OWN);
    let takes = format!("maps take {} without a group and {} when they are full", mib(maps.empty), mib(maps.full));
    let Some(limit) = Machine::at(root).memory_limit() else {
        return Check::new(name, format!("none; {takes}"), true, String::new);
    };
    let found = match limit {
        limit if limit >= full => format!("{}; {takes}", mib(limit)),
        limit => format!("{}; {takes}: groups are refused before they are full", mib(limit)),
    };
    Check::new(name, found, limit >= needed, || {
        format!("raise MemoryMax= of the unit, or the container's limit, to {} or more", mib(needed))
    })
}

fn mib(octets: u64) -> String {
    format!("{} MiB", octets >> 20)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MAPS: MapMemory = MapMemory { empty: 50 << 20, full: 900 << 20 };

    fn within(limit: &str) -> Check {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/memory.max", limit)] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        memory(root.path(), Ok(MAPS))
    }

    #[test]
    fn a_limit_has_to_have_room_for_the_maps_and_the_agent() {
        let none = within("max\n");
        assert!(none.is_met() && none.found.starts_with("none; maps take 50 MiB"), "{none:?}");
        assert!(within("104857600\n").fix().is_some_and(|fix| fix.contains("114 MiB")));
        let tight = within("209715200\n");
        assert!(tight.is_met() && tight.found.contains("refused before"), "{tight:?}");
        let wide = within("2147483648\n");
        assert!(wide.is_met() && wide.found.starts_with("2048 MiB") && !wide.found.contains("refused"), "{wide:?}");
        assert!(!memory(Path::new("/"), Err("opening the BPF object".into())).is_met());
    }
}
