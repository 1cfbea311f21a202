// SPDX-License-Identifier: Apache-2.0
//! `GET /metrics` over HTTP/1.1: one request per connection, each with a time limit. A client that opens connections without end can keep others out.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::format::Format;
use crate::page::{Bound, Source};

/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 8;
/// Time for a whole connection: Prometheus gives up after 10 s unless configured otherwise.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// Time until the request's headers are there: an idle connection holds its slot no longer.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_HEADER_BYTES: usize = 16 << 10;
/// Pause after a failed accept, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves what `prepare` returns, within `bound`, until dropped. `prepare` returns `None` while there is nothing to serve.
pub async fn serve<F, Fut, S>(listener: TcpListener, bound: Bound, prepare: F)
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Option<S>> + Send + 'static,
    S: Source,
{
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let prepare = prepare.clone();
        tokio::spawn(async move {
            let _slot = slot;
            connection(stream, bound, prepare).await;
        });
    }
}

async fn connection<F, Fut, S>(stream: TcpStream, bound: Bound, prepare: F)
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Option<S>> + Send + 'static,
    S: Source,
{
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let prepare = prepare.clone();
        async move { Ok::<_, Infallible>(answer(&request, bound, prepare).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    server.keep_alive(false).max_buf_size(MAX_HEADER_BYTES);
    let served = server.serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(CONNECTION_TIMEOUT, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection for metrics ended"),
        Err(_) => tracing::debug!("a connection for metrics took longer than {CONNECTION_TIMEOUT:?} and was closed"),
    }
}

async fn answer<F, Fut, S, B>(request: &Request<B>, bound: Bound, prepare: F) -> Response<Full<Bytes>>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Option<S>>,
    S: Source,
{
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "only /metrics is served here\n");
    }
    if request.method() != Method::GET {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return refused;
    }
    let Some(source) = prepare().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "there are no metrics now\n");
    };
    let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::of(accept.unwrap_or_default());
    match tokio::task::spawn_blocking(move || format.write(source, bound)).await {
        Ok(Ok(text)) => with_type(StatusCode::OK, format.content_type(), text.into()),
        _ => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written\n"),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;
    use crate::page::Page;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    static LEFT_OUT: Family<0> = Family::gauge("t_left_out", "Series left out.", []);
    static PACKETS: Family<0> = Family::counter("t_packets", "Packets.", []);

    struct Test;

    impl Source for Test {
        fn scrape(&self, page: &mut Page<'_>) -> std::fmt::Result {
            page.one(&PACKETS, 7)
        }
    }

    async fn ask(head: &str, is_there: bool) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let bound = Bound { most: 10, left_out: &LEFT_OUT };
        let server = tokio::spawn(serve(listener, bound, move || async move { is_there.then_some(Test) }));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(format!("{head}\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        // Ends because the server closes the connection after its answer.
        stream.read_to_string(&mut answer).await.unwrap();
        server.abort();
        answer
    }

    #[tokio::test]
    async fn each_client_gets_its_format_and_the_connection_ends() {
        let text = ask("GET /metrics HTTP/1.1", true).await;
        assert!(text.starts_with("HTTP/1.1 200") && text.contains("text/plain; version=0.0.4"), "{text}");
        assert!(
            text.contains("# TYPE t_packets_total counter\nt_packets_total 7\n") && !text.contains("# EOF"),
            "{text}"
        );
        let open = ask("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0", true).await;
        assert!(open.contains("application/openmetrics-text; version=1.0.0") && open.ends_with("# EOF\n"), "{open}");
        assert!(ask("POST /metrics HTTP/1.1", true).await.starts_with("HTTP/1.1 405"));
        assert!(ask("GET / HTTP/1.1", true).await.starts_with("HTTP/1.1 404"));
        assert!(ask("GET /metrics HTTP/1.1", false).await.starts_with("HTTP/1.1 503"));
    }
}
