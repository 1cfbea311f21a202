// SPDX-License-Identifier: Apache-2.0
//! Every request has an id of 16 octets: in the header of its answer, in a problem document, in the log, in the audit and in the events that
//! follow from it. A client that sends `traceparent` (W3C Trace Context, section 3.2) chooses it: it is the id of its trace.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::Response;
use canopy_controller_core::request_id::RequestId;
use tracing::Span;

/// Header of every answer.
const REQUEST_ID: HeaderName = HeaderName::from_static("canopy-request-id");
/// The trace of the caller.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static CURRENT: Option<RequestId>;
}

/// Id of the request that is being answered; `None` outside of one, and if the system has no random numbers.
pub(crate) fn current() -> Option<RequestId> {
    CURRENT.try_with(|id| *id).ok().flatten()
}

/// Gives the request an id for all that is done for it, unless it has one.
pub(crate) async fn identify(request: Request, next: Next) -> Response {
    if CURRENT.try_with(|_| ()).is_ok() {
        return next.run(request).await;
    }
    let id = of_caller(request.headers()).or_else(drawn);
    let mut response = CURRENT.scope(id, next.run(request)).await;
    if let Some(value) = id.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// What log lines about a request have in common. Neither its query nor its headers: they may have secrets.
pub(crate) fn span(request: &Request) -> Span {
    let id = current().map(|id| id.to_string()).unwrap_or_default();
    tracing::info_span!("request", id, method = %request.method(), path = request.uri().path())
}

/// The trace id of a `traceparent` of any version; a malformed one is as good as none.
fn of_caller(headers: &HeaderMap) -> Option<RequestId> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let text = all.next()?.to_str().ok()?;
    if all.next().is_some() {
        return None;
    }
    let mut parts = text.split('-');
    let version = parts.next()?;
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let (trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole = version != "00" || parts.next().is_none();
    let is_parent = is_hex(parent, 16) && parent.bytes().any(|b| b != b'0');
    (is_hex(version, 2) && version != "ff" && is_whole && is_parent && is_hex(flags, 2)).then(|| trace.parse().ok())?
}

fn drawn() -> Option<RequestId> {
    let mut octets = [0; 16];
    getrandom::fill(&mut octets).ok()?;
    RequestId::new(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples and rules of W3C Trace Context, sections 3.2.2 and 3.2.3.
    #[test]
    fn the_trace_of_the_caller_is_taken_only_if_it_is_well_formed() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let of = |texts: &[&str]| {
            let mut headers = HeaderMap::new();
            texts.iter().for_each(|text| _ = headers.append(TRACEPARENT, text.parse().unwrap()));
            of_caller(&headers).map(|id| id.to_string())
        };
        for good in ["00-@-00f067aa0ba902b7-01", "00-@-00f067aa0ba902b7-00", "cc-@-00f067aa0ba902b7-01-what-the-future"]
        {
            assert_eq!(of(&[&good.replace('@', trace)]).as_deref(), Some(trace), "{good}");
        }
        for bad in [
            "",
            "00-@-00f067aa0ba902b7",
            "00-@-00f067aa0ba902b7-01-more",
            "ff-@-00f067aa0ba902b7-01",
            "0-@-00f067aa0ba902b7-01",
            "00-@-0000000000000000-01",
            "00-@-00F067AA0BA902B7-01",
            "00-@0-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        ] {
            assert_eq!(of(&[&bad.replace('@', trace)]), None, "{bad}");
        }
        let good = format!("00-{trace}-00f067aa0ba902b7-01");
        assert_eq!(of(&[&good, &good]), None, "two are none");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn drawn_ids_differ() {
        assert_ne!(drawn().unwrap(), drawn().unwrap());
    }
}
