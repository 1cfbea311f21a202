// SPDX-License-Identifier: Apache-2.0
//! `canopy-agent doctor`: checks what the agent needs of the kernel and may do with it, and how to get what is missing.
//!
//! It examines its own process: under the unit of the service manager it has that unit's user, capabilities, mounts and limits.

mod host;
mod memory;

use std::path::Path;

use canopy_machine::{Check, Machine};
use nix::sys::utsname::uname;

pub use host::host;
pub use memory::memory;

/// Examines the host whose `/proc` and `/sys` are below `root` (`/`, except in tests).
pub fn examine(root: &Path, pin_dir: &Path, sysctl_dir: &Path) -> Vec<Check> {
    let machine = Machine::at(root);
    vec![
        machine.kernel(),
        machine.btf(),
        machine.bpffs(pin_dir),
        machine.capabilities(),
        machine.ipv6(),
        machine.sysctls(sysctl_dir),
    ]
}

/// Whether multicast replication is possible: the kernel's IPv6 multicast routing has policy rules, by which it forwards only what passed
/// the boundary. `found` is what the datapath knows, or why it does not.
pub fn multicast(found: Result<bool, String>) -> Check {
    let good = found == Ok(true);
    let found = match found {
        Ok(true) => "present".to_owned(),
        Ok(false) => "missing; groups with replication srv6 do not need it".to_owned(),
        Err(error) => error,
    };
    Check::new("policy rules of IPv6 multicast routing", found, good, || {
        "boot a kernel that was built with CONFIG_IPV6_MROUTE=y and CONFIG_IPV6_MROUTE_MULTIPLE_TABLES=y".to_owned()
    })
}

/// The host's name, as `hostname` prints it. Not from `/proc`, which a service with `ProcSubset=pid` does not have.
pub fn hostname() -> String {
    uname().map(|names| names.nodename().to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 6] = [
        ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        ("sys/kernel/btf/vmlinux", "\x7fBTF"),
        (
            "proc/self/mountinfo",
            "1 0 0:1 / / rw - ext4 d rw\n30 1 0:27 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw\n",
        ),
        ("proc/self/status", "Name:\tx\nCapEff:\t000000c000003400\n"),
        ("proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n"),
        ("proc/sys/net/ipv6/conf/all/forwarding", "0\n"),
    ];

    /// Names of the failed checks on a good host without the file `path`.
    fn missing(path: &str) -> Vec<&'static str> {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in GOOD.into_iter().filter(|(name, _)| *name != path) {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let checks = examine(root.path(), Path::new("/sys/fs/bpf/canopy"), Path::new("/proc/sys/net"));
        checks.iter().filter(|check| !check.is_met()).map(|check| check.name).collect()
    }

    #[test]
    fn each_requirement_of_the_agent_is_checked() {
        assert!(missing("").is_empty());
        let names =
            ["kernel release", "kernel BTF", "bpffs at pin_dir", "capabilities", "IPv6", "switches of the network"];
        for ((path, _), name) in GOOD.into_iter().zip(names) {
            assert_eq!(missing(path), [name]);
        }
    }

    #[test]
    fn multicast_replication_needs_policy_rules() {
        assert!(multicast(Ok(true)).is_met());
        assert!(multicast(Ok(false)).fix().is_some_and(|fix| fix.contains("CONFIG_IPV6_MROUTE_MULTIPLE_TABLES")));
        let unknown = multicast(Err("opening a netlink socket".into()));
        assert!(!unknown.is_met() && unknown.found.contains("netlink"), "{unknown:?}");
    }
}
