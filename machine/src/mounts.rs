// SPDX-License-Identifier: Apache-2.0
//! Where directories are, and whether this process may write there.

use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::{Check, Machine};

impl Machine<'_> {
    /// `pin_dir` is on a bpffs, and this process may write to it.
    pub fn bpffs(&self, pin_dir: &Path) -> Check {
        let mounts = self.read("proc/self/mountinfo").unwrap_or_default();
        let Some((point, kind)) = mount_of(&mounts, pin_dir) else {
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
            Some((_, kind)) if kind != "bpf" => pin_dir_is(&format!("on {kind}, not on a bpffs")),
            Some((point, _)) if point == pin_dir => pin_dir_is("a whole bpffs, which other programs may use"),
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
        let nearest = path.ancestors().find(|directory| self.within(directory).exists())?;
        let allowed = access(&self.within(nearest).join("."), AccessFlags::W_OK | AccessFlags::X_OK);
        allowed.is_err().then(|| nearest.to_owned())
    }
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
    use std::fs;

    use super::*;
    use crate::testing::root;

    const WITH_BPFFS: &str = "1 0 0:1 / / rw - ext4 d rw\n30 1 0:27 / /sys/fs/bpf rw,nosuid shared:9 - bpf bpf rw\n";

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
