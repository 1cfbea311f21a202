// SPDX-License-Identifier: Apache-2.0
//! `enroll`: the first certificate of an agent, by a token.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use canopy_agent_link::Target;
use canopy_identity::Subject;

/// Gets this agent's first certificate, with the token in a file; "-" is standard input.
///
/// # Errors
/// There is no token, the controller is not reached or refuses, or the directory cannot be written.
pub async fn enroll(
    controller: &Target,
    state_dir: &Path,
    identity: &Path,
    subject: &Subject,
    token_file: &Path,
) -> anyhow::Result<()> {
    let read = match token_file.to_str() {
        Some("-") => std::io::read_to_string(std::io::stdin()),
        _ => std::fs::read_to_string(token_file),
    };
    let token = read.with_context(|| format!("--token-file {}", token_file.display()))?.parse()?;
    let certificate = canopy_agent_link::enroll(controller, identity, subject, token).await;
    let certificate = certificate.with_context(|| format!("enrolling {subject} at {controller}"))?;
    give_to_owner(state_dir, identity).context("giving the certificate to the agent's user")?;
    let days = left(certificate.not_after).as_secs_f64() / 86_400.0;
    println!(
        "enrolled as {subject} of domain {}; the certificate in {} is valid for {days:.1} days, and a running agent renews it",
        certificate.domain,
        identity.display()
    );
    Ok(())
}

/// What root enrolls is read by the user whose state directory it is.
fn give_to_owner(state_dir: &Path, identity: &Path) -> std::io::Result<()> {
    let owner = std::fs::metadata(state_dir)?;
    let files = std::fs::read_dir(identity)?.map(|entry| entry.map(|entry| entry.path()));
    for path in files.collect::<Result<Vec<_>, _>>()?.iter().map(PathBuf::as_path).chain([identity]) {
        // Of an earlier enrollment the directory may have its owner already, and the new files not.
        if std::fs::symlink_metadata(path)?.uid() != owner.uid() {
            std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid()))?;
        }
    }
    Ok(())
}

fn left(until: canopy_units::UnixTime) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(canopy_units::UnixTime::now().nanos()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    /// Catches files of a second enrollment that stay with root because the directory has its owner already. Needs root, as the agent does.
    #[test]
    fn what_root_enrolls_belongs_to_the_owner_of_the_state_directory() {
        const AGENT: u32 = 54_321;
        let state = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(state.path(), Some(AGENT), Some(AGENT)).unwrap();
        let identity = state.path().join("identity");
        std::fs::create_dir(&identity).unwrap();
        for file in ["key.pem", "certificate.pem"] {
            std::fs::write(identity.join(file), "").unwrap();
            give_to_owner(state.path(), &identity).unwrap();
            for path in [identity.clone(), identity.join(file)] {
                let found = std::fs::metadata(&path).unwrap();
                assert_eq!((found.uid(), found.gid()), (AGENT, AGENT), "{}", path.display());
            }
        }
    }
}
