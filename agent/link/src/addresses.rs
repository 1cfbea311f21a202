// SPDX-License-Identifier: Apache-2.0
//! Where the controller may be reached: addresses in their order, and what is kept of them on the disk.
//!
//! A connection is tried at the address that worked last, then at the others in the order of the setting. What a name was resolved to is kept
//! with it, so that after the first contact nothing depends on DNS: a name that does not resolve is tried at those addresses. What answers
//! there has to show the controller's certificate, whatever the address is.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use canopy_identity::{ClientStream, ConnectError, Credentials, CredentialsError, Trust};
use tokio::net::TcpStream;

/// Of a setting, at most: each is waited for in turn.
pub(crate) const MAX_ADDRESSES: usize = 4;
/// A single address gets the time that the whole connection has.
pub(crate) const WITHIN: Duration = Duration::from_secs(5);
/// One of several, before the next one is tried.
const OF_SEVERAL: Duration = Duration::from_secs(2);
/// A resolver that does not answer in this time counts as one that is not there, if addresses of the name are kept.
const RESOLVED_WITHIN: Duration = Duration::from_secs(1);
/// Kept in the agent's directory of certificates: a line for each address, with what its name was resolved to; the one that worked last first.
const FILE: &str = "controllers";
/// Addresses of one name that are tried and kept.
const MAX_RESOLVED: usize = 8;

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub host: String,
    /// 1..=65535.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}:{}", self.host, self.port)
    }
}

/// The controller was not reached over TLS.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    #[error("{directory} has no certificate: enroll this agent with `canopy-agent enroll`", directory = .0.display())]
    NotEnrolled(PathBuf),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("configuring TLS: {0}")]
    Tls(#[from] canopy_identity::TlsError),
    #[error("{}", listed(.0))]
    Nowhere(Vec<(Address, ConnectError)>),
}

/// Why no address worked. The caller names a single one.
fn listed(failures: &[(Address, ConnectError)]) -> String {
    match failures {
        [(_, error)] => error.to_string(),
        several => several.iter().map(|(address, error)| format!("{address}: {error}")).collect::<Vec<_>>().join("; "),
    }
}

/// How long a connection to one of so many addresses may take.
pub(crate) fn limit(addresses: usize) -> Duration {
    if addresses == 1 { WITHIN } else { OF_SEVERAL * u32::try_from(addresses).unwrap_or(1) + RESOLVED_WITHIN }
}

/// Connects to the first address where the controller answers.
///
/// # Errors
/// Why each of them does not.
pub(crate) async fn connect(
    addresses: &[Address],
    directory: &Path,
    trust: Trust,
    own: Option<&Credentials>,
) -> Result<ClientStream, Unreached> {
    let config = Arc::new(canopy_identity::client(trust, own)?);
    let mut kept = Kept::read(directory);
    let within = if addresses.len() == 1 { WITHIN } else { OF_SEVERAL };
    let mut failures = Vec::new();
    for address in kept.order(addresses) {
        let trying = tokio::time::timeout(within, reach(address, kept.resolved(address), &config));
        let error = match trying.await {
            Ok(Ok((stream, resolved))) => {
                kept.worked(address, resolved);
                return Ok(stream);
            }
            Ok(Err(error)) => error,
            Err(_) => ConnectError::Io(std::io::Error::other(format!("no answer within {within:?}"))),
        };
        if addresses.len() > 1 {
            tracing::warn!(%address, %error, "cannot reach the controller at this address");
        }
        failures.push((address.clone(), error));
    }
    Err(Unreached::Nowhere(failures))
}

/// A connection to one address, and what its name was resolved to.
async fn reach(
    address: &Address,
    kept: &[SocketAddr],
    config: &Arc<canopy_identity::ClientConfig>,
) -> Result<(ClientStream, Vec<SocketAddr>), ConnectError> {
    let mut failure = ConnectError::Io(std::io::Error::other("its name has no address"));
    let resolved = resolve(address, kept).await?;
    for (at, socket) in resolved.iter().enumerate() {
        let connected = match TcpStream::connect(socket).await {
            Ok(stream) => canopy_identity::secure(stream, &address.host, config.clone()).await,
            Err(error) => Err(error.into()),
        };
        match connected {
            Ok(stream) => {
                let mut resolved = resolved.clone();
                resolved[..=at].rotate_right(1);
                return Ok((stream, resolved));
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The addresses of a name; where that cannot be resolved, those that are kept of it.
async fn resolve(address: &Address, kept: &[SocketAddr]) -> std::io::Result<Vec<SocketAddr>> {
    let bare = address.host.trim_start_matches('[').trim_end_matches(']');
    // Without addresses to try instead, a slow answer is waited for as long as for the connection.
    let within = if kept.is_empty() { WITHIN } else { RESOLVED_WITHIN };
    let lookup = tokio::time::timeout(within, tokio::net::lookup_host((bare, address.port)));
    let found = lookup
        .await
        .unwrap_or_else(|_| Err(std::io::Error::other(format!("{bare} is not resolved within {within:?}"))));
    let error = match found.map(|found| found.take(MAX_RESOLVED).collect::<Vec<_>>()) {
        Ok(found) if !found.is_empty() => return Ok(found),
        Ok(_) => std::io::Error::other(format!("{bare} has no address")),
        Err(error) => error,
    };
    if kept.is_empty() {
        return Err(error);
    }
    tracing::info!(%address, %error, ?kept, "the controller's name is not resolved: trying the addresses that it had");
    Ok(kept.to_vec())
}

/// What is on the disk.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    /// The one that worked last first.
    lines: Vec<(String, Vec<SocketAddr>)>,
}

impl Kept {
    /// A file that cannot be read has nothing that is needed.
    fn read(directory: &Path) -> Self {
        let path = directory.join(FILE);
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split(' ');
            let resolved = words.clone().skip(1).filter_map(|word| word.parse().ok()).take(MAX_RESOLVED).collect();
            Some((words.next()?.to_owned(), resolved))
        };
        Self { path, lines: text.lines().filter_map(line).take(MAX_ADDRESSES).collect() }
    }

    /// The address that worked last, then the others as the setting has them.
    fn order<'a>(&self, addresses: &'a [Address]) -> Vec<&'a Address> {
        let mut ordered: Vec<&Address> = addresses.iter().collect();
        let place = |address: &Address| self.lines.first().is_none_or(|(last, _)| *last != address.to_string());
        // Stable: false is before true.
        ordered.sort_by_key(|address| place(address));
        ordered
    }

    fn resolved(&self, address: &Address) -> &[SocketAddr] {
        let text = address.to_string();
        self.lines.iter().find(|(of, _)| *of == text).map(|(_, resolved)| resolved.as_slice()).unwrap_or_default()
    }

    /// Whether this worked last: the same addresses in another order, as many resolvers return them, are no news.
    fn has(&self, (address, resolved): &(String, Vec<SocketAddr>)) -> bool {
        let known = |(of, known): &(String, Vec<SocketAddr>)| {
            of == address && known.len() == resolved.len() && resolved.iter().all(|one| known.contains(one))
        };
        self.lines.first().is_some_and(known)
    }

    /// Keeps what worked, if that is news.
    fn worked(&mut self, address: &Address, resolved: Vec<SocketAddr>) {
        let line = (address.to_string(), resolved);
        if self.has(&line) {
            return;
        }
        // Connections of one agent are opened together, and each has read the file before.
        static WRITING: Mutex<()> = Mutex::new(());
        let _alone = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = self.path.parent().unwrap_or(Path::new("."));
        self.lines = Self::read(directory).lines;
        if self.has(&line) {
            return;
        }
        self.lines.retain(|(of, _)| *of != line.0);
        self.lines.insert(0, line);
        self.lines.truncate(MAX_ADDRESSES);
        let text = |(of, resolved): &(String, Vec<SocketAddr>)| {
            let words: Vec<String> = resolved.iter().map(SocketAddr::to_string).collect();
            format!("{of} {}\n", words.join(" "))
        };
        let content: String = self.lines.iter().map(text).collect();
        if let Err(error) = canopy_identity::replace(&self.path, content.as_bytes()) {
            tracing::warn!(%error, "cannot keep the controller's address");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn address(host: &str) -> Address {
        Address { host: host.into(), port: 8641 }
    }

    /// Catches a file that is written at every connection, and an order in which a dead address comes first for ever.
    #[test]
    fn the_address_that_worked_last_is_first_and_the_rest_keep_their_order() {
        let dir = tempfile::tempdir().unwrap();
        let all = ["a", "b", "c"].map(address);
        let order = |of: &Kept| of.order(&all).iter().map(|address| address.host.clone()).collect::<String>();
        let mut kept = Kept::read(dir.path());
        assert_eq!((order(&kept).as_str(), kept.resolved(&all[2]).len()), ("abc", 0));
        let resolved: Vec<SocketAddr> = vec!["192.0.2.1:8641".parse().unwrap(), "[2001:db8::1]:8641".parse().unwrap()];
        kept.worked(&all[1], vec![]);
        kept.worked(&all[2], resolved.clone());
        let mut kept = Kept::read(dir.path());
        assert_eq!((order(&kept).as_str(), kept.resolved(&all[2])), ("cab", resolved.as_slice()));
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        let rotated = resolved.iter().rev().copied().collect();
        kept.worked(&all[2], resolved);
        kept.worked(&all[2], rotated);
        assert!(!dir.path().join(FILE).exists(), "nothing is new");
        // One that is in the setting no more.
        assert_eq!(kept.order(&all[..2]).len(), 2);
        std::fs::write(dir.path().join(FILE), b"\xff\n").unwrap();
        assert_eq!(order(&Kept::read(dir.path())), "abc");
    }

    #[tokio::test]
    async fn a_name_that_is_not_resolved_is_tried_where_it_was() {
        let kept = ["192.0.2.1:8641".parse().unwrap()];
        let gone = Address { host: "canopy-controller.invalid".into(), port: 8641 };
        assert_eq!(resolve(&gone, &kept).await.unwrap(), kept);
        assert!(resolve(&gone, &[]).await.is_err());
        let literal = Address { host: "[::1]".into(), port: 8641 };
        assert_eq!(resolve(&literal, &kept).await.unwrap(), ["[::1]:8641".parse().unwrap()]);
    }
}
