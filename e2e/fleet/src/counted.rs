// SPDX-License-Identifier: Apache-2.0
//! Connections whose octets are counted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::io::InspectReader;
use tonic::transport::{Channel, Endpoint, Uri};

/// A connection to a socket, made on first use and again; what arrives over it is added to `arrived`.
pub(crate) fn channel(socket: PathBuf, arrived: Arc<AtomicU64>) -> Channel {
    let connect = move |_: Uri| {
        let (socket, arrived) = (socket.clone(), Arc::clone(&arrived));
        async move {
            let count = move |octets: &[u8]| _ = arrived.fetch_add(octets.len() as u64, Ordering::Relaxed);
            Ok::<_, io::Error>(TokioIo::new(InspectReader::new(UnixStream::connect(socket).await?, count)))
        }
    };
    Endpoint::from_static("http://controller").connect_with_connector_lazy(tower::service_fn(connect))
}
