// SPDX-License-Identifier: Apache-2.0
//! `canopy-agent doctor`: checks the kernel features that the agent needs, and how to get missing ones.

use std::fs;
use std::path::{Path, PathBuf};

/// Oldest supported kernel release.
const OLDEST_KERNEL: (u32, u32) = (5, 17);
const CAP_NET_ADMIN: u32 = 12;
/// For the raw sockets of Echo Requests and of multicast routing.
const CAP_NET_RAW: u32 = 13;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// Name of the requirement.
    pub name: &'static str,
    /// State on this host.
    pub found: String,
    /// How to meet the requirement; `None` if it is met.
    pub fix: Option<String>,
}

/// Examines the host whose `/proc` and `/sys` are below `root` (`/`, except in tests).
pub fn examine(root: &Path, pin_dir: &Path) -> Vec<Check> {
    let host = Host { root };
    vec![host.kernel(), host.btf(), host.bpffs(pin_dir), host.capabilities(), host.ipv6()]
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
    check("policy rules of IPv6 multicast routing", found, good, || {
        "boot a kernel that was built with CONFIG_IPV6_MROUTE=y and CONFIG_IPV6_MROUTE_MULTIPLE_TABLES=y".to_owned()
    })
}

/// Checks that `pin_dir` (canonical) can be removed with its content: it must be a directory on a bpffs, not a mount point.
///
/// # Errors
/// What `pin_dir` is instead, for the operator.
pub fn check_pin_dir(root: &Path, pin_dir: &Path) -> Result<(), String> {
    let mounts = Host { root }.read("proc/self/mountinfo")?;
    let pin_dir_is = |what: &str| Err(format!("pin_dir: {} is {what}; nothing is removed", pin_dir.display()));
    match mount_of(&mounts, pin_dir) {
        Some((_, kind)) if kind != "bpf" => pin_dir_is(&format!("on {kind}, not on a bpffs")),
        Some((point, _)) if point == pin_dir => pin_dir_is("a whole bpffs, which other programs may use"),
        Some(_) => Ok(()),
        None => pin_dir_is("on no known file system"),
    }
}

/// Kernel release of the running kernel, as `uname -r` prints it; `unknown` without `/proc`.
pub fn kernel_release() -> String {
    Host { root: Path::new("/") }.read("proc/sys/kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned())
}

/// The host's name, as `hostname` prints it; empty without `/proc`.
pub fn hostname() -> String {
    Host { root: Path::new("/") }.read("proc/sys/kernel/hostname").unwrap_or_default()
}

struct Host<'a> {
    root: &'a Path,
}

impl Host<'_> {
    fn kernel(&self) -> Check {
        let (major, minor) = OLDEST_KERNEL;
        let release = self.read("proc/sys/kernel/osrelease").unwrap_or_else(|error| error);
        let good = version(&release).is_some_and(|version| version >= OLDEST_KERNEL);
        check("kernel release", release, good, || {
            format!("boot a Linux kernel of release {major}.{minor} or later (your distribution's current one will do)")
        })
    }

    fn btf(&self) -> Check {
        let path = "sys/kernel/btf/vmlinux";
        let present = fs::metadata(self.root.join(path)).is_ok_and(|meta| meta.len() > 0);
        check("kernel BTF", presence(path, present), present, || {
            "boot a kernel that was built with CONFIG_DEBUG_INFO_BTF=y (check: `grep BTF /boot/config-$(uname -r)`)"
                .to_owned()
        })
    }

    fn bpffs(&self, pin_dir: &Path) -> Check {
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let mount = mount_of(&mounts, pin_dir);
        let good = mount.as_ref().is_some_and(|(_, kind)| kind == "bpf");
        let found = match mount {
            Some((point, kind)) => format!("{} is on {} ({kind})", pin_dir.display(), point.display()),
            None => "the mounts cannot be read".to_owned(),
        };
        check("bpffs at pin_dir", found, good, || {
            let parent = pin_dir.parent().unwrap_or(pin_dir).display();
            format!("mount -t bpf bpf {parent}   (in a container: mount the host's /sys/fs/bpf), or set pin_dir")
        })
    }

    fn capabilities(&self) -> Check {
        let status = self.read("proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default();
        let has = |capability: u32| effective >> capability & 1 == 1;
        let mut missing = vec![];
        // CAP_SYS_ADMIN contains CAP_BPF, capabilities(7).
        if !has(CAP_BPF) && !has(CAP_SYS_ADMIN) {
            missing.push("CAP_BPF");
        }
        if !has(CAP_NET_ADMIN) {
            missing.push("CAP_NET_ADMIN");
        }
        if !has(CAP_NET_RAW) {
            missing.push("CAP_NET_RAW");
        }
        let found = if missing.is_empty() { "present".to_owned() } else { format!("{} missing", missing.join(", ")) };
        check("CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW", found, missing.is_empty(), || {
            "run as root, or under systemd with AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW".to_owned()
        })
    }

    fn ipv6(&self) -> Check {
        let found = match self.read("proc/sys/net/ipv6/conf/all/disable_ipv6").as_deref() {
            Ok("0") => ("enabled", true),
            Ok(_) => ("disabled by net.ipv6.conf.all.disable_ipv6", false),
            Err(_) => ("not in this kernel", false),
        };
        check("IPv6", found.0.to_owned(), found.1, || {
            "sysctl -w net.ipv6.conf.all.disable_ipv6=0; boot without ipv6.disable=1".to_owned()
        })
    }

    /// A small file's text, trimmed.
    fn read(&self, path: &str) -> Result<String, String> {
        let path: PathBuf = self.root.join(path);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(text.trim().to_owned())
    }
}

fn check(name: &'static str, found: String, good: bool, fix: impl FnOnce() -> String) -> Check {
    Check { name, found, fix: (!good).then(fix) }
}

fn presence(path: &str, present: bool) -> String {
    format!("/{path} {}", if present { "present" } else { "missing" })
}

/// `6.8.0-45-generic` -> (6, 8).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The mount of `path`: the longest mount point that is a prefix of it; the last one if several are mounted over each
/// other. See proc_pid_mountinfo(5) for the columns.
fn mount_of(mountinfo: &str, path: &Path) -> Option<(PathBuf, String)> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(left.split(' ').nth(4)?);
        Some((point, right.split(' ').next()?.to_owned()))
    };
    let covering = mountinfo.lines().filter_map(mount).filter(|(point, _)| path.starts_with(point));
    covering.max_by_key(|(point, _)| point.components().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [(&str, &str); 5] = [
        ("proc/sys/kernel/osrelease", "6.8.0-45-generic\n"),
        ("sys/kernel/btf/vmlinux", "\x7fBTF"),
        (
            "proc/self/mountinfo",
            "1 0 0:1 / / rw - ext4 d rw\n30 1 0:27 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw\n",
        ),
        ("proc/self/status", "Name:\tx\nCapEff:\t0000008000003000\n"),
        ("proc/sys/net/ipv6/conf/all/disable_ipv6", "0\n"),
    ];

    /// Names of the failed checks on a good host whose file `path` contains `text` instead.
    fn missing(path: &str, text: Option<&str>) -> Vec<&'static str> {
        let root = tempfile::tempdir().unwrap();
        for (name, good) in GOOD {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            if let Some(text) = if name == path { text } else { Some(good) } {
                fs::write(file, text).unwrap();
            }
        }
        let checks = examine(root.path(), Path::new("/sys/fs/bpf/canopy"));
        checks.into_iter().filter(|check| check.fix.is_some()).map(|check| check.name).collect()
    }

    #[test]
    fn a_good_host_passes_all_checks() {
        assert!(missing("", None).is_empty());
        assert!(missing("proc/sys/kernel/osrelease", Some("5.17.0")).is_empty());
        assert!(missing("proc/self/status", Some("CapEff:\t0000000000203000")).is_empty(), "SYS_ADMIN contains BPF");
    }

    #[test]
    fn multicast_replication_needs_policy_rules() {
        assert_eq!(multicast(Ok(true)).fix, None);
        assert!(multicast(Ok(false)).fix.is_some_and(|fix| fix.contains("CONFIG_IPV6_MROUTE_MULTIPLE_TABLES")));
        let unknown = multicast(Err("opening a netlink socket".into()));
        assert!(unknown.fix.is_some() && unknown.found.contains("netlink"), "{unknown:?}");
    }

    #[test]
    fn only_a_directory_on_a_bpffs_that_is_no_mount_point_may_be_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/mountinfo"), GOOD[2].1).unwrap();
        let refused = |dir: &str| check_pin_dir(root.path(), Path::new(dir)).err();
        assert_eq!(refused("/sys/fs/bpf/canopy"), None);
        assert!(refused("/sys/fs/bpf").is_some_and(|reason| reason.contains("whole bpffs")));
        assert!(refused("/etc").is_some_and(|reason| reason.contains("ext4")));
    }

    #[test]
    fn each_failed_check_is_reported() {
        for old in ["5.16.20", "4.19.0", "garbage"] {
            assert_eq!(missing("proc/sys/kernel/osrelease", Some(old)), ["kernel release"]);
        }
        assert_eq!(missing("sys/kernel/btf/vmlinux", None), ["kernel BTF"]);
        let plain = "1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /sys/fs/bpffoo rw - bpf bpf rw\n";
        assert_eq!(missing("proc/self/mountinfo", Some(plain)), ["bpffs at pin_dir"]);
        for capabilities in ["0000000000000000", "0000008000002000", "0000000000003000", "0000008000001000"] {
            let status = format!("CapEff:\t{capabilities}");
            assert_eq!(missing("proc/self/status", Some(&status)), ["CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW"]);
        }
        assert_eq!(missing("proc/sys/net/ipv6/conf/all/disable_ipv6", Some("1")), ["IPv6"]);
        assert_eq!(missing("proc/sys/net/ipv6/conf/all/disable_ipv6", None), ["IPv6"]);
    }
}
