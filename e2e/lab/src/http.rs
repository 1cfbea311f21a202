// SPDX-License-Identifier: Apache-2.0
//! A minimal HTTP client for requests to the controller over loopback.
//!
//! Requests are HTTP/1.0: the answer is then never chunked and ends with the connection (RFC 9112 sections 6.1 and 6.3).

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_ANSWER: u64 = 64 << 20;

/// One request to 127.0.0.1 and its whole answer: status code and body.
///
/// # Errors
/// Nothing listens on the port, no answer within 30 s, or the answer is not HTTP.
pub fn request(port: u16, method: &str, path: &str, body: Option<&[u8]>) -> Result<(u16, Vec<u8>)> {
    let words = [method, path];
    ensure!(
        words.iter().all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_graphic())),
        "{words:?} is not a request: spaces and controls must be %-encoded"
    );
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let exchange = || -> Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        let mut head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n");
        if let Some(body) = body {
            head += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        stream.write_all((head + "\r\n").as_bytes())?;
        stream.write_all(body.unwrap_or_default())?;
        let mut answer = Vec::new();
        stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let doing = || format!("{method} http://{address}{path}");
    parse(&exchange().with_context(doing)?).with_context(doing)
}

fn parse(answer: &[u8]) -> Result<(u16, Vec<u8>)> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").context("the answer ends before its header does")?;
    let head = std::str::from_utf8(&answer[..end]).context("the answer's header is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines
        .next()
        .and_then(|l| l.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok())
        .context("the answer is not HTTP")?;
    let body = &answer[end + 4..];
    for (name, value) in lines.filter_map(|l| l.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("the answer is {}, which HTTP/1.0 does not have", value.trim());
        }
        if name.eq_ignore_ascii_case("content-length") {
            ensure!(value.trim().parse() == Ok(body.len()), "{} bytes of {} arrived", body.len(), value.trim());
        }
    }
    Ok((status, body.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_half_ones_refused() {
        assert_eq!(parse(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}").unwrap(), (201, b"{}".to_vec()));
        assert_eq!(parse(b"HTTP/1.0 204 No Content\r\n\r\n").unwrap(), (204, vec![]));
        assert!(
            parse(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}").unwrap_err().to_string().contains("2 bytes of 3")
        );
        assert!(parse(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").is_err());
        assert!(parse(b"SSH-2.0-x\r\n\r\n").is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\n").is_err());
    }

    #[test]
    fn a_header_cannot_be_smuggled_through_the_path() {
        let e = request(1, "GET", "/a HTTP/1.0\r\nX: y", None).unwrap_err().to_string();
        assert!(e.contains("is not a request"), "{e}");
    }
}
