// SPDX-License-Identifier: Apache-2.0
//! Who keeps multicast routing switched on.
//!
//! The kernel forwards multicast packets only while the socket that switched it on is open, so that socket must not be the agent's:
//! killing or restarting the agent stops nothing. A process of its own holds it, `canopy-agent hold-multicast`, and does nothing
//! else. There is one per network namespace: it is found by a Unix socket in the namespace's abstract names, and ended by SIGTERM.

use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use canopy_agent_core::DatapathError;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

use crate::error::Doing;
use crate::mroute::Socket;

/// Abstract name, one per network namespace.
const NAME: &str = "canopy-hold-multicast";
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);

/// Who holds the socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A process of its own, which outlives the agent: this program with the one argument `hold-multicast`.
    Process(PathBuf),
    /// This process: multicast stops with it.
    Itself,
}

/// Switches multicast routing on and keeps it on until the process is ended.
///
/// # Errors
/// The kernel cannot, another socket does it already, or there is a holder.
pub fn hold_multicast() -> Result<std::convert::Infallible, DatapathError> {
    let held = Held::take()?;
    loop {
        // Whoever connects only wants to know who we are, which the kernel tells.
        if let Err(e) = held.listener.accept() {
            return Err(e).doing("waiting to be ended");
        }
    }
}

/// Multicast routing as long as this lives.
struct Held {
    listener: UnixListener,
    _socket: Socket,
}

impl Held {
    fn take() -> Result<Self, DatapathError> {
        let address = SocketAddr::from_abstract_name(NAME).doing("naming the holder of multicast routing")?;
        let socket = Socket::open()?;
        socket.switch_on()?;
        // Last, so that whoever finds the name finds multicast routing on.
        let listener = UnixListener::bind_addr(&address).doing(format!("taking the abstract Unix name @{NAME}"))?;
        Ok(Self { listener, _socket: socket })
    }
}

/// The agent's side.
pub(crate) struct Holder {
    how: Hold,
    child: Option<Child>,
    itself: Option<Held>,
    /// Readable when the holder that was found last has ended.
    watched: Option<AsyncFd<OwnedFd>>,
}

impl Holder {
    pub(crate) fn new(how: Hold) -> Self {
        Self { how, child: None, itself: None, watched: None }
    }

    /// Completes when the holder ends that [`Holder::watch`] found. Cancel safe.
    pub(crate) async fn ended(&mut self) {
        match &self.watched {
            Some(watched) => drop(watched.readable().await),
            None => std::future::pending().await,
        }
        self.watched = None;
    }

    /// True if there is a holder; [`Holder::ended`] waits for its end.
    pub(crate) fn watch(&mut self) -> bool {
        self.watched = None;
        if self.itself.is_some() {
            return true;
        }
        let Some(pid) = self.find() else { return false };
        // SAFETY: pidfd_open(2) touches no memory; the result is checked and owned at once.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        // SAFETY: as above.
        let fd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        // SAFETY: the descriptor is owned by what is registered, and closed only with it.
        self.watched = fd.and_then(|fd| unsafe { AsyncFd::register(fd) }.ok());
        true
    }

    /// Process id of the holder in this network namespace, if there is one that belongs to our user.
    fn find(&mut self) -> Option<libc::pid_t> {
        // One that ended is not to stay as a zombie.
        if self.child.as_mut().is_some_and(|c| c.try_wait().is_ok_and(|status| status.is_some())) {
            self.child = None;
        }
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(NAME).ok()?).ok()?;
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut len = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both pointers are of live objects, and `len` is the first one's size.
        let rc = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                std::ptr::from_mut(&mut peer).cast(),
                std::ptr::from_mut(&mut len),
            )
        };
        // SAFETY: geteuid(2) only reads.
        (rc == 0 && peer.uid == unsafe { libc::geteuid() }).then_some(peer.pid)
    }

    /// Starts a holder and waits until it holds.
    pub(crate) async fn start(&mut self) -> Result<(), DatapathError> {
        let program = match &self.how {
            Hold::Itself => {
                self.itself = Some(Held::take()?);
                return Ok(());
            }
            Hold::Process(program) => program,
        };
        let doing = format!("starting {} hold-multicast", program.display());
        let mut command = Command::new(program);
        command.arg("hold-multicast").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        // Signals from a terminal are the agent's.
        command.process_group(0).current_dir("/");
        self.child = Some(command.spawn().doing(doing.clone())?);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let Some(child) = &mut self.child else { return Err("it ended").doing(doing) };
            if let Some(status) = child.try_wait().doing(doing.clone())? {
                let mut said = String::new();
                if let Some(stderr) = &mut child.stderr {
                    let _ = stderr.read_to_string(&mut said);
                }
                self.child = None;
                return Err(format!("{} ({status})", said.trim())).doing(doing);
            }
            let pid = child.id();
            if self.find().is_some_and(|found| found as u32 == pid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(format!("it does not hold after {} s", PATIENCE.as_secs())).doing(doing);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends the holder and waits until it is gone; multicast routing is off then.
    pub(crate) async fn stop(&mut self) -> Result<(), DatapathError> {
        self.itself = None;
        self.watched = None;
        let deadline = Instant::now() + PATIENCE;
        while let Some(pid) = self.find() {
            let doing = || format!("ending process {pid}, which holds multicast routing");
            // 0 stands for all of ours.
            if pid <= 0 {
                return Err("it is in another PID namespace: end it there").doing(doing());
            }
            // SAFETY: kill(2) touches no memory.
            let refused = (unsafe { libc::kill(pid, libc::SIGTERM) } != 0).then(std::io::Error::last_os_error);
            if let Some(e) = refused.filter(|e| e.raw_os_error() != Some(libc::ESRCH)) {
                return Err(e).doing(doing());
            }
            if Instant::now() >= deadline {
                return Err("it is still there").doing(doing());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}
