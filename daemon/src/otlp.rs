// SPDX-License-Identifier: Apache-2.0
//! What traces and log lines that are sent to an OpenTelemetry collector have in common.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

/// Items of one message, at most.
pub const BATCH: usize = 512;
/// Items that wait for the collector, at most.
pub const QUEUE: usize = 8192;
/// How long the first item of a message waits for others.
pub const GATHER: Duration = Duration::from_millis(200);
/// A collector that takes longer has not taken the message.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// A program as collectors know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service<'a> {
    /// Its name, such as `canopy-agent`.
    pub name: &'static str,
    /// Which of several: the node or host.
    pub instance: Option<&'a str>,
}

impl Service<'_> {
    /// The attributes of everything that this program sends.
    pub fn resource(&self) -> Resource {
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let instance = self.instance.map(|instance| KeyValue::new("service.instance.id", instance.to_owned()));
        let of = Resource::builder_empty().with_service_name(self.name).with_attribute(version);
        of.with_attributes(instance).build()
    }
}

/// Whether this is the endpoint of a collector that takes OTLP over gRPC, `http://host:port`; an empty one is none.
///
/// # Errors
/// What to write instead.
pub fn check_endpoint(endpoint: &str) -> Result<(), String> {
    let of = |text: &str| {
        let authority = text.strip_prefix("http://")?.trim_end_matches('/');
        let (host, port) = authority.rsplit_once(':')?;
        let is_host = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]".contains(&b));
        port.parse::<u16>().ok().filter(|port| is_host && *port > 0)
    };
    if endpoint.is_empty() || of(endpoint).is_some() {
        return Ok(());
    }
    Err(format!("{endpoint:?} is not http://host:port: name a collector on this machine, which may send on with TLS"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for good in ["", "http://127.0.0.1:4317", "http://[::1]:4317/", "http://collector.example:1"] {
            assert_eq!(check_endpoint(good), Ok(()), "{good}");
        }
        for bad in ["127.0.0.1:4317", "https://h:1", "http://h", "http://h:0", "http://:1", "http://u:p@h:1/x"] {
            assert!(check_endpoint(bad).unwrap_err().contains("http://host:port"), "{bad}");
        }
    }
}
