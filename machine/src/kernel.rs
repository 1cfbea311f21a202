// SPDX-License-Identifier: Apache-2.0
//! What the kernel has, and what this process may do with it.

use std::fs;
use std::path::Path;

use nix::unistd::geteuid;

use crate::mounts::{AS_ROOT, IN_NAMESPACE, OUTSIDE};
use crate::{Check, Machine};

/// Oldest kernel release that nodes run on.
const OLDEST_KERNEL: (u32, u32) = (5, 17);
const CAP_SYS_ADMIN: u32 = 21;
/// Those that the agent needs: raw sockets are for Echo Requests and multicast routing, a port below 1024 is that of STAMP.
const CAPABILITIES: [(&str, u32); 5] =
    [("CAP_BPF", 39), ("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_NET_RAW", 13), ("CAP_NET_BIND_SERVICE", 10)];
/// Those that CAP_SYS_ADMIN contains, capabilities(7).
const OF_SYS_ADMIN: [u32; 2] = [38, 39];
/// A switch of the network that the agent sets, below its `sysctl_dir`.
const SWITCH: &str = "ipv6/conf/all/forwarding";

impl Machine<'_> {
    /// The kernel is new enough for nodes.
    pub fn kernel(&self) -> Check {
        let (major, minor) = OLDEST_KERNEL;
        let release = self.read("proc/sys/kernel/osrelease").unwrap_or_else(|error| error);
        let good = version(&release).is_some_and(|version| version >= OLDEST_KERNEL);
        Check::new("kernel release", release, good, || {
            format!("boot a Linux kernel of release {major}.{minor} or later (your distribution's current one will do)")
        })
    }

    /// Kernel release of the running kernel, as `uname -r` prints it; `unknown` without `/proc`.
    pub fn kernel_release(&self) -> String {
        self.read("proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned())
    }

    /// The kernel has its types, which BPF programs are loaded with.
    pub fn btf(&self) -> Check {
        let path = "sys/kernel/btf/vmlinux";
        let present = fs::metadata(self.root.join(path)).is_ok_and(|meta| meta.len() > 0);
        let found = format!("/{path} {}", if present { "present" } else { "missing" });
        Check::new("kernel BTF", found, present, || {
            "boot a kernel that was built with CONFIG_DEBUG_INFO_BTF=y (check: `grep BTF /boot/config-$(uname -r)`)"
                .to_owned()
        })
    }

    /// This process has the capabilities of an agent.
    pub fn capabilities(&self) -> Check {
        let missing = self.capabilities_not_in("CapEff:");
        let found = if missing.is_empty() { "present".to_owned() } else { format!("{} missing", missing.join(", ")) };
        Check::new("capabilities", found, missing.is_empty(), || {
            let all = CAPABILITIES.map(|(name, _)| name).join(" ");
            format!("run as root, or under systemd with AmbientCapabilities={all}")
        })
    }

    /// Services on this machine can be given the capabilities of an agent: they are in the bounding set, which a container's may lack.
    pub(crate) fn may_have_capabilities(&self) -> Check {
        let name = "capabilities";
        if self.read("proc/self/status").is_err() {
            return Check::unknown(name, "/proc/self/status cannot be read", "mount /proc");
        }
        if self.is_in_user_namespace() {
            return Check::unknown(name, IN_NAMESPACE, OUTSIDE);
        }
        match self.capabilities_not_in("CapBnd:").as_slice() {
            [] => Check::met(name, "services can have them"),
            missing => {
                let all = CAPABILITIES.map(|(name, _)| name.trim_start_matches("CAP_")).join(",");
                let fix = format!("give the container the capabilities {all}");
                Check::missing(name, format!("no process here can have {}", missing.join(", ")), fix)
            }
        }
    }

    /// Switches of the network can be set, which a container may have for reading alone.
    pub(crate) fn sysctls_writable(&self) -> Check {
        let check = self.sysctls(Path::new("/proc/sys/net"));
        if self.is_in_user_namespace() {
            return Check::unknown(check.name, IN_NAMESPACE, OUTSIDE);
        }
        let switch = self.within(&Path::new("/proc/sys/net").join(SWITCH));
        let is_denied =
            !check.is_met() && fs::metadata(switch).is_ok() && !self.is_read_only(Path::new("/proc/sys/net"));
        if is_denied && !geteuid().is_root() {
            return Check::unknown(check.name, check.found, AS_ROOT);
        }
        check
    }

    /// Root here is not root of the machine: what this process may do shows nothing about services of the machine.
    pub(crate) fn is_in_user_namespace(&self) -> bool {
        self.read("proc/self/uid_map").is_ok_and(|map| map.split_whitespace().ne(["0", "0", "4294967295"]))
    }

    /// Those of an agent that are not in this set of the process, a line of `/proc/self/status`.
    fn capabilities_not_in(&self, set: &str) -> Vec<&'static str> {
        let status = self.read("proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(set));
        let bits = line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default();
        let has = |capability: u32| bits >> capability & 1 == 1;
        let missing =
            (CAPABILITIES.iter()).filter(|(_, bit)| !(has(*bit) || OF_SYS_ADMIN.contains(bit) && has(CAP_SYS_ADMIN)));
        missing.map(|(name, _)| *name).collect()
    }

    /// IPv6 is enabled.
    pub fn ipv6(&self) -> Check {
        let found = match self.read("proc/sys/net/ipv6/conf/all/disable_ipv6").as_deref() {
            Ok("0") => ("enabled", true),
            Ok(_) => ("disabled by net.ipv6.conf.all.disable_ipv6", false),
            Err(_) => ("not in this kernel", false),
        };
        Check::new("IPv6", found.0.to_owned(), found.1, || {
            "sysctl -w net.ipv6.conf.all.disable_ipv6=0; boot without ipv6.disable=1".to_owned()
        })
    }

    /// This process may set switches of the network: opens one for writing, and writes nothing.
    pub fn sysctls(&self, sysctl_dir: &Path) -> Check {
        let switch = sysctl_dir.join(SWITCH);
        let opened = fs::OpenOptions::new().write(true).open(self.within(&switch));
        let found = match &opened {
            Ok(_) => format!("{} can be written", switch.display()),
            Err(error) => format!("{}: {error}", switch.display()),
        };
        Check::new("switches of the network", found, opened.is_ok(), || {
            "in a unit: ProtectKernelTunables=no, or ReadWritePaths=/proc/sys/net with it; in a container: mount /proc/sys/net for writing, \
             elsewhere with sysctl_dir; as another user than root: CAP_NET_ADMIN"
                .to_owned()
        })
    }
}

/// `6.8.0-45-generic` -> (6, 8).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::root;

    #[test]
    fn a_kernel_older_than_5_17_is_missing() {
        let good =
            |release: &str| Machine::at(root(&[("proc/sys/kernel/osrelease", release)]).path()).kernel().is_met();
        for new in ["5.17.0", "6.8.0-45-generic\n"] {
            assert!(good(new), "{new}");
        }
        for old in ["5.16.20", "4.19.0", "garbage"] {
            assert!(!good(old), "{old}");
        }
        assert!(!Machine::at(root(&[]).path()).kernel().is_met());
    }

    #[test]
    fn btf_is_missing_without_a_file_and_with_an_empty_one() {
        let good = |files: &[(&str, &str)]| Machine::at(root(files).path()).btf().is_met();
        assert!(good(&[("sys/kernel/btf/vmlinux", "\x7fBTF")]));
        assert!(!good(&[("sys/kernel/btf/vmlinux", "")]) && !good(&[]));
    }

    #[test]
    fn each_capability_is_named_that_is_missing() {
        let missing = |bits: u64| {
            let root = root(&[("proc/self/status", &format!("Name:\tx\nCapEff:\t{bits:016x}\n"))]);
            Machine::at(root.path()).capabilities().found
        };
        let all = 0xc0_0000_3400_u64;
        assert_eq!(missing(all), "present");
        assert_eq!(missing(0x20_3400), "present", "CAP_SYS_ADMIN contains BPF and PERFMON");
        for (name, bit) in CAPABILITIES {
            assert_eq!(missing(all & !(1 << bit)), format!("{name} missing"));
        }
        assert!(!Machine::at(root(&[]).path()).capabilities().is_met());
    }

    /// Catches a container without a capability that passes because the set of another process is read.
    #[test]
    fn a_capability_that_no_process_can_have_is_missing() {
        let found = |bounding: &str| {
            let root = root(&[("proc/self/status", &format!("CapEff:\t0000000000000000\nCapBnd:\t{bounding}\n"))]);
            Machine::at(root.path()).may_have_capabilities()
        };
        assert!(found("000001ffffffffff").is_met());
        let docker = found("00000000a80425fb");
        assert_eq!(docker.found, "no process here can have CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON");
        assert!(docker.fix().is_some_and(|fix| fix.ends_with("BPF,NET_ADMIN,PERFMON,NET_RAW,NET_BIND_SERVICE")));
        let unknown = Machine::at(root(&[]).path()).may_have_capabilities();
        assert!(matches!(unknown.verdict, crate::Verdict::Unknown(_)), "{unknown:?}");
    }

    #[test]
    fn ipv6_is_missing_where_it_is_disabled_and_where_the_kernel_has_none() {
        let met = |files: &[(&str, &str)]| Machine::at(root(files).path()).ipv6().is_met();
        assert!(met(&[("proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n")]));
        assert!(!met(&[("proc/sys/net/ipv6/conf/all/disable_ipv6", "1")]) && !met(&[]));
    }

    #[test]
    fn switches_are_those_below_the_configured_directory() {
        let root = root(&[("elsewhere/net/ipv6/conf/all/forwarding", "0\n")]);
        let machine = Machine::at(root.path());
        assert!(machine.sysctls(Path::new("/elsewhere/net")).is_met());
        assert!(!machine.sysctls(Path::new("/proc/sys/net")).is_met());
    }
}
