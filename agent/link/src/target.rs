// SPDX-License-Identifier: Apache-2.0
//! Where the controller is: on this machine behind a Unix socket, or anywhere behind TLS.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use canopy_identity::{ClientStream, Credentials, Trust};
use hyper_util::rt::TokioIo;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::Channels;
use crate::addresses::{self, Address, MAX_ADDRESSES, Unreached};

/// How often a silent connection is probed, and how long an answer may take: a controller that died without
/// closing its socket, or hangs, is noticed within the sum.
const KEEPALIVE: Duration = Duration::from_secs(5);

/// A controller address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `unix:/absolute/path`.
    Unix(PathBuf),
    /// `https://name-or-address:port`, or several between commas: all are of one controller.
    Tls(Vec<Address>),
}

/// A controller address that cannot be used; names the reason and the accepted forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{value:?} is not a usable controller address: {reason}; use unix:/path/to/socket, https://HOST:PORT or several of these between commas"
)]
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
        if value.starts_with("http:") {
            return refuse(
                "controllers serve TCP over TLS only: write https, and enroll this agent with `canopy-agent enroll`",
            );
        }
        let mut addresses: Vec<Address> = Vec::new();
        for one in value.split(',').map(str::trim) {
            let address = address(one).map_err(|reason| TargetError { value: value.to_owned(), reason })?;
            if addresses.contains(&address) {
                return refuse("it has an address twice");
            }
            addresses.push(address);
        }
        if addresses.len() > MAX_ADDRESSES {
            return refuse("it has more than 4 addresses");
        }
        Ok(Self::Tls(addresses))
    }
}

/// One address of a controller behind TLS, or what is wrong with it.
fn address(value: &str) -> Result<Address, &'static str> {
    if value.starts_with("unix:") {
        return Err("a socket of this machine is the only address, or none");
    }
    let Some(authority) = value.strip_prefix("https://") else {
        return Err("it is neither unix: nor https:");
    };
    let Some((host, port)) = authority.strip_suffix('/').unwrap_or(authority).rsplit_once(':') else {
        return Err("it has no port");
    };
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_host = match bracketed {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            (1..=253).contains(&host.len()) && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
        }
    };
    match port.parse() {
        _ if !is_host => Err("its host is neither a name nor an address; an IPv6 address is written in brackets"),
        Ok(0) | Err(_) => Err("its port is not 1 to 65535"),
        Ok(port) => Ok(Address { host: host.to_owned(), port }),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tls(addresses) => {
                let texts: Vec<String> = addresses.iter().map(Address::to_string).collect();
                f.write_str(&texts.join(","))
            }
        }
    }
}

impl Target {
    /// Connections that are made on first use and made again by themselves. Over TLS each uses the credentials that `identity` has then.
    ///
    /// # Errors
    /// The address does not form a URI.
    pub fn channels(&self, identity: &Path) -> Result<Channels, tonic::transport::Error> {
        Ok(Channels { control: self.channel(identity)?, telemetry: self.channel(identity)? })
    }

    /// One of them.
    pub(crate) fn channel(&self, identity: &Path) -> Result<Channel, tonic::transport::Error> {
        match self {
            Self::Unix(_) => Ok(endpoint(self.to_string())?.connect_lazy()),
            Self::Tls(addresses) => {
                let identity = identity.to_owned();
                over(addresses, move |addresses| {
                    let identity = identity.clone();
                    async move { own_stream(&addresses, identity).await }
                })
            }
        }
    }
}

/// A connection that `open` makes on first use, and again.
pub(crate) fn over<F, O>(addresses: &[Address], open: F) -> Result<Channel, tonic::transport::Error>
where
    F: Fn(Vec<Address>) -> O + Send + 'static,
    O: Future<Output = Result<ClientStream, Unreached>> + Send + 'static,
{
    // TLS is the connector's, and so is the address; that of the URI is in no request.
    let endpoint = endpoint("http://controller".to_owned())?.connect_timeout(addresses::limit(addresses.len()));
    let addresses = addresses.to_vec();
    Ok(endpoint.connect_with_connector_lazy(service_fn(move |_| {
        let opened = open(addresses.clone());
        async move { opened.await.map(TokioIo::new) }
    })))
}

fn endpoint(uri: String) -> Result<Endpoint, tonic::transport::Error> {
    Ok(Endpoint::from_shared(uri)?
        .connect_timeout(KEEPALIVE)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE)
        .keep_alive_while_idle(true))
}

/// A connection that shows the certificate which is in this directory now.
pub(crate) async fn own_stream(addresses: &[Address], identity: PathBuf) -> Result<ClientStream, Unreached> {
    let own = Credentials::load(&identity)?.ok_or_else(|| Unreached::NotEnrolled(identity.clone()))?;
    let trust = Trust::Authorities(own.authorities.clone(), own.certificate.domain.clone());
    addresses::connect(addresses, &identity, trust, Some(&own)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        for good in [
            "unix:/run/canopy/controller.sock",
            "https://127.0.0.1:8641",
            "https://[2001:db8::1]:8641",
            "https://controller.example:8641",
            "https://10.96.0.41:8641,https://[2001:db8::1]:8641,https://controller.example:8641",
        ] {
            assert_eq!(good.parse::<Target>().unwrap().to_string(), good);
        }
        assert_eq!("unix:///run/c.sock".parse::<Target>().unwrap().to_string(), "unix:/run/c.sock");
        assert_eq!("https://a:1/".parse::<Target>().unwrap().to_string(), "https://a:1");
        assert_eq!("https://a:1, https://b:1/".parse::<Target>().unwrap().to_string(), "https://a:1,https://b:1");
    }

    #[test]
    fn other_addresses_are_refused_with_the_reason() {
        let reason = |value: &str| value.parse::<Target>().unwrap_err().to_string();
        // As an earlier version took it: the reason has what to write.
        assert!(reason("http://127.0.0.1:7443").contains("write https") && reason("http://x").contains("enroll"));
        assert!(reason("https://controller").contains("no port"));
        assert!(reason("https://2001:db8::1:8641").contains("in brackets"));
        assert!(reason("https://[::g]:8641").contains("in brackets"));
        assert!(reason("https://a b:8641").contains("neither a name"));
        for port in ["0", "65536", "x", ""] {
            assert!(reason(&format!("https://a:{port}")).contains("port"));
        }
        assert!(reason("unix:relative").contains("absolute"));
        assert!(reason(&format!("unix:/{}", "x".repeat(107))).contains("107 bytes"));
        assert!(reason("controller.sock").contains("neither"));
        assert!(reason("https://a:1,").contains("neither"));
        assert!(reason("https://a:1,unix:/run/c.sock").contains("the only address"));
        assert!(reason("https://a:1,https://b").contains("no port"));
        assert!(reason("https://a:1,https://b:1,https://a:1").contains("twice"));
        assert!(reason("https://a:1,https://a:2,https://a:3,https://a:4,https://a:5").contains("more than 4"));
    }
}
