// SPDX-License-Identifier: Apache-2.0
//! `canopy-agent doctor`: checks what the agent needs of the kernel and may do with it, and how to get what is missing.
//!
//! It examines its own process: under the unit of the service manager it has that unit's user, capabilities, mounts and limits.

mod host;
mod memory;

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::utsname::uname;
use nix::unistd::{AccessFlags, access};

pub use host::host;
pub use memory::memory;

/// Oldest supported kernel release.
const OLDEST_KERNEL: (u32, u32) = (5, 17);
const CAP_SYS_ADMIN: u32 = 21;
/// Those that the agent needs: raw sockets are for Echo Requests and multicast routing, a port below 1024 is that of STAMP.
const CAPABILITIES: [(&str, u32); 5] =
    [("CAP_BPF", 39), ("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_NET_RAW", 13), ("CAP_NET_BIND_SERVICE", 10)];
/// Those that CAP_SYS_ADMIN contains, capabilities(7).
const OF_SYS_ADMIN: [u32; 2] = [38, 39];
/// A switch of the network that the agent sets, below its `sysctl_dir`.
const SWITCH: &str = "ipv6/conf/all/forwarding";

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
pub fn examine(root: &Path, pin_dir: &Path, sysctl_dir: &Path) -> Vec<Check> {
    let host = Host { root };
    vec![host.kernel(), host.btf(), host.bpffs(pin_dir), host.capabilities(), host.ipv6(), host.sysctls(sysctl_dir)]
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

/// The host's name, as `hostname` prints it. Not from `/proc`, which a service with `ProcSubset=pid` does not have.
pub fn hostname() -> String {
    uname().map(|names| names.nodename().to_string_lossy().into_owned()).unwrap_or_default()
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
        let Some((point, kind)) = mount_of(&mounts, pin_dir) else {
            return check("bpffs at pin_dir", "the mounts cannot be read".to_owned(), false, || {
                "mount /proc".to_owned()
            });
        };
        let mut found = format!("{} is on {} ({kind})", pin_dir.display(), point.display());
        let is_bpf = kind == "bpf";
        let refused = self.not_writable(pin_dir).filter(|_| is_bpf);
        if let Some(directory) = &refused {
            found += &format!(", and this user cannot write to {}", directory.display());
        }
        check("bpffs at pin_dir", found, is_bpf && refused.is_none(), || {
            match refused {
            Some(_) => {
                "start it as canopy-agent.service does, which mounts a bpffs for it; systemd's at /sys/fs/bpf is root's alone"
                    .to_owned()
            }
            None => {
                let parent = pin_dir.parent().unwrap_or(pin_dir).display();
                format!("mount -t bpf bpf {parent}   (in a container: mount the host's /sys/fs/bpf), or set pin_dir")
            }
        }
        })
    }

    /// The directory in which `path` would be made, if this process cannot write to it: the nearest one that exists.
    fn not_writable(&self, path: &Path) -> Option<PathBuf> {
        let nearest = path.ancestors().find(|directory| self.within(directory).exists())?;
        let allowed = access(&self.within(nearest).join("."), AccessFlags::W_OK | AccessFlags::X_OK);
        allowed.is_err().then(|| nearest.to_owned())
    }

    fn capabilities(&self) -> Check {
        let status = self.read("proc/self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or_default();
        let has = |capability: u32| effective >> capability & 1 == 1;
        let missing: Vec<&str> = (CAPABILITIES.iter())
            .filter(|(_, bit)| !(has(*bit) || OF_SYS_ADMIN.contains(bit) && has(CAP_SYS_ADMIN)))
            .map(|(name, _)| *name)
            .collect();
        let found = if missing.is_empty() { "present".to_owned() } else { format!("{} missing", missing.join(", ")) };
        check("capabilities", found, missing.is_empty(), || {
            let all = CAPABILITIES.map(|(name, _)| name).join(" ");
            format!("run as root, or under systemd with AmbientCapabilities={all}")
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

    /// Opens a switch for writing, and writes nothing.
    fn sysctls(&self, sysctl_dir: &Path) -> Check {
        let switch = sysctl_dir.join(SWITCH);
        let opened = fs::OpenOptions::new().write(true).open(self.within(&switch));
        let found = match &opened {
            Ok(_) => format!("{} can be written", switch.display()),
            Err(error) => format!("{}: {error}", switch.display()),
        };
        check("switches of the network", found, opened.is_ok(), || {
            "in a unit: ProtectKernelTunables=no, or ReadWritePaths=/proc/sys/net with it; in a container: mount /proc/sys/net for writing, \
             elsewhere with sysctl_dir; as another user than root: CAP_NET_ADMIN"
                .to_owned()
        })
    }

    /// A path of the examined host.
    fn within(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
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
        let checks = examine(root.path(), Path::new("/sys/fs/bpf/canopy"), Path::new("/proc/sys/net"));
        checks.into_iter().filter(|check| check.fix.is_some()).map(|check| check.name).collect()
    }

    #[test]
    fn a_good_host_passes_all_checks() {
        assert!(missing("", None).is_empty());
        assert!(missing("proc/sys/kernel/osrelease", Some("5.17.0")).is_empty());
        assert!(missing("proc/self/status", Some("CapEff:\t0000000000203400")).is_empty(), "SYS_ADMIN contains BPF");
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
    fn the_nearest_directory_that_exists_has_to_be_writable() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("run/bpf")).unwrap();
        let host = Host { root: root.path() };
        assert_eq!(host.not_writable(Path::new("/run/bpf/agent/pins")), None);
        // Root may write everywhere: a file in place of the directory stands for one that is closed.
        fs::write(root.path().join("run/bpf/agent"), "").unwrap();
        assert_eq!(host.not_writable(Path::new("/run/bpf/agent/pins")), Some("/run/bpf/agent".into()));
    }

    #[test]
    fn each_failed_check_is_reported() {
        for old in ["5.16.20", "4.19.0", "garbage"] {
            assert_eq!(missing("proc/sys/kernel/osrelease", Some(old)), ["kernel release"]);
        }
        assert_eq!(missing("sys/kernel/btf/vmlinux", None), ["kernel BTF"]);
        let plain = "1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /sys/fs/bpffoo rw - bpf bpf rw\n";
        assert_eq!(missing("proc/self/mountinfo", Some(plain)), ["bpffs at pin_dir"]);
        for (_, bit) in CAPABILITIES {
            let status = format!("CapEff:\t{:016x}", 0xc0_0000_3400_u64 & !(1 << bit));
            assert_eq!(missing("proc/self/status", Some(&status)), ["capabilities"], "{bit}");
        }
        assert_eq!(missing("proc/self/status", None), ["capabilities"]);
        assert_eq!(missing("proc/sys/net/ipv6/conf/all/forwarding", None), ["switches of the network"]);
        assert_eq!(missing("proc/sys/net/ipv6/conf/all/disable_ipv6", Some("1")), ["IPv6"]);
        assert_eq!(missing("proc/sys/net/ipv6/conf/all/disable_ipv6", None), ["IPv6"]);
    }
}
