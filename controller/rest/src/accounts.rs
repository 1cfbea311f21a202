// SPDX-License-Identifier: Apache-2.0
//! Callers that show a token of another authority than this controller: service accounts of Kubernetes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use canopy_controller_access::{Identity, Tokens};

use crate::error::ApiError;

type Naming = Pin<Box<dyn Future<Output = Result<Identity, NotNamed>> + Send>>;

/// What authenticates a request besides its connection and a session.
#[derive(Clone, Default)]
pub struct Credentials {
    /// Tokens that users of this controller have made.
    pub tokens: Arc<Tokens>,
    /// Tokens of Kubernetes; `None`: none is accepted.
    pub accounts: Option<Accounts>,
}

/// Who the tokens of service accounts are of.
#[derive(Clone)]
pub struct Accounts(Arc<dyn Fn(String) -> Naming + Send + Sync>);

/// Why a token names no caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotNamed {
    /// It does not work, or its account has no role.
    NotValid(String),
    /// That cannot be found out now.
    Unavailable(String),
}

impl Accounts {
    /// `name` returns who a token is of; it is asked for each request and, while a stream lasts, again and again.
    pub fn new<F>(name: impl Fn(String) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Identity, NotNamed>> + Send + 'static,
    {
        Self(Arc::new(move |token| Box::pin(name(token))))
    }

    pub(crate) async fn identity(&self, token: &str) -> Result<Identity, NotNamed> {
        (self.0)(token.to_owned()).await
    }
}

impl IntoResponse for NotNamed {
    fn into_response(self) -> Response {
        match self {
            Self::NotValid(why) => refused_token(why),
            Self::Unavailable(why) => {
                ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "TokenNotConfirmed", why).into_response()
            }
        }
    }
}

/// The answer to a token that does not work.
pub(crate) fn refused_token(detail: impl Into<String>) -> Response {
    let error = ApiError::new(StatusCode::UNAUTHORIZED, "TokenNotValid", detail);
    ([(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"invalid_token\""))], error).into_response()
}
