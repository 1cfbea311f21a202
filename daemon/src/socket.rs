// SPDX-License-Identifier: Apache-2.0
//! A daemon's Unix socket: its file has its mode before any client can connect, replaces that of a process that ended, and
//! is not taken from one that is alive.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::path::{Component, Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Longest path, bytes: `sun_path` has 108, and the socket is created under a temporary name in the same directory.
pub const MAX_PATH: usize = 100;

/// The socket cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("{doing}")]
pub struct SocketError {
    /// What failed, or what is in the way and what to do.
    pub doing: String,
    /// The system's reason, if it gave one.
    pub source: Option<io::Error>,
}

impl SocketError {
    fn plain(doing: impl Into<String>) -> Self {
        Self { doing: doing.into(), source: None }
    }

    fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { doing: doing.into(), source: Some(source) }
    }

    /// The whole message in one line.
    pub fn text(&self) -> String {
        self.source.as_ref().map_or_else(|| self.doing.clone(), |source| format!("{}: {source}", self.doing))
    }
}

/// Removes the socket's file when dropped, unless another process replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl SocketFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            // If this fails, the next process finds the file stale and replaces it.
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Refuses a path that cannot be bound: it is absolute, without `..`, and of at most [`MAX_PATH`] bytes.
///
/// # Errors
/// The reason, and what to do.
pub fn check_path(path: &Path) -> Result<(), String> {
    if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
        return Err(format!("{path:?} is not an absolute path without \"..\""));
    }
    if path.as_os_str().len() > MAX_PATH {
        return Err(format!("{path:?} is longer than {MAX_PATH} bytes: the system cannot bind it"));
    }
    Ok(())
}

/// Only the user and the group of the socket's file can connect.
pub const FOR_GROUP: u32 = 0o660;
/// Every user of the machine can connect: the program decides what each may do.
pub const FOR_ALL: u32 = 0o666;

/// Binds the socket. Its file has this mode and belongs to `gid`, if there is one.
///
/// # Errors
/// A live process listens there, a file that is not a socket is there, or the system refuses.
pub async fn bind(path: &Path, gid: Option<u32>, mode: u32) -> Result<(UnixListener, SocketFile), SocketError> {
    check_path(path).map_err(SocketError::plain)?;
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(SocketError::io(format!("creating {}", parent.display())))?;
    }
    refuse_live(path).await?;
    // Created under another name and renamed: the path never shows a socket with other permissions, and a stale one is
    // replaced at once.
    let hidden = path.with_file_name(format!(".{}", std::process::id() % 100_000));
    match fs::remove_file(&hidden) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(SocketError::io(format!("removing {}", hidden.display()))(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(&hidden).map_err(SocketError::io("binding the socket"))?;
    let finish = || {
        fs::set_permissions(&hidden, fs::Permissions::from_mode(mode))?;
        if gid.is_some() {
            chown(&hidden, None, gid)?;
        }
        let inode = fs::symlink_metadata(&hidden)?.ino();
        fs::rename(&hidden, path)?;
        Ok(inode)
    };
    let inode = finish().map_err(|error| {
        _ = fs::remove_file(&hidden);
        SocketError::io("setting the socket's mode and group, and renaming it")(error)
    })?;
    Ok((listener, SocketFile { path: path.to_owned(), inode }))
}

/// The number of a group, which may be written as a name or a number; `None` for the empty text.
///
/// # Errors
/// This machine has no such group.
pub fn group(name: &str) -> Result<Option<u32>, String> {
    if name.is_empty() {
        return Ok(None);
    }
    if let Ok(gid) = name.parse() {
        return Ok(Some(gid));
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
        Ok(None) => Err(format!("this machine has no group {name:?}: create it, or use a number")),
        Err(error) => Err(format!("looking up the group {name:?}: {error}")),
    }
}

/// The number of a user, who may be written as a name or a number.
///
/// # Errors
/// This machine has no such user.
pub fn user(name: &str) -> Result<u32, String> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("this machine has no user {name:?}: create it, or use a number")),
        Err(error) => Err(format!("looking up the user {name:?}: {error}")),
    }
}

async fn refuse_live(path: &Path) -> Result<(), SocketError> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(SocketError::io("reading the status of the file")(error)),
    };
    if !found.file_type().is_socket() {
        return Err(SocketError::plain("there is a file that is not a socket: remove it or choose another path"));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(SocketError::plain("another process listens there: stop it or choose another path")),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        Err(error) => Err(SocketError::io("checking whether the socket found there is in use")(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sockets_are_closed_to_others_and_leave_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub/c.sock");
        let (listener, file) = bind(&path, None, FOR_GROUP).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        UnixStream::connect(&path).await.unwrap();
        drop((listener, file));
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let first = bind(&path, None, FOR_GROUP).await.unwrap();
        let refused = bind(&path, None, FOR_GROUP).await.unwrap_err().text();
        assert!(refused.contains("another process listens there"), "{refused}");
        // A successor that replaced the file keeps it when the first one ends.
        fs::remove_file(&path).unwrap();
        let second = bind(&path, None, FOR_GROUP).await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        fs::write(&path, "precious").unwrap();
        let refused = bind(&path, None, FOR_GROUP).await.unwrap_err().text();
        assert!(refused.contains("not a socket"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn a_path_is_absolute_and_short_enough_to_bind() {
        assert_eq!(check_path(Path::new("/run/canopy/x.sock")), Ok(()));
        for bad in ["", "run/x.sock", "/run/../etc/x.sock"] {
            assert!(check_path(Path::new(bad)).unwrap_err().contains("absolute"), "{bad}");
        }
        assert!(check_path(Path::new(&format!("/{}", "x".repeat(MAX_PATH)))).unwrap_err().contains("cannot bind"));
    }

    #[test]
    fn a_group_is_a_name_or_a_number() {
        assert_eq!((group(""), group("17"), group("root")), (Ok(None), Ok(Some(17)), Ok(Some(0))));
        assert!(group("no-such-group").unwrap_err().contains("use a number"));
    }

    #[test]
    fn a_user_is_a_name_or_a_number() {
        assert_eq!((user("17"), user("root")), (Ok(17), Ok(0)));
        for none in ["no-such-user", "", "-1"] {
            assert!(user(none).unwrap_err().contains("use a number"), "{none}");
        }
    }
}
