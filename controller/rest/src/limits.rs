// SPDX-License-Identifier: Apache-2.0
//! What one caller may have in flight: octets of bodies that are not answered, and of answers that are not taken.
//!
//! A refusal names the limit: 429 where the caller has its share, 503 where all callers together have what there is, both with
//! `Retry-After`; 408 where a body is not there in time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use canopy_controller_access::Identity;
use canopy_daemon::limits::{Holder, HolderAccount, HolderBudget, Limit, OverBudget};
use futures::StreamExt;
use http_body_util::LengthLimitError;
use tokio::time::{Instant, timeout_at};

use crate::body_size::is_topology;
use crate::caller::{self, Caller};
use crate::error::ApiError;

/// Octets of bodies until their requests are answered: of all callers, of all tokens of one maker, and of one caller, who gets two of the
/// largest.
const REQUESTS: (usize, usize, usize) = (32 << 20, 16 << 20, 8 << 20);
/// Those of bodies of topologies, alike.
const TOPOLOGIES: (usize, usize, usize) = (144 << 20, 72 << 20, 72 << 20);
/// What a part of a body costs besides its octets: parts may be of one octet each.
const PART: usize = 64;
/// A body must be whole within this time.
const BODY_TIMEOUT: Duration = Duration::from_secs(20);
/// Octets of answers until they are taken, alike.
const ANSWERS: (usize, usize, usize) = (64 << 20, 32 << 20, 16 << 20);
/// Answers up to this length cost nothing: a connection has one at a time.
const SMALL_ANSWER: usize = 64 << 10;
/// A longer answer is given to its connection in parts, so that what is not taken is still counted.
const ANSWER_PART: usize = 16 << 10;
/// Seconds after which a caller may try again.
pub(crate) const LATER: u32 = 1;

tokio::task_local! {
    static HOLDER: Option<Holder>;
}

/// The budgets of a controller: one for all its listeners.
#[derive(Clone)]
pub struct Limits {
    requests: HolderBudget,
    topologies: HolderBudget,
    answers: HolderBudget,
}

impl Default for Limits {
    fn default() -> Self {
        let of = |(all, maker, one)| HolderBudget::new(all, maker, one);
        Self { requests: of(REQUESTS), topologies: of(TOPOLOGIES), answers: of(ANSWERS) }
    }
}

/// Who has the request that is being answered; `None` outside of one, and for root on the controller's machine, who has no share.
pub(crate) fn holder() -> Option<Holder> {
    HOLDER.try_with(Clone::clone).ok().flatten()
}

/// Counts the octets of a request and of its answer for its caller, whose role is known to be enough.
pub(crate) async fn count(State(limits): State<Limits>, request: Request, next: Next) -> Response {
    let by = Caller::of(request.extensions()).await.principal;
    let is_root = by.uid == Some(0) && by.token.is_none() && by.via.is_none();
    let holder = caller::holder(&by);
    let is_head = request.method() == Method::HEAD;
    // Held until the request is answered, beyond the end of its body: what was read of it is still there.
    let budget = if is_topology(&request) { &limits.topologies } else { &limits.requests };
    let account = Arc::new(Mutex::new(budget.open(&holder)));
    let request = match request.body().is_end_stream() {
        true => request,
        false => request.map(|body| counted(body, account.clone())),
    };
    let response = HOLDER.scope((!is_root).then(|| holder.clone()), next.run(request)).await;
    drop(account);
    if is_head { response } else { taken(response, limits.answers.open(&holder)) }
}

/// Why a body was not read to its end.
#[derive(Debug)]
enum NotRead {
    Over(OverBudget),
    Late,
    Broken(axum::Error),
}

impl std::error::Error for NotRead {}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(over) => over.fmt(f),
            Self::Late => write!(f, "it was not there within {BODY_TIMEOUT:?}"),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

fn counted(body: Body, account: Arc<Mutex<HolderAccount>>) -> Body {
    let until = Instant::now() + BODY_TIMEOUT;
    let parts = futures::stream::unfold((body.into_data_stream(), account), move |(mut parts, account)| async move {
        let part = match timeout_at(until, parts.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(part))) => {
                let cost = part.len() + PART;
                let room = account.lock().unwrap_or_else(PoisonError::into_inner).take(cost);
                room.map(|()| part).map_err(NotRead::Over)
            }
            Ok(Some(Err(broken))) => Err(NotRead::Broken(broken)),
            Err(_) => Err(NotRead::Late),
        };
        Some((part, (parts, account)))
    });
    Body::from_stream(parts)
}

/// The refusal of a request whose body could not be read, if that is by a limit.
pub(crate) fn refusal(error: &(dyn std::error::Error + 'static)) -> Option<ApiError> {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let why = chain.filter_map(|error| error.downcast_ref::<NotRead>()).next()?;
    match why {
        NotRead::Over(over) => Some(over_budget(*over, Limit::RequestOctets, "bodies of requests")),
        NotRead::Late => {
            Limit::MessageTime.refuse();
            Some(ApiError::new(StatusCode::REQUEST_TIMEOUT, "BodyTimeout", format!("the body is not whole: {why}")))
        }
        NotRead::Broken(broken) => is_too_long(broken).then(|| {
            let detail = "the body is larger than this operation reads of a caller without a role";
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "BodyTooLarge", detail)
        }),
    }
}

fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source()).any(|error| error.is::<LengthLimitError>())
}

fn over_budget(over: OverBudget, limit: Limit, what: &str) -> ApiError {
    limit.refuse();
    let (status, code) = match over {
        OverBudget::Own { .. } => (StatusCode::TOO_MANY_REQUESTS, "TooManyOctets"),
        OverBudget::All(_) => (StatusCode::SERVICE_UNAVAILABLE, "Busy"),
    };
    ApiError::new(status, code, format!("too many octets of {what}: {over}; try again later")).after(LATER)
}

/// The answer, whose octets are its caller's until the connection has them.
fn taken(response: Response, mut account: HolderAccount) -> Response {
    let length = response.body().size_hint().exact().and_then(|length| usize::try_from(length).ok());
    let Some(length) = length.filter(|length| *length > SMALL_ANSWER) else { return response };
    // One that is larger than a caller's share can be taken, too, by a caller who has nothing else.
    if let Err(over) = account.take(length.min(ANSWERS.2 / 2)) {
        return over_budget(over, Limit::AnswerOctets, "answers").into_response();
    }
    let (mut head, body) = response.into_parts();
    head.headers.entry(CONTENT_LENGTH).or_insert(length.into());
    let parts = body.into_data_stream().flat_map(|part| futures::stream::iter(in_parts(part)));
    let held = parts.map(move |part| {
        let _ = &account;
        part
    });
    Response::from_parts(head, Body::from_stream(held))
}

fn in_parts(part: Result<Bytes, axum::Error>) -> impl Iterator<Item = Result<Bytes, BoxError>> {
    let (mut rest, mut error) = match part {
        Ok(part) => (part, None),
        Err(error) => (Bytes::new(), Some(error)),
    };
    std::iter::from_fn(move || match error.take() {
        Some(error) => Some(Err(error.into())),
        None if rest.is_empty() => None,
        None => Some(Ok(rest.split_to(rest.len().min(ANSWER_PART)))),
    })
}

/// A connection of a caller who has all of its connections.
pub(crate) fn too_many_connections(by: &Identity) -> Response {
    let detail = format!(
        "{} has as many connections as one caller, or all tokens of one user, may have: close one, or try again later",
        by.principal
    );
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyConnections", detail).after(LATER).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a list of a large domain that can never be had, and large answers that cost nothing.
    #[tokio::test]
    async fn an_answer_larger_than_a_share_is_given_to_who_has_nothing_else() {
        let limits = Limits::default();
        let answer = || Response::new(Body::from(vec![b'x'; ANSWERS.2 + 1]));
        let open = || limits.answers.open(&Holder { maker: "alice".into(), own: "alice".into() });
        let held = [taken(answer(), open()), taken(answer(), open())];
        assert!(held.iter().all(|response| response.status() == StatusCode::OK));
        assert_eq!(taken(answer(), open()).status(), StatusCode::TOO_MANY_REQUESTS);
        drop(held);
        assert_eq!(taken(answer(), open()).status(), StatusCode::OK);
    }
}
