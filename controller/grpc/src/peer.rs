// SPDX-License-Identifier: Apache-2.0
//! Identity of the caller, as far as the socket provides it.

use tonic::Request;
use tonic::transport::server::{TcpConnectInfo, UdsConnectInfo};

/// `uid=0 pid=123` of a Unix socket's peer, or a TCP peer's address; for logs.
pub(crate) fn peer<T>(request: &Request<T>) -> String {
    if let Some(info) = request.extensions().get::<UdsConnectInfo>() {
        return match info.peer_cred {
            Some(c) => {
                format!("uid={} gid={} pid={}", c.uid(), c.gid(), c.pid().map_or_else(|| "?".into(), |p| p.to_string()))
            }
            None => "unix socket".into(),
        };
    }
    let tcp = request.extensions().get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
    tcp.map_or_else(|| "unknown".into(), |a| a.to_string())
}
