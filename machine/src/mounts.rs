// SPDX-License-Identifier: Apache-2.0
//! Where directories are, and whether this process may write there.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::{Check, Machine};

/// Of what only root can find out.
pub(crate) const AS_ROOT: &str = "run this as root: another user cannot know";
/// What is found in a user namespace, whose root is not the machine's.
pub(crate) const IN_NAMESPACE: &str = "this is a user namespace";
pub(crate) const OUTSIDE: &str = "run it on the machine itself, outside of a rootless container";
/// Where a bpffs is on most machines, and where the package of the agent mounts its own.
const BPFFS: [&str; 2] = ["/sys/fs/bpf", "/run/canopy/bpf"];

impl Machine<'_> {
    /// A bpffs is mounted where an agent pins its programs.
    pub(crate) fn has_bpffs(&self) -> Check {
        let name = "bpffs";
        let Ok(mounts) = self.read("proc/self/mountinfo") else {
            return Check::unknown(name, "the mounts cannot be read", "mount /proc");
        };
        if self.is_in_user_namespace() {
            return Check::unknown(name, IN_NAMESPACE, OUTSIDE);
        }
        let is_bpffs = |at: &&&str| {
            mount_of(&mounts, Path::new(at))
                .is_some_and(|m| m.kind == "bpf" && m.point == Path::new(at) && !m.is_read_only)
        };
        match BPFFS.iter().find(is_bpffs) {
            Some(at) => Check::met(name, format!("mounted at {at}")),
            None => Check::missing(
                name,
                format!("not mounted for writing at {}", BPFFS[0]),
                "mount -t bpf bpf /sys/fs/bpf   (in a container: mount the host's /sys/fs/bpf; if the kernel knows no bpf: CONFIG_BPF_SYSCALL=y)",
            ),
        }
    }

    /// The mount of this path is for reading alone.
    pub(crate) fn is_read_only(&self, path: &Path) -> bool {
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        mount_of(&mounts, path).is_some_and(|mount| mount.is_read_only)
    }

    /// The type of the file system that `path` is on.
    pub(crate) fn file_system(&self, path: &Path) -> Option<String> {
        let mounts = self.read("proc/self/mountinfo").ok()?;
        mount_of(&mounts, path).map(|mount| mount.kind)
    }

    /// `pin_dir` is on a bpffs, and this process may write to it.
    pub fn bpffs(&self, pin_dir: &Path) -> Check {
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let Some(Mount { point, kind, .. }) = mount_of(&mounts, pin_dir) else {
            return Check::new("bpffs at pin_dir", "the mounts cannot be read".to_owned(), false, || {
                "mount /proc".to_owned()
            });
        };
        let mut found = format!("{} is on {} ({kind})", pin_dir.display(), point.display());
        let is_bpf = kind == "bpf";
        let refused = self.not_writable(pin_dir).filter(|_| is_bpf);
        if let Some(directory) = &refused {
            found += &format!(", and this user cannot write to {}", directory.display());
        }
        Check::new("bpffs at pin_dir", found, is_bpf && refused.is_none(), || {
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

    /// Checks that `pin_dir` (canonical) can be removed with its content: it must be a directory on a bpffs, not a mount point.
    ///
    /// # Errors
    /// What `pin_dir` is instead, for the operator.
    pub fn check_pin_dir(&self, pin_dir: &Path) -> Result<(), String> {
        let mounts = self.read("proc/self/mountinfo")?;
        let pin_dir_is = |what: &str| Err(format!("pin_dir: {} is {what}; nothing is removed", pin_dir.display()));
        match mount_of(&mounts, pin_dir) {
            Some(Mount { kind, .. }) if kind != "bpf" => pin_dir_is(&format!("on {kind}, not on a bpffs")),
            Some(Mount { point, .. }) if point == pin_dir => pin_dir_is("a whole bpffs, which other programs may use"),
            Some(_) => Ok(()),
            None => pin_dir_is("on no known file system"),
        }
    }

    /// This process may write to `directory`, or make it.
    pub fn writable(&self, name: &'static str, directory: &Path, fix: impl FnOnce() -> String) -> Check {
        let refused = self.not_writable(directory);
        let found = match &refused {
            Some(closed) => format!("this user cannot write to {}", closed.display()),
            None => format!("{} can be written", directory.display()),
        };
        Check::new(name, found, refused.is_none(), fix)
    }

    /// The directory in which `path` would be made, if this process cannot write to it: the nearest one that exists.
    fn not_writable(&self, path: &Path) -> Option<PathBuf> {
        let nearest = self.nearest(path)?;
        let allowed = access(&self.within(nearest).join("."), AccessFlags::W_OK | AccessFlags::X_OK);
        allowed.is_err().then(|| nearest.to_owned())
    }

    /// The nearest directory on the way to `path` that exists, itself included.
    pub(crate) fn nearest<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        path.ancestors().find(|directory| self.within(directory).exists())
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount {
    point: PathBuf,
    kind: String,
    is_read_only: bool,
}

/// The mount of `path`: the longest mount point that is a prefix of it; the last one if several are mounted over each
/// other. See proc_pid_mountinfo(5) for the columns.
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (mut left, mut right) = (left.split(' ').skip(4), right.split(' '));
        let (point, options) = (PathBuf::from(unescaped(left.next()?)), left.next()?);
        let (kind, of_super) = (right.next()?.to_owned(), right.nth(1).unwrap_or_default());
        let is_read_only = [options, of_super].iter().any(|options| options.split(',').any(|option| option == "ro"));
        Some(Mount { point, kind, is_read_only })
    };
    let covering = mountinfo.lines().filter_map(mount).filter(|mount| path.starts_with(&mount.point));
    covering.max_by_key(|mount| mount.point.components().count())
}

/// Space, tab, line feed and backslash are octal numbers in the table.
fn unescaped(point: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(point.to_owned(), |text, (escape, octet)| text.replace(escape, octet))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::testing::root;

    const WITH_BPFFS: &str = "1 0 0:1 / / rw - ext4 d rw\n30 1 0:27 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw\n";

    /// Catches a network file system that is taken for the disk below it because of a space in its path.
    #[test]
    fn the_mount_of_a_path_with_a_space_is_its_own() {
        let mounts = "1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /mnt/my\\040disk rw - nfs4 d rw\n";
        assert_eq!(mount_of(mounts, Path::new("/mnt/my disk/store")).map(|mount| mount.kind).as_deref(), Some("nfs4"));
    }

    #[test]
    fn pin_dir_has_to_be_on_a_bpffs() {
        let met = |mounts: &str| {
            let root = root(&[("proc/self/mountinfo", mounts), ("sys/fs/bpf/file", "")]);
            Machine::at(root.path()).bpffs(Path::new("/sys/fs/bpf/canopy")).is_met()
        };
        assert!(met(WITH_BPFFS));
        assert!(!met("1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /sys/fs/bpffoo rw - bpf bpf rw\n"));
        assert!(!met(""));
    }

    /// Catches a directory below a bpffs of another program that counts, and another file system over it that does not.
    #[test]
    fn a_bpffs_has_to_be_mounted_where_agents_pin() {
        let found = |mounts: &str| Machine::at(root(&[("proc/self/mountinfo", mounts)]).path()).has_bpffs();
        assert_eq!(found(WITH_BPFFS).found, "mounted at /sys/fs/bpf");
        assert_eq!(found("1 0 0:1 / /run/canopy/bpf rw - bpf bpf rw\n").found, "mounted at /run/canopy/bpf");
        for none in ["1 0 0:1 / / rw - ext4 d rw\n", "1 0 0:1 / /sys/fs rw - bpf bpf rw\n"] {
            assert!(matches!(found(none).verdict, crate::Verdict::Missing(_)), "{none}");
        }
        let covered = format!("{WITH_BPFFS}31 30 0:28 / /sys/fs/bpf rw - tmpfs t rw\n");
        assert!(!found(&covered).is_met());
        assert!(matches!(Machine::at(root(&[]).path()).has_bpffs().verdict, crate::Verdict::Unknown(_)));
    }

    #[test]
    fn a_mount_is_read_only_by_its_own_options_and_by_those_of_its_file_system() {
        let is =
            |mounts: &str| Machine::at(root(&[("proc/self/mountinfo", mounts)]).path()).is_read_only(Path::new("/a/b"));
        assert!(!is("1 0 0:1 / / rw - ext4 d rw\n"));
        assert!(is("1 0 0:1 / / rw,relatime - ext4 d ro,x=y\n"));
        assert!(is("1 0 0:1 / / rw - ext4 d rw\n2 1 0:1 /x /a ro,nosuid shared:1 - ext4 d rw\n"));
    }

    #[test]
    fn only_a_directory_on_a_bpffs_that_is_no_mount_point_may_be_removed() {
        let root = root(&[("proc/self/mountinfo", WITH_BPFFS)]);
        let refused = |dir: &str| Machine::at(root.path()).check_pin_dir(Path::new(dir)).err();
        assert_eq!(refused("/sys/fs/bpf/canopy"), None);
        assert!(refused("/sys/fs/bpf").is_some_and(|reason| reason.contains("whole bpffs")));
        assert!(refused("/etc").is_some_and(|reason| reason.contains("ext4")));
    }

    #[test]
    fn the_nearest_directory_that_exists_has_to_be_writable() {
        let root = root(&[("run/bpf/other", "")]);
        let machine = Machine::at(root.path());
        assert_eq!(machine.not_writable(Path::new("/run/bpf/agent/pins")), None);
        // Root may write everywhere: a file in place of the directory stands for one that is closed.
        fs::write(root.path().join("run/bpf/agent"), "").unwrap();
        assert_eq!(machine.not_writable(Path::new("/run/bpf/agent/pins")), Some("/run/bpf/agent".into()));
    }
}
