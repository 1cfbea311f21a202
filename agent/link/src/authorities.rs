// SPDX-License-Identifier: Apache-2.0
//! The controller's instructions while one authority replaces another: what to trust, and when to renew.

use std::path::Path;
use std::time::Duration;

use canopy_control::pb;
use canopy_control::pb::identity_service_client::IdentityServiceClient;
use canopy_identity::{Credentials, CredentialsError};
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::answer::within;
use crate::{Backoff, Random};

/// How often a controller of an earlier version is asked whether it has this call.
const UNIMPLEMENTED: Duration = Duration::from_secs(60);

/// The stream of instructions, opened again whenever the directory has something else than the controller knows.
pub(crate) struct Authorities {
    client: IdentityServiceClient<Channel>,
    random: Random,
    backoff: Backoff,
    retry_at: Instant,
    open: Option<(pb::FollowAuthoritiesRequest, Streaming<pb::FollowAuthoritiesResponse>)>,
}

impl Authorities {
    pub(crate) fn new(channel: Channel, random: Random) -> Self {
        Self {
            client: IdentityServiceClient::new(channel),
            random,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
            retry_at: Instant::now(),
            open: None,
        }
    }

    /// Follows the controller until it has an instruction, which is carried out as far as it concerns trust. Returns within which time to
    /// renew the certificate, if it is to be. A call after one that was cancelled continues with the same stream.
    pub(crate) async fn next(
        &mut self,
        own: &Credentials,
        directory: &Path,
    ) -> Result<Option<Duration>, CredentialsError> {
        let request = request(own);
        if self.open.as_ref().is_some_and(|(reported, _)| *reported != request) {
            self.open = None;
        }
        let message = loop {
            match self.message(&request).await {
                Ok(message) => break message,
                Err(status) => self.wait(&status),
            }
        };
        self.backoff.reset();
        let pb::FollowAuthoritiesResponse { authorities, renew_within_ns } = message;
        if !authorities.is_empty() {
            let count = authorities.len();
            // Sent again, if it cannot be stored now.
            Credentials::trust(directory, authorities).inspect_err(|_| self.open = None)?;
            tracing::info!(subject = %own.certificate.subject, authorities = count, "stored the authorities to trust from now on");
        }
        Ok((renew_within_ns > 0).then(|| Duration::from_nanos(renew_within_ns)))
    }

    async fn message(
        &mut self,
        request: &pb::FollowAuthoritiesRequest,
    ) -> Result<pb::FollowAuthoritiesResponse, Status> {
        if self.open.is_none() {
            tokio::time::sleep_until(self.retry_at).await;
            let stream = within(self.client.follow_authorities(request.clone())).await?;
            self.open = Some((request.clone(), stream));
        }
        let Some((_, stream)) = &mut self.open else { return Err(Status::aborted("not open")) };
        stream.message().await?.ok_or_else(|| Status::unavailable("the controller closed the stream"))
    }

    fn wait(&mut self, status: &Status) {
        self.open = None;
        let pause = match status.code() {
            Code::Unimplemented => UNIMPLEMENTED,
            _ => self.backoff.next_delay((self.random)()),
        };
        self.retry_at = Instant::now() + pause;
        tracing::debug!(reason = %crate::brief(status), ?pause, "not following the controller's authorities");
    }
}

fn request(own: &Credentials) -> pb::FollowAuthoritiesRequest {
    let trusted = own.trusted().unwrap_or_default().iter().map(|hash| hash.0.to_vec()).collect();
    pb::FollowAuthoritiesRequest { trusted, certificate: own.chain.first().map(|der| der.to_vec()).unwrap_or_default() }
}
