// SPDX-License-Identifier: Apache-2.0
//! The token of an application's pod, by which agents in Kubernetes know their callers. It is sent with each call, and shown nowhere.

use std::env;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

/// Names the file in the environment. `canopyctl` has tokens of operators in a variable of this name: these are not sent.
const VARIABLE: &str = "CANOPY_TOKEN_FILE";
/// Longest token, octets; no agent takes a longer one.
const MAX_TOKEN: usize = 3 << 10;

/// Adds the token to each call of a client of the agent's socket. The file is read each time: Kubernetes replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodToken {
    /// Calls have none.
    None,
    /// Of the environment: an agent that knows users needs none, so that a file without one is no error here.
    Environment(PathBuf),
    /// What the application wants.
    File(PathBuf),
}

impl PodToken {
    /// That of `file`, or of the environment.
    pub fn of(file: Option<&Path>) -> Self {
        match (file, env::var_os(VARIABLE).filter(|path| !path.is_empty())) {
            (Some(file), _) => Self::File(file.to_owned()),
            (None, Some(path)) => Self::Environment(path.into()),
            (None, None) => Self::None,
        }
    }

    fn header(&self) -> Result<Option<MetadataValue<Ascii>>, Status> {
        match self {
            Self::None => Ok(None),
            Self::Environment(path) => Ok(read(path).ok()),
            // The message has the path, and nothing of the content.
            Self::File(path) => read(path)
                .map(Some)
                .map_err(|error| Status::invalid_argument(format!("token_file: {}: {error}", path.display()))),
        }
    }
}

impl Interceptor for PodToken {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(bearer) = self.header()? {
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }
}

fn read(path: &Path) -> io::Result<MetadataValue<Ascii>> {
    let mut text = String::new();
    // With what ends the line.
    File::open(path)?.take(MAX_TOKEN as u64 + 2).read_to_string(&mut text)?;
    let token = text.trim();
    let bearer = is_token(token).then(|| format!("Bearer {token}").parse().ok()).flatten();
    let mut bearer: MetadataValue<Ascii> = bearer.ok_or_else(|| io::Error::other("it has no token of a pod"))?;
    bearer.set_sensitive(true);
    Ok(bearer)
}

/// Whether it is one of Kubernetes: a JWT (RFC 7519), three parts in base64url.
fn is_token(text: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    text.len() <= MAX_TOKEN && text.split('.').count() == 3 && text.split('.').all(is_part)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGci.eyJpc3Mi.c2ln-_";

    /// Catches a token that is read once, one that an error or a debug form shows, and an operator's that is sent to an agent.
    #[test]
    fn the_token_is_read_for_each_call_and_shown_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let explicit = PodToken::of(Some(&path));
        let environment = PodToken::Environment(path.clone());
        let sent = |of: &PodToken| {
            let request = of.clone().call(Request::new(()))?;
            let shown = format!("{request:?}");
            assert!(!shown.contains("eyJ"), "{shown}");
            let bearer = request.metadata().get("authorization");
            Ok::<_, Status>(bearer.map(|value| value.to_str().unwrap().to_owned()))
        };
        let missing = sent(&explicit).unwrap_err();
        assert!(
            missing.code() == tonic::Code::InvalidArgument && missing.message().starts_with("token_file: "),
            "{missing}"
        );
        assert_eq!(sent(&environment).unwrap(), None, "an agent that knows users needs none");
        for _ in 0..2 {
            std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
            for of in [&explicit, &environment] {
                assert_eq!(sent(of).unwrap().unwrap(), format!("Bearer {TOKEN}"));
            }
            for bad in [
                "",
                "canopy_pat_Zm9v",
                "a.b",
                "a.b.c.d",
                "a..c",
                "a.b.c d",
                "a.b.\u{e4}",
                &format!("{TOKEN}{}", "x".repeat(MAX_TOKEN)),
            ] {
                std::fs::write(&path, bad).unwrap();
                let refused = sent(&explicit).unwrap_err().to_string();
                assert!(
                    refused.contains("no token of a pod") && (bad.is_empty() || !refused.contains(bad)),
                    "{refused}"
                );
                assert_eq!(sent(&environment).unwrap(), None, "{bad}");
            }
        }
        assert_eq!(sent(&PodToken::None).unwrap(), None);
    }
}
