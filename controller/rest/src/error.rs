// SPDX-License-Identifier: Apache-2.0
//! Maps every refusal of this API to a status code, a stable code word, and the invalid fields.

use axum::http::header::RETRY_AFTER;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use canopy_controller_actor::CommandError;
use canopy_controller_api::problem::Extensions;
use canopy_controller_core::DomainError;
use canopy_model::{FieldError, FieldErrors};
use canopy_store::StoreError;
use problem_details::ProblemDetails;

use crate::request;

/// A refused request.
#[derive(Clone, Debug)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    /// Seconds after which the same request may succeed.
    retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal that is not about a field.
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// A body with invalid content (422).
    pub fn invalid(errors: impl Into<FieldErrors>) -> Self {
        let errors = errors.into();
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            code: "Invalid",
            detail: "the resource is not valid".into(),
            errors: errors.0,
            retry_after: None,
        }
    }

    /// A query parameter or header that cannot be parsed (400).
    pub fn bad_request(field: &str, detail: impl Into<String>) -> Self {
        let error = FieldError::new(field, detail);
        Self {
            status: StatusCode::BAD_REQUEST,
            code: "BadRequest",
            detail: "the request cannot be understood".into(),
            errors: vec![error],
            retry_after: None,
        }
    }

    /// The same refusal for a caller who may try again after so many seconds.
    #[must_use]
    pub(crate) fn after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// No such resource (404).
    pub fn not_found(kind: &'static str, name: impl Into<String>) -> Self {
        DomainError::NotFound { kind, name: name.into() }.into()
    }

    /// Nothing is served at this path (404).
    pub(crate) fn no_route(uri: &Uri) -> Self {
        let detail = format!("nothing is served at {}: see /api/v1/openapi.json", uri.path());
        Self::new(StatusCode::NOT_FOUND, "NotFound", detail)
    }

    /// Prefixes every field name, for items of a list.
    pub fn inside(mut self, prefix: &str) -> Self {
        for e in &mut self.errors {
            e.field = format!("{prefix}.{}", e.field);
        }
        self.detail = format!("{prefix}: {}", self.detail);
        self
    }
}

impl From<FieldErrors> for ApiError {
    fn from(errors: FieldErrors) -> Self {
        Self::invalid(errors)
    }
}

impl From<DomainError> for ApiError {
    fn from(e: DomainError) -> Self {
        let status = match &e {
            DomainError::Invalid(errors) => return Self::invalid(errors.clone()),
            DomainError::NotFound { .. } => StatusCode::NOT_FOUND,
            DomainError::AlreadyExists { .. } | DomainError::InUse { .. } => StatusCode::CONFLICT,
            DomainError::Conflict { .. } => StatusCode::PRECONDITION_FAILED,
            DomainError::Limit(_) | DomainError::Quota { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            DomainError::Stale { .. } => StatusCode::SERVICE_UNAVAILABLE,
        };
        Self::new(status, e.code(), e.to_string())
    }
}

impl From<CommandError> for ApiError {
    fn from(e: CommandError) -> Self {
        let detail = e.to_string();
        match e {
            CommandError::Domain(e) => e.into(),
            CommandError::Precondition { .. } => {
                Self::new(StatusCode::PRECONDITION_FAILED, "PreconditionFailed", detail)
            }
            CommandError::CommitPending { .. } | CommandError::DomainCommitPending { .. } => {
                Self::new(StatusCode::CONFLICT, "CommitPending", detail)
            }
            CommandError::CommitEnded { .. } => Self::new(StatusCode::CONFLICT, "CommitEnded", detail),
            CommandError::ChangeSetActive { .. } => Self::new(StatusCode::CONFLICT, "ChangeSetActive", detail),
            CommandError::ChangeSetUndone { .. } => Self::new(StatusCode::CONFLICT, "ChangeSetUndone", detail),
            CommandError::NotReversible { .. } => Self::new(StatusCode::CONFLICT, "NotReversible", detail),
            CommandError::KeyReused { .. } => Self {
                errors: vec![FieldError::new("Idempotency-Key", "was sent with another write")],
                ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, "IdempotencyKeyReused", detail)
            },
            CommandError::TooFast { too_fast, .. } => Self {
                // In whole seconds: not before the time.
                retry_after: Some(u32::try_from(too_fast.wait.as_secs()).unwrap_or(u32::MAX - 1) + 1),
                ..Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyChanges", detail)
            },
            CommandError::ManagedBy { .. } => Self::new(StatusCode::CONFLICT, "ManagedBy", detail),
            CommandError::NotTheManager { .. } => {
                Self::invalid(FieldError::new("metadata.labels[canopy/managed-by]", detail))
            }
            CommandError::NoRoleInTenant { .. } | CommandError::OfDomain => {
                Self::new(StatusCode::FORBIDDEN, "RoleNeeded", detail)
            }
            CommandError::Outlived { .. } => Self::new(StatusCode::CONFLICT, "Outlived", detail),
            CommandError::CommitTimeout(_) => Self::invalid(FieldError::new("timeoutSeconds", detail)),
            CommandError::PlanChanged { .. } => Self::new(StatusCode::PRECONDITION_FAILED, "PlanChanged", detail),
            CommandError::Store(StoreError::Limit(why)) => Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Limit", why),
            CommandError::Store(e @ StoreError::Full { .. }) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "StoreFull", e.to_string())
            }
            CommandError::Store(e) => {
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, "StoreFailed", format!("{detail}: {e}"))
            }
            CommandError::Stopping => Self::new(StatusCode::SERVICE_UNAVAILABLE, "Stopping", detail),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        // What a caller is to try again is of its own making, and not to fill the log.
        if self.status.is_server_error() && self.retry_after.is_none() {
            tracing::error!(status = self.status.as_u16(), code = self.code, detail = self.detail, "request failed");
        } else {
            // Without the text, which repeats what was sent: that may be a credential in the wrong place.
            let fields: Vec<&str> = self.errors.iter().map(|error| error.field.as_str()).collect();
            tracing::debug!(status = self.status.as_u16(), code = self.code, ?fields, "request refused");
        }
        let extensions = Extensions {
            code: self.code.into(),
            errors: self.errors,
            request_id: request::current().map(|id| id.to_string()),
        };
        let problem =
            ProblemDetails::from_status_code(self.status).with_detail(self.detail).with_extensions(extensions);
        match self.retry_after {
            Some(seconds) => ([(RETRY_AFTER, seconds.to_string())], problem).into_response(),
            None => problem.into_response(),
        }
    }
}
