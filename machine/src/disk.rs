// SPDX-License-Identifier: Apache-2.0
//! The disk of a controller's store: what it has acknowledged must still be there after a power cut.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;

use crate::mounts::AS_ROOT;
use crate::{Check, Machine};

/// File systems of disks of this machine.
const LOCAL: [&str; 8] = ["ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs"];
/// File systems of other machines, whose locks and syncs are theirs.
const REMOTE: [&str; 11] =
    ["nfs", "nfs4", "cifs", "smb3", "9p", "afs", "ceph", "fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "glusterfs"];
/// File systems that end with the machine or the container.
const PASSING: [&str; 4] = ["tmpfs", "ramfs", "overlay", "aufs"];
/// Free space for the store, its backups, the journal of events and incidents.
const SPACE: u64 = 1 << 30;
/// Size of a page of the stores.
const PAGE: usize = 4096;

impl Machine<'_> {
    /// The directory is on a disk of this machine, can be written, and what is synced there succeeds.
    pub(crate) fn state_directory(&self, directory: &Path) -> Check {
        let name = "state directory";
        let Some((nearest, kind)) = self.nearest(directory).zip(self.file_system_of(directory)) else {
            return Check::unknown(
                name,
                format!("{}: its file system is not known", directory.display()),
                "mount /proc",
            );
        };
        let on = format!("{} is on {kind}", directory.display());
        let is_of = |kinds: &[&str]| kinds.contains(&kind.as_str());
        if is_of(&REMOTE) {
            return Check::missing(
                name,
                on,
                "use a disk of this machine: the store locks its directory, and syncs each change",
            );
        }
        if is_of(&PASSING) {
            let fix = "use a disk that stays: in a container a volume, elsewhere --state-dir and store.path on a disk";
            return Check::missing(name, format!("{on}, whose content ends with the machine or container"), fix);
        }
        if !is_of(&LOCAL) {
            let how = "see that it is a disk of this machine, which keeps what is synced";
            return Check::unknown(name, format!("{on}, which this program does not know"), how);
        }
        match synced(&self.within(nearest)) {
            Ok(took) => Check::met(name, format!("{on}, fdatasync takes {:.1} ms", took.as_secs_f64() * 1000.0)),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let how = format!("{AS_ROOT}, or as the user canopy-controller");
                Check::unknown(name, format!("{on}, and this user cannot write to {}", nearest.display()), how)
            }
            Err(error) => {
                let fix = "mount it for writing, and see the kernel's log for its disk";
                Check::missing(name, format!("{on}; writing to {} fails: {error}", nearest.display()), fix)
            }
        }
    }

    /// There is space for what a controller stores.
    pub(crate) fn free_space(&self, directory: &Path) -> Check {
        let name = "free space";
        let nearest = self.nearest(directory).unwrap_or(directory);
        match statvfs(&self.within(nearest)) {
            Ok(found) => {
                let free = found.blocks_available().saturating_mul(found.fragment_size());
                space(name, nearest, free)
            }
            Err(error) => Check::unknown(name, format!("{}: {error}", nearest.display()), "see that it is mounted"),
        }
    }

    /// Of the directory itself, or of the nearest one in which it would be made; links are followed.
    fn file_system_of(&self, directory: &Path) -> Option<String> {
        let real = fs::canonicalize(self.within(self.nearest(directory)?)).ok()?;
        let root = fs::canonicalize(self.root).ok()?;
        self.file_system(&Path::new("/").join(real.strip_prefix(root).ok()?))
    }
}

fn space(name: &'static str, directory: &Path, free: u64) -> Check {
    Check::new(name, format!("{} MiB below {}", free >> 20, directory.display()), free >= SPACE, || {
        format!(
            "free {} MiB or more: store, backups and events need them, and a full disk refuses changes",
            SPACE >> 20
        )
    })
}

/// How long a page takes to be durable below this directory, in a file without a name.
fn synced(directory: &Path) -> io::Result<Duration> {
    let path = directory.join(format!(".canopy-check-{}", std::process::id()));
    let mut file = File::create_new(&path)?;
    // At once: a program that is killed while it waits for the disk leaves nothing.
    fs::remove_file(&path)?;
    let begun = Instant::now();
    file.write_all(&[0; PAGE]).and_then(|()| file.sync_data())?;
    Ok(begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::testing::root;

    fn at(kind: &str) -> tempfile::TempDir {
        root(&[
            ("proc/self/mountinfo", &format!("1 0 0:1 / / rw - ext4 d rw\n2 1 0:2 / /var/lib rw - {kind} d rw\n")),
            ("var/lib/other", ""),
        ])
    }

    #[test]
    fn a_state_directory_is_on_a_disk_of_this_machine_and_can_be_synced() {
        let directory = Path::new("/var/lib/canopy/controller");
        let root = at("ext4");
        let good = Machine::at(root.path()).state_directory(directory);
        assert!(good.is_met() && good.found.contains("is on ext4, fdatasync takes "), "{good:?}");
        let left: Vec<_> =
            fs::read_dir(root.path().join("var/lib")).unwrap().flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, ["other"], "nothing stays");
        for kind in REMOTE.iter().chain(&PASSING) {
            let found = Machine::at(at(kind).path()).state_directory(directory);
            assert!(matches!(found.verdict, Verdict::Missing(_)), "{kind}: {found:?}");
        }
        let (none, other) = (tempfile::tempdir().unwrap(), at("fuse.s3fs"));
        for root in [&none, &other] {
            let unknown = Machine::at(root.path()).state_directory(directory);
            assert!(matches!(unknown.verdict, Verdict::Unknown(_)), "{unknown:?}");
        }
    }

    /// Catches a failing write that counts as one that was not tried.
    #[test]
    fn a_directory_that_cannot_be_written_is_missing() {
        let root = at("ext4");
        // Root may write everywhere: a file in place of the directory stands for one that fails.
        let found = Machine::at(root.path()).state_directory(Path::new("/var/lib/other"));
        assert!(matches!(found.verdict, Verdict::Missing(_)) && found.found.contains("fails"), "{found:?}");
    }

    /// Catches a link to a file system of another machine that is not followed.
    #[test]
    fn the_directory_that_a_link_leads_to_counts() {
        let root = at("nfs4");
        std::os::unix::fs::symlink("var/lib", root.path().join("state")).unwrap();
        let found = Machine::at(root.path()).state_directory(Path::new("/state"));
        assert_eq!(found.found, "/state is on nfs4");
    }

    #[test]
    fn a_gibibyte_has_to_be_free() {
        assert!(space("free space", Path::new("/"), SPACE).is_met());
        let full = space("free space", Path::new("/var"), SPACE - 1);
        assert!(full.found == "1023 MiB below /var" && !full.is_met(), "{full:?}");
        assert!(Machine::at(Path::new("/")).free_space(Path::new("/nowhere/at/all")).found.ends_with(" below /"));
    }
}
