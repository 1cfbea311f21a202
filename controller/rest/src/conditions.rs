// SPDX-License-Identifier: Apache-2.0
//! What every write has besides its command: who sends it, and under which conditions it is carried out (RFC 9110 section 13.1).

use axum::extract::FromRequestParts;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use canopy_controller_actor::{Manager, Order, Precondition};
use canopy_controller_api::query::WriteQuery;
use canopy_controller_core::Command;
use canopy_controller_core::principal::Principal;
use canopy_controller_core::role::Role;
use canopy_controller_core::tenant::Scope;
use canopy_model::labels::MAX_LABEL_WORD;

use crate::caller::Caller;
use crate::error::ApiError;
use crate::extract::ApiQuery;
use crate::request;

/// Names the changes and effects that a write may have: those of a dry run.
const IF_PLAN_MATCH: HeaderName = HeaderName::from_static("if-plan-match");

/// Names the pending commit that a write is a part of.
const CANOPY_COMMIT: HeaderName = HeaderName::from_static("canopy-commit");

/// Names a write, so that it can be sent again (draft-ietf-httpapi-idempotency-key-header-07).
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Names the manager that a write is of.
const CANOPY_MANAGER: HeaderName = HeaderName::from_static("canopy-manager");
/// In its place: the resource has no manager from then on.
const TAKE_OVER: &str = "take-over";
/// Longest key, characters.
const MAX_KEY: usize = 128;

/// Sender and conditions of a write.
#[derive(Clone, Debug)]
pub(crate) struct Conditions {
    pub(crate) by: Principal,
    /// See [`Order::scope`].
    pub(crate) scope: Scope,
    pub(crate) precondition: Precondition,
    pub(crate) plan: Option<String>,
    pub(crate) commit: Option<String>,
    /// See [`Order::manager`].
    pub(crate) manager: Manager,
    /// See [`Order::key`].
    pub(crate) key: Option<String>,
    pub(crate) dry_run: bool,
}

impl Conditions {
    /// `command` under these conditions.
    pub(crate) fn order(self, command: Command) -> Order {
        let Self { by, scope, precondition, plan, commit, manager, key, dry_run } = self;
        Order {
            scope,
            precondition,
            plan,
            commit,
            manager,
            key,
            dry_run,
            request: request::current(),
            trace: request::trace(),
            ..Order::new(command, by)
        }
    }
}

impl Conditions {
    /// The sender of a request that has neither conditions nor a dry run: ignoring them would act against the caller's will.
    ///
    /// # Errors
    /// 400 with the name of the one that was sent.
    pub(crate) fn unconditional(self) -> Result<Principal, ApiError> {
        let field = if self.dry_run {
            "dryRun"
        } else if self.plan.is_some() {
            "If-Plan-Match"
        } else if self.precondition != Precondition::None {
            "If-Match"
        } else {
            return Ok(self.by);
        };
        Err(ApiError::bad_request(field, "is not supported here: leave it out"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Conditions {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let ApiQuery(query) = ApiQuery::<WriteQuery>::from_request_parts(parts, state).await?;
        let precondition = precondition(&parts.headers)?;
        let identity = Caller::of(&parts.extensions).await;
        let (scope, by) = (identity.scope(Role::Operator), identity.principal);
        let plan = digits(&parts.headers, IF_PLAN_MATCH, "If-Plan-Match", "the `plan` of a dry run")?;
        let commit = digits(&parts.headers, CANOPY_COMMIT, "Canopy-Commit", "the id of the pending commit")?;
        let (manager, key) = (manager(&parts.headers)?, key(&parts.headers)?);
        Ok(Self { by, scope, precondition, plan, commit, manager, key, dry_run: query.dry_run })
    }
}

/// A manager is the value of a label.
fn manager(headers: &HeaderMap) -> Result<Manager, ApiError> {
    let Some(value) = headers.get(CANOPY_MANAGER) else { return Ok(Manager::None) };
    let text = value.to_str().unwrap_or("").trim();
    let is_one = (1..=MAX_LABEL_WORD).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    match text {
        TAKE_OVER => Ok(Manager::TakesOver),
        name if is_one => Ok(Manager::Named(name.to_owned())),
        _ => Err(ApiError::bad_request(
            "Canopy-Manager",
            format!(
                "{text:?} is neither {TAKE_OVER} nor a name of 1 to {MAX_LABEL_WORD} letters, digits, '-', '_' or '.'"
            ),
        )),
    }
}

/// The key of a write: a string as in RFC 8941 section 3.3.3, without escapes, or the same without its quotes.
fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = all.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or("").trim();
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = quoted.unwrap_or(text);
    let is_allowed = |b: u8| matches!(b, b'!'..=b'~' if b != b'"' && b != b'\\') || (b == b' ' && quoted.is_some());
    if all.next().is_none() && (1..=MAX_KEY).contains(&key.len()) && key.bytes().all(is_allowed) {
        return Ok(Some(key.to_owned()));
    }
    let detail = format!(
        "is not one string of 1 to {MAX_KEY} printable ASCII characters: draw a key for each write, such as \"8e03978e-40d5-43dd-bc93-6894a57f9324\""
    );
    Err(ApiError::bad_request("Idempotency-Key", detail))
}

/// A header of 16 hexadecimal digits.
fn digits(headers: &HeaderMap, name: HeaderName, field: &str, what: &str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().unwrap_or("").trim();
    if text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(Some(text.to_owned()));
    }
    Err(ApiError::bad_request(field, format!("{text:?} is not 16 hexadecimal digits: send {what}")))
}

fn precondition(headers: &HeaderMap) -> Result<Precondition, ApiError> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("").trim());
    match (text(IF_MATCH), text(IF_NONE_MATCH)) {
        (None, None) => Ok(Precondition::None),
        (Some("*"), None) => Ok(Precondition::Exists),
        (Some(text), None) => tag(text).map(Precondition::Tag).ok_or_else(|| {
            let detail = format!("{text:?} is not one ETag as this API sends it, for example \"01234567-89ab-8def-8123-456789abcdef.7\", nor *");
            ApiError::bad_request("If-Match", detail)
        }),
        (None, Some("*")) => Ok(Precondition::Absent),
        (None, Some(text)) => {
            Err(ApiError::bad_request("If-None-Match", format!("{text:?} is not supported: only * is, which creates and never replaces")))
        }
        (Some(_), Some(_)) => Err(ApiError::bad_request("If-None-Match", "contradicts If-Match: send one of them")),
    }
}

/// One strong entity tag.
fn tag(text: &str) -> Option<String> {
    let tag = text.strip_prefix('"')?.strip_suffix('"')?;
    (!tag.is_empty() && tag.bytes().all(|b| b.is_ascii_graphic() && b != b'"')).then(|| tag.to_owned())
}
