// SPDX-License-Identifier: Apache-2.0
//! systemd's notification protocol (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Notifies the service manager, if there is one. A failure is only logged.
pub fn notify(state: &str) {
    let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(socket.as_encoded_bytes(), state) {
        tracing::warn!(%error, ?socket, state, "cannot notify the service manager");
    }
}

fn send(socket: &[u8], state: &str) -> std::io::Result<()> {
    let address = match socket {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => {
            SocketAddr::from_pathname(std::path::Path::new(std::str::from_utf8(path).map_err(std::io::Error::other)?))?
        }
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_socket_get_the_datagram() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("canopy-notify-test-{}", std::process::id());
        let sockets = [
            UnixDatagram::bind(&path).unwrap(),
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
        ];
        for (socket, at) in sockets.iter().zip([path.to_str().unwrap().to_owned(), format!("@{name}")]) {
            send(at.as_bytes(), "READY=1").unwrap();
            let mut buffer = [0; 32];
            let n = socket.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..n], b"READY=1");
        }
        assert!(send(b"/nonexistent/socket", "READY=1").is_err());
    }
}
