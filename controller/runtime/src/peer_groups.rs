// SPDX-License-Identifier: Apache-2.0
//! The supplementary groups of the process at the other end of a Unix socket (`SO_PEERGROUPS`, unix(7)), as they were when it connected.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::unistd::Gid;

/// Groups of a process, at most (`NGROUPS_MAX`).
const MOST: usize = 65_536;
/// Room at first; the kernel reports how much there has to be.
const FIRST: usize = 64;

/// See the module. The effective group of the process need not be among them.
pub(crate) fn peer_groups(socket: &impl AsFd) -> io::Result<Vec<Gid>> {
    let mut groups = vec![0; FIRST];
    loop {
        let (octets, done) = get(socket, &mut groups);
        let count = octets as usize / size_of::<libc::gid_t>();
        match done {
            Ok(()) => {
                groups.truncate(count);
                return Ok(groups.into_iter().map(Gid::from_raw).collect());
            }
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && (groups.len() + 1..=MOST).contains(&count) => {
                groups.resize(count, 0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The length that the kernel reports, in octets.
fn get(socket: &impl AsFd, groups: &mut [libc::gid_t]) -> (libc::socklen_t, io::Result<()>) {
    let mut octets = libc::socklen_t::try_from(size_of_val(groups)).unwrap_or(0);
    let fd = socket.as_fd().as_raw_fd();
    #[allow(unsafe_code, reason = "nix has no SO_PEERGROUPS")]
    // SAFETY: `groups` has `octets` octets, and the kernel writes at most that many.
    let failed =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERGROUPS, groups.as_mut_ptr().cast(), &mut octets) }
            != 0;
    (octets, if failed { Err(io::Error::last_os_error()) } else { Ok(()) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Oracle: what the process has by getgroups(2).
    #[test]
    fn the_groups_of_the_peer_are_those_of_its_process() {
        let (one, _other) = UnixStream::pair().unwrap();
        let own: BTreeSet<u32> = nix::unistd::getgroups().unwrap().into_iter().map(Gid::as_raw).collect();
        let peer: BTreeSet<u32> = peer_groups(&one).unwrap().into_iter().map(Gid::as_raw).collect();
        assert_eq!(peer, own);
    }

    #[test]
    fn what_is_no_unix_socket_has_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(peer_groups(&listener).is_err() || peer_groups(&listener).unwrap().is_empty());
    }
}
