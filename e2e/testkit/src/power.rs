// SPDX-License-Identifier: Apache-2.0
//! Power cuts: the block device as it is after an acknowledgement, mounted again. And disks that are small enough to be filled.
//!
//! The child that writes must be the same program as the test, so it has a `main` of its own, which asks [`child()`] first.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;

/// The first argument of the child that writes; then what it writes, and the directory.
const CHILD: &str = "--write-on-request";

/// What to write and in which directory, if this process is the child that writes.
pub fn child() -> Option<(String, PathBuf)> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.as_slice() {
        [first, what, dir] if first == CHILD => Some((what.clone(), dir.into())),
        _ => None,
    }
}

/// What this machine lacks to mount an image.
pub fn missing() -> Option<String> {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    if !has("mkfs.ext4") || !has("losetup") {
        return Some("mkfs.ext4 (e2fsprogs) or losetup (util-linux) is not installed".to_owned());
    }
    let dir = tempfile::tempdir().unwrap();
    let (image, at) = (dir.path().join("image"), dir.path().join("at"));
    fs::File::create(&image).unwrap().set_len(4 << 20).unwrap();
    fs::create_dir(&at).unwrap();
    run(Command::new("mkfs.ext4").arg("-q").arg(&image));
    if !Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&at).output().is_ok_and(|out| out.status.success()) {
        return Some("it needs root, and loop devices that can be mounted".to_owned());
    }
    run(Command::new("umount").arg(&at));
    None
}

/// A mounted file system; it is unmounted when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    fn new(image: &Path, at: PathBuf) -> Self {
        fs::create_dir_all(&at).unwrap();
        run(Command::new("mount").args(["-o", "loop"]).arg(image).arg(&at));
        Self(at)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run(Command::new("umount").arg(&self.0));
    }
}

/// An ext4 file system on a loop device.
pub struct Device {
    mounted: Mounted,
    dir: TempDir,
}

impl Device {
    /// Of `octets`.
    pub fn new(octets: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        fs::File::create(&image).unwrap().set_len(octets).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image));
        let mounted = Mounted::new(&image, dir.path().join("device"));
        Self { mounted, dir }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// What would be there if the power failed now, mounted: what the file system has not written yet is lost.
    pub fn cut(&self) -> Mounted {
        let copy = self.dir.path().join("copy");
        // Octet by octet: a copy that skips holes relies on what is not on the disk of the image's own file system yet.
        fs::write(&copy, fs::read(self.dir.path().join("image")).unwrap()).unwrap();
        Mounted::new(&copy, self.dir.path().join("cut"))
    }

    /// The child that writes `what` in directory `dir` of the device.
    pub fn writer(&self, what: &str, dir: &str) -> Writer {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([CHILD, what])
            .arg(self.path().join(dir))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Writer { child, requests, answers }
    }

    /// Leaves `octets` of free space.
    pub fn fill(&self, octets: u64) -> Filler {
        let path = self.path().join("filler");
        let mut file = fs::File::create(&path).unwrap();
        let block = vec![0x5A; 64 << 10];
        loop {
            let disk = nix::sys::statvfs::statvfs(self.path()).unwrap();
            let free = disk.blocks_available() * disk.fragment_size();
            let take = free.saturating_sub(octets).min(block.len() as u64) as usize;
            if take < disk.fragment_size() as usize || file.write_all(&block[..take]).is_err() {
                break;
            }
        }
        // The blocks are counted once they are allocated.
        file.sync_all().unwrap();
        Filler(path)
    }
}

/// A file that takes the space; it is removed when dropped.
pub struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        fs::remove_file(&self.0).unwrap();
    }
}

/// The child that writes.
pub struct Writer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    /// Has it write once, and returns its acknowledgement.
    pub fn write(&mut self) -> String {
        self.requests.as_mut().unwrap().write_all(b"\n").unwrap();
        self.answers.next().expect("the child ended").unwrap()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.requests = None;
        self.child.wait().unwrap();
    }
}

/// In the child: calls `write` for each request and prints what it returns.
pub fn on_request(mut write: impl FnMut() -> String) {
    for _ in std::io::stdin().lines() {
        println!("{}", write());
        std::io::stdout().flush().unwrap();
    }
}

fn run(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}
