// SPDX-License-Identifier: Apache-2.0
//! Every request has an id of 16 octets: in the header of its answer, in a problem document, in the log, in the audit and in the events that
//! follow from it. A client that sends `traceparent` (W3C Trace Context, section 3.2) chooses it: it is the id of its trace.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use canopy_controller_actor::Controller;
use canopy_controller_actor::traces::{self, Span};
use canopy_controller_core::request_id::RequestId;
use canopy_controller_core::trace::{SpanId, Trace, TraceParent};
use canopy_units::UnixTime;

/// Header of every answer.
const REQUEST_ID: HeaderName = HeaderName::from_static("canopy-request-id");
/// The trace of the caller.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

tokio::task_local! {
    static CURRENT: Current;
    static TRACE: Trace;
}

/// Paths whose requests are never traced: they are sent every few seconds, by machines.
const UNTRACED: [&str; 3] = ["/livez", "/readyz", "/metrics"];

/// What is known of a request before anything is done for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Current {
    id: Option<RequestId>,
    /// Span of the caller, and whether the caller's trace is sampled.
    caller: Option<(SpanId, bool)>,
}

/// Id of the request that is being answered; `None` outside of one, and if the system has no random numbers.
pub(crate) fn current() -> Option<RequestId> {
    CURRENT.try_with(|current| current.id).ok().flatten()
}

/// Its trace, if its spans are exported.
pub(crate) fn trace() -> Option<Trace> {
    TRACE.try_with(|trace| *trace).ok()
}

/// Gives the request an id for all that is done for it, unless it has one.
pub(crate) async fn identify(request: Request, next: Next) -> Response {
    if CURRENT.try_with(|_| ()).is_ok() {
        return next.run(request).await;
    }
    let current = of_caller(request.headers()).unwrap_or_else(|| Current { id: traces::drawn_request(), caller: None });
    let mut response = CURRENT.scope(current, next.run(request)).await;
    if let Some(value) = current.id.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Records a span of the request if there is an exporter: of every write, and of what a caller traces. A caller whose trace is not sampled
/// wants none.
pub(crate) async fn traced(State(controller): State<Controller>, request: Request, next: Next) -> Response {
    let Some(trace) = begin(&controller, &request) else { return next.run(request).await };
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let response = TRACE.scope(trace, next.run(request)).await;
    let status = response.status();
    let parent = CURRENT.try_with(|current| current.caller).ok().flatten().map(|(span, _)| span);
    let span = Span::part(trace, format!("{method} {route}").trim_end().to_owned(), trace.arrived.0, controller.now());
    let attributes = vec![
        ("http.request.method", method.to_string()),
        ("http.route", route),
        ("http.response.status_code", status.as_u16().to_string()),
    ];
    let error = status.is_server_error().then(|| status.to_string());
    controller.traces().record(span.map(|span| Span {
        id: trace.span,
        parent,
        is_request: true,
        attributes,
        error,
        ..span
    }));
    response
}

fn begin(controller: &Controller, request: &Request) -> Option<Trace> {
    if !controller.traces().is_on() || UNTRACED.contains(&request.uri().path()) {
        return None;
    }
    let current = CURRENT.try_with(|current| *current).ok()?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let is_wanted = current.caller.map_or(!is_read, |(_, is_sampled)| is_sampled);
    let id = current.id.filter(|_| is_wanted)?;
    Some(Trace { id, span: traces::drawn()?, arrived: (controller.now(), UnixTime::now()) })
}

/// What log lines about a request have in common. Nothing that a caller chose: a credential may be anywhere by mistake, also in the path.
pub(crate) fn span(request: &Request) -> tracing::Span {
    let id = current().map(|id| id.to_string()).unwrap_or_default();
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    tracing::info_span!("request", request_id = id, method = %request.method(), route)
}

/// The only `traceparent`, if it is well-formed.
fn of_caller(headers: &HeaderMap) -> Option<Current> {
    let mut all = headers.get_all(TRACEPARENT).iter();
    let text = all.next()?.to_str().ok()?;
    if all.next().is_some() {
        return None;
    }
    let TraceParent { id, span, is_sampled } = TraceParent::parse(text)?;
    Some(Current { id: Some(id), caller: Some((span, is_sampled)) })
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
            of_caller(&headers).map(|of| of.id.unwrap().to_string())
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
        assert_ne!(traces::drawn_request().unwrap(), traces::drawn_request().unwrap());
    }
}
