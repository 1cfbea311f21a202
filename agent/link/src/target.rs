// SPDX-License-Identifier: Apache-2.0
//! Where the controller is. Only places that need no certificate are accepted.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tonic::transport::Endpoint;

use crate::Channels;

/// How often a silent connection is probed, and how long an answer may take: a controller that died without
/// closing its socket, or hangs, is noticed within the sum.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A controller address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `unix:/absolute/path`.
    Unix(PathBuf),
    /// `http://127.0.0.1:port` or `http://[::1]:port`.
    Loopback(SocketAddr),
}

/// A controller address that cannot be used; names the reason and the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a usable controller address: {reason}; use unix:/path/to/socket or http://127.0.0.1:PORT")]
pub struct TargetError {
    value: String,
    reason: &'static str,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(value: &str) -> Result<Self, TargetError> {
        let refuse = |reason| Err(TargetError { value: value.to_owned(), reason });
        if let Some(path) = value.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path.len() {
                _ if !path.starts_with('/') => refuse("the socket's path must be absolute"),
                // sockaddr_un has 108 bytes, the last one for the terminator.
                108.. => refuse("the socket's path is longer than 107 bytes"),
                _ => Ok(Self::Unix(PathBuf::from(path))),
            };
        }
        if value.starts_with("https:") {
            return refuse("TLS is not implemented yet: the agent has no certificates");
        }
        let Some(authority) = value.strip_prefix("http://") else {
            return refuse("it is neither unix: nor http:");
        };
        match authority.strip_suffix('/').unwrap_or(authority).parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => refuse(
                "TLS is not implemented yet, so the agent cannot authenticate the controller there: only loopback is allowed",
            ),
            Ok(address) if address.port() == 0 => refuse("port 0 cannot be connected to"),
            Ok(address) => Ok(Self::Loopback(address)),
            Err(_) => refuse("it must be a loopback IP address with a port, not a name"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "http://{address}"),
        }
    }
}

impl Target {
    /// Connections that are made on first use and made again by themselves.
    ///
    /// # Errors
    /// The address does not form a URI.
    pub fn channels(&self) -> Result<Channels, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(self.to_string())?
            .connect_timeout(KEEPALIVE)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .keep_alive_while_idle(true);
        Ok(Channels { control: endpoint.connect_lazy(), telemetry: endpoint.connect_lazy() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_round_trip() {
        for good in ["unix:/run/canopy/controller.sock", "http://127.0.0.1:7443", "http://[::1]:7443"] {
            assert_eq!(good.parse::<Target>().unwrap().to_string(), good);
        }
        assert_eq!("unix:///run/c.sock".parse::<Target>().unwrap().to_string(), "unix:/run/c.sock");
    }

    #[test]
    fn remote_addresses_are_refused_with_the_reason() {
        let reason = |value: &str| value.parse::<Target>().unwrap_err().to_string();
        assert!(reason("http://192.0.2.1:7443").contains("only loopback"));
        assert!(reason("http://[2001:db8::1]:7443").contains("only loopback"));
        assert!(reason("https://127.0.0.1:7443").contains("no certificates"));
        assert!(reason("http://controller:7443").contains("not a name"));
        assert!(reason("unix:relative").contains("absolute"));
        assert!(reason(&format!("unix:/{}", "x".repeat(107))).contains("107 bytes"));
        assert!(reason("controller.sock").contains("neither"));
    }
}
