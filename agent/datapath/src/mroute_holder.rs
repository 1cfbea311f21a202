// SPDX-License-Identifier: Apache-2.0
//! The process that keeps IPv6 multicast routing enabled: the mroute-holder.
//!
//! The kernel forwards multicast packets only while the socket that enabled multicast routing is open. The agent must not own that
//! socket, because forwarding has to continue while the agent is down. A separate process, `canopy-agent hold-multicast`, keeps it
//! open and does nothing else. The agent finds it by a Unix socket in its state directory, where only its own user may make one, and
//! ends it with SIGTERM. Either the agent starts it as a child, or the service manager does, as a unit of its own: a manager that ends
//! all processes of the agent's unit at its restart would end a child too.

use std::ffi::CString;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::mroute::Socket;
use canopy_bpf::{Context, Result};

const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// The process that owns the multicast routing socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A separate process that outlives the agent.
    Process {
        /// The agent's program; started with the arguments `hold-multicast` and `socket`.
        program: PathBuf,
        /// Unix socket of that process, in a directory that only the agent's user can write to.
        socket: PathBuf,
    },
    /// A separate process that the service manager starts once the file `request` exists, with the argument `hold-multicast`.
    Unit {
        /// File that the agent makes to have the process started, and removes before it ends the process.
        request: PathBuf,
        /// As in [`Hold::Process`].
        socket: PathBuf,
    },
    /// This process: multicast forwarding ends with it.
    Itself,
}

/// Enables multicast routing and keeps it enabled until the process ends. Accepts connections on `socket`, which show the agent that it
/// runs.
///
/// # Errors
/// The kernel does not support it, another socket has enabled it, or `socket` cannot be made.
pub fn hold_multicast(socket: &Path) -> Result<std::convert::Infallible> {
    let _enabled = enable()?;
    let listener = listen(socket)?;
    loop {
        show(&listener)?;
    }
}

/// The same while the file `request` is there; otherwise waits for it. A process in another PID namespace than the agent's, as in a container of
/// its own, cannot be ended by the agent's signal.
///
/// # Errors
/// As for [`hold_multicast`], or the directory of `request` cannot be watched.
pub fn hold_multicast_on_request(request: &Path, socket: &Path) -> Result<std::convert::Infallible> {
    hold_on_request(request, socket, enable)
}

fn hold_on_request<T>(
    request: &Path,
    socket: &Path,
    enable: impl Fn() -> Result<T>,
) -> Result<std::convert::Infallible> {
    let directory = request.parent().unwrap_or(Path::new("/"));
    let changes = Changes::of(directory).with_context(|| format!("watching {}", directory.display()))?;
    loop {
        while !request.exists() {
            changes.next(None)?;
        }
        let enabled = enable()?;
        let listener = listen(socket)?;
        while request.exists() {
            if changes.next(Some(&listener))? {
                show(&listener)?;
            }
        }
        // In this order: an agent that finds nothing at the socket takes multicast routing for disabled.
        drop(enabled);
        drop(listener);
    }
}

/// The socket at which the agent finds the process that has enabled multicast routing.
fn listen(socket: &Path) -> Result<UnixListener> {
    // Only one process has multicast routing enabled: the one that left this socket has ended.
    match std::fs::remove_file(socket) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            return Err(e).with_context(|| format!("removing {}", socket.display()));
        }
        _ => {}
    }
    UnixListener::bind(socket).with_context(|| format!("making the socket {}", socket.display()))
}

/// Takes one connection. A client only reads the credentials of this process, which the kernel provides.
fn show(listener: &UnixListener) -> Result<()> {
    listener.accept().map(|_| ()).context("accepting a connection of the agent")
}

/// Changes of the names in a directory (inotify(7)).
struct Changes(OwnedFd);

impl Changes {
    fn of(directory: &Path) -> std::io::Result<Self> {
        let path = CString::new(directory.as_os_str().as_bytes())?;
        // SAFETY: inotify_init1(2) touches no memory; the result is checked and owned at once.
        let fd = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: as above.
        let changes = Self(unsafe { OwnedFd::from_raw_fd(fd) });
        let kinds = libc::IN_CREATE | libc::IN_DELETE | libc::IN_MOVED_FROM | libc::IN_MOVED_TO;
        // SAFETY: the path ends with a zero and lives until the call returns.
        let watched = unsafe { libc::inotify_add_watch(fd, path.as_ptr(), kinds) };
        if watched < 0 { Err(std::io::Error::last_os_error()) } else { Ok(changes) }
    }

    /// Waits for the next change, or until a client waits at `listener`: true then.
    fn next(&self, listener: Option<&UnixListener>) -> Result<bool> {
        let waits_for = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // poll(2) passes over a negative descriptor.
        let mut both = [waits_for(self.0.as_raw_fd()), waits_for(listener.map_or(-1, AsRawFd::as_raw_fd))];
        // SAFETY: the pointer and the length are those of a live array.
        if unsafe { libc::poll(both.as_mut_ptr(), both.len() as libc::nfds_t, -1) } < 0 {
            let error = std::io::Error::last_os_error();
            return if error.kind() == ErrorKind::Interrupted { Ok(false) } else { Err(error).context("waiting") };
        }
        let mut events = [0_u8; 4096];
        // SAFETY: the pointer and the length are those of a live array; the descriptor does not block. The events themselves are not used.
        unsafe { libc::read(self.0.as_raw_fd(), events.as_mut_ptr().cast(), events.len()) };
        Ok(both[1].revents != 0)
    }
}

/// Multicast routing is enabled until the socket is closed.
fn enable() -> Result<Socket> {
    let socket = Socket::open()?;
    socket.switch_on()?;
    Ok(socket)
}

/// The agent's handle of the mroute-holder.
pub(crate) struct MrouteHolder {
    how: Hold,
    child: Option<Child>,
    in_process: Option<Socket>,
    /// A pidfd, readable when the mroute-holder that was found last has ended.
    watched: Option<AsyncFd<OwnedFd>>,
}

impl MrouteHolder {
    pub(crate) fn new(how: Hold) -> Self {
        Self { how, child: None, in_process: None, watched: None }
    }

    /// Completes when the mroute-holder that [`MrouteHolder::watch`] found has ended. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        match &self.watched {
            Some(watched) => drop(watched.readable().await),
            None => std::future::pending().await,
        }
        self.watched = None;
    }

    /// True if there is an mroute-holder; [`MrouteHolder::ended`] waits for its end.
    pub(crate) fn watch(&mut self) -> bool {
        self.watched = None;
        if self.in_process.is_some() {
            return true;
        }
        let Some(pid) = self.find() else { return false };
        // SAFETY: pidfd_open(2) touches no memory; the result is checked and owned at once.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: as above.
        let fd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        // SAFETY: the registered object owns the descriptor and closes it.
        self.watched = fd.and_then(|fd| unsafe { AsyncFd::register(fd) }.ok());
        true
    }

    /// Process id of the mroute-holder, if there is one that runs as the agent's user.
    fn find(&mut self) -> Option<libc::pid_t> {
        // Reap a child that has ended.
        if self.child.as_mut().is_some_and(|c| c.try_wait().is_ok_and(|status| status.is_some())) {
            self.child = None;
        }
        let (Hold::Process { socket, .. } | Hold::Unit { socket, .. }) = &self.how else { return None };
        let stream = UnixStream::connect(socket).ok()?;
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both pointers are to live objects, and `len` is the size of the first one.
        let rc = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                std::ptr::from_mut(&mut peer).cast(),
                std::ptr::from_mut(&mut len),
            )
        };
        (rc == 0 && may_hold(peer.uid, crate::user::effective(), socket)).then_some(peer.pid)
    }

    /// Starts an mroute-holder and waits until it has enabled multicast routing.
    pub(crate) async fn start(&mut self) -> Result<()> {
        let (program, socket) = match &self.how {
            Hold::Itself => {
                self.in_process = Some(enable()?);
                return Ok(());
            }
            Hold::Unit { request, .. } => {
                let request = request.clone();
                return self.request(&request).await;
            }
            Hold::Process { program, socket } => (program.clone(), socket.clone()),
        };
        let operation = || format!("starting {} hold-multicast", program.display());
        let mut command = Command::new(&program);
        command.arg("hold-multicast").arg(socket).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // A process group of its own does not get the signals that a terminal sends to the agent.
        command.process_group(0).current_dir("/");
        self.child = Some(command.spawn().with_context(operation)?);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(child) = &mut self.child else { return Err("the process has ended").with_context(operation) };
            if let Some(status) = child.try_wait().with_context(operation)? {
                let mut message = String::new();
                if let Some(stderr) = &mut child.stderr {
                    let _ = stderr.read_to_string(&mut message);
                }
                self.child = None;
                return Err(format!("{} ({status})", message.trim())).with_context(operation);
            }
            let pid = child.id();
            if self.find().is_some_and(|found| found as u32 == pid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("multicast routing is not enabled after {} s", PATIENCE.as_secs()))
                    .with_context(operation);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Has the service manager start an mroute-holder, and waits until that has enabled multicast routing.
    async fn request(&mut self, request: &Path) -> Result<()> {
        std::fs::write(request, []).with_context(|| format!("making {}", request.display()))?;
        let deadline = Instant::now() + PATIENCE;
        while self.find().is_none() {
            if Instant::now() >= deadline {
                // Without the file, a unit that is started later does not enable what the agent no longer waits for.
                _ = std::fs::remove_file(request);
                let remedy = "start canopy-mroute-holder.path and see `journalctl -u canopy-mroute-holder`, or set multicast.holder to \"child\"";
                return Err(format!("no mroute-holder runs {} s later: {remedy}", PATIENCE.as_secs()))
                    .with_context(|| format!("requesting the mroute-holder by {}", request.display()));
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Ends the mroute-holder and waits for its end, which disables multicast routing.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.in_process = None;
        self.watched = None;
        if let Hold::Unit { request, .. } = &self.how {
            match std::fs::remove_file(request) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(e).with_context(|| format!("removing {}", request.display()));
                }
                _ => {}
            }
        }
        let deadline = Instant::now() + PATIENCE;
        while let Some(pid) = self.find() {
            let operation = || format!("ending process {pid}, the mroute-holder");
            // The kernel reports 0 for a process of another PID namespace, which ends by itself once the request is gone, or is ended there;
            // kill(0) would signal our own process group.
            let is_here = pid > 0;
            // SAFETY: kill(2) touches no memory.
            let failed = is_here && unsafe { libc::kill(pid, libc::SIGTERM) } != 0;
            let refused = failed.then(std::io::Error::last_os_error);
            if let Some(e) = refused.filter(|e| e.raw_os_error() != Some(libc::ESRCH)) {
                return Err(e).with_context(operation);
            }
            if Instant::now() >= deadline {
                let remedy =
                    if is_here { "it is still running" } else { "it runs in another PID namespace: end it there" };
                return Err(remedy).with_context(operation);
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

/// True if a process of user `peer` may be the mroute-holder behind `socket`: it runs as the agent's user. Root, which cleans up, has
/// that user from the owner of the directory.
fn may_hold(peer: u32, own: u32, socket: &Path) -> bool {
    let owner = || Some(std::fs::metadata(socket.parent()?).ok()?.uid());
    peer == own || own == 0 && owner() == Some(peer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use super::*;

    /// Any user can take an abstract name; the first version took the process behind it for its holder.
    #[tokio::test]
    async fn a_process_that_listens_elsewhere_is_no_holder_and_blocks_none() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("holder.sock");
        let name = SocketAddr::from_abstract_name("canopy-hold-multicast").unwrap();
        let _stranger = UnixListener::bind_addr(&name).unwrap();
        let mut holder = MrouteHolder::new(Hold::Process { program: "/bin/false".into(), socket: socket.clone() });
        assert!(!holder.watch());
        holder.stop().await.unwrap();
        // A socket that no process listens on any more.
        drop(UnixListener::bind(&socket).unwrap());
        assert!(!holder.watch());
        let refused = holder.start().await.unwrap_err();
        assert!(canopy_bpf::chain(&refused).contains("/bin/false hold-multicast"), "{}", canopy_bpf::chain(&refused));
    }

    /// The service manager is a thread: it listens once the file is there.
    #[tokio::test]
    async fn a_holder_of_the_service_manager_is_requested_by_a_file_that_goes_before_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let (request, socket) = (dir.path().join("multicast.wanted"), dir.path().join("multicast.sock"));
        let mut holder = MrouteHolder::new(Hold::Unit { request: request.clone(), socket: socket.clone() });
        let (seen, file) = (socket.clone(), request.clone());
        let manager = std::thread::spawn(move || {
            while !file.exists() {
                std::thread::yield_now();
            }
            UnixListener::bind(seen).unwrap()
        });
        holder.start().await.unwrap();
        assert!(request.exists() && holder.watch());
        // It has ended by itself.
        drop(manager.join().unwrap());
        holder.stop().await.unwrap();
        assert!(!request.exists(), "the service manager would start it again");
        holder.stop().await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_service_manager_the_error_names_the_unit_and_leaves_no_request() {
        let dir = tempfile::tempdir().unwrap();
        let (request, socket) = (dir.path().join("multicast.wanted"), dir.path().join("multicast.sock"));
        let mut holder = MrouteHolder::new(Hold::Unit { request: request.clone(), socket });
        let refused = canopy_bpf::chain(&holder.start().await.unwrap_err());
        assert!(refused.contains("canopy-mroute-holder.path") && refused.contains("multicast.wanted"), "{refused}");
        assert!(!request.exists());
    }

    /// The process is a thread of the test.
    #[test]
    fn a_holder_in_a_container_holds_while_the_request_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (request, socket) = (dir.path().join("multicast.wanted"), dir.path().join("multicast.sock"));
        let held = std::sync::Arc::new(());
        let (token, file, at) = (std::sync::Arc::clone(&held), request.clone(), socket.clone());
        std::thread::spawn(move || hold_on_request(&file, &at, || Ok(std::sync::Arc::clone(&token))));
        let holds = || std::sync::Arc::strong_count(&held) == 3 && UnixStream::connect(&socket).is_ok();
        let released = || std::sync::Arc::strong_count(&held) == 2 && UnixStream::connect(&socket).is_err();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let until = |what: &dyn Fn() -> bool| {
            while !what() {
                assert!(std::time::Instant::now() < deadline);
                std::thread::yield_now();
            }
        };
        until(&released);
        for _ in 0..2 {
            std::fs::write(&request, []).unwrap();
            until(&holds);
            // More than wait at a socket that takes none of them.
            (0..300).for_each(|_| drop(UnixStream::connect(&socket).unwrap()));
            std::fs::write(dir.path().join("another"), []).unwrap();
            assert!(holds());
            std::fs::remove_file(&request).unwrap();
            until(&released);
        }
    }

    #[test]
    fn a_holder_runs_as_the_agent_s_user_which_root_has_from_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("multicast.sock");
        let owner = std::fs::metadata(dir.path()).unwrap().uid();
        let other = owner + 1;
        assert!(may_hold(other, other, &socket) && !may_hold(owner, other, &socket));
        assert!(may_hold(owner, 0, &socket) && !may_hold(other, 0, &socket));
    }
}
