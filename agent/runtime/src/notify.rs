// SPDX-License-Identifier: Apache-2.0
//! The service manager's notification protocol, sd_notify(3): readiness and the watchdog.

use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Reports the agent's state to the service manager; does nothing without one.
#[derive(Debug, Default)]
pub struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID through `variable`; `pid` is that of this process. An
    /// invalid value is logged and ignored: forwarding does not depend on the service manager.
    pub fn from_env(variable: impl Fn(&str) -> Option<OsString>, pid: u32) -> Self {
        let Some(path) = variable("NOTIFY_SOCKET") else { return Self::default() };
        let address = match path.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
            _ => SocketAddr::from_pathname(&path),
        };
        let socket = match address.and_then(|address| Ok((UnixDatagram::unbound()?, address))) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(%error, ?path, "cannot use NOTIFY_SOCKET: the service manager gets no notifications");
                return Self::default();
            }
        };
        let number = |name| variable(name).and_then(|value| value.to_str()?.parse::<u64>().ok());
        let for_us = number("WATCHDOG_PID").is_none_or(|wanted| wanted == u64::from(pid));
        let watchdog = number("WATCHDOG_USEC").filter(|usec| for_us && *usec > 0).map(Duration::from_micros);
        Self { socket: Some(socket), watchdog }
    }

    /// Interval of watchdog pings: half of the watchdog timeout, as sd_watchdog_enabled(3) recommends.
    pub fn ping_interval(&self) -> Option<Duration> {
        self.watchdog.map(|allowed| (allowed / 2).max(Duration::from_millis(1)))
    }

    /// The agent is ready: a spec was reconciled, or the controller is connected.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The event loop is alive.
    pub fn ping(&self) {
        self.send("WATCHDOG=1");
    }

    /// The agent is stopping.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        let Some((socket, address)) = &self.socket else { return };
        if let Err(error) = socket.send_to_addr(state.as_bytes(), address) {
            tracing::warn!(%error, state, "cannot notify the service manager");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        let pairs: Vec<(String, OsString)> = pairs.iter().map(|(k, v)| ((*k).to_owned(), v.into())).collect();
        move |name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn readiness_reaches_path_and_abstract_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("canopy-notify-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (manager, value) in [
            (UnixDatagram::bind(&path).unwrap(), path.to_str().unwrap().to_owned()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), format!("@{name}")),
        ] {
            Notifier::from_env(environment(&[("NOTIFY_SOCKET", &value)]), 1).ready();
            let mut buffer = [0; 32];
            let length = manager.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1");
        }
    }

    #[test]
    fn watchdog_is_for_this_process_only() {
        let interval = |pid: &str| {
            let pairs = [("NOTIFY_SOCKET", "/run/n"), ("WATCHDOG_USEC", "30000000"), ("WATCHDOG_PID", pid)];
            Notifier::from_env(environment(&pairs), 42).ping_interval()
        };
        assert_eq!(interval("42"), Some(Duration::from_secs(15)));
        assert_eq!(interval("43"), None);
    }
}
