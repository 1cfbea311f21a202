// SPDX-License-Identifier: Apache-2.0
//! `enroll`: the first certificate of an agent, by a token.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::leaving::Mark;
use anyhow::Context;
use canopy_agent_link::Target;
use canopy_identity::Subject;
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

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
    become_owner(state_dir).with_context(|| format!("becoming the owner of {}", state_dir.display()))?;
    let certificate = canopy_agent_link::enroll(controller, identity, subject, token).await;
    let certificate = certificate.with_context(|| format!("enrolling {subject} at {controller}"))?;
    let days = left(certificate.not_after).as_secs_f64() / 86_400.0;
    let was_gone = Mark::remove(state_dir)?;
    println!(
        "enrolled as {subject} of domain {}; the certificate in {} is valid for {days:.1} days, and a running agent renews it",
        certificate.domain,
        identity.display()
    );
    if was_gone {
        println!(
            "this node had left the domain: start its agent, which stays stopped until then (systemctl start canopy-agent)"
        );
    }
    Ok(())
}

/// Root becomes the user whose state directory it is: what that user may have put there, a link to a directory of the system for one, is
/// written to with the rights of that user alone.
fn become_owner(state_dir: &Path) -> anyhow::Result<()> {
    let Ok(owner) = std::fs::metadata(state_dir) else { return Ok(()) };
    if !Uid::effective().is_root() || owner.uid() == 0 {
        return Ok(());
    }
    setgroups(&[])?;
    setgid(Gid::from_raw(owner.gid()))?;
    setuid(Uid::from_raw(owner.uid()))?;
    Ok(())
}

fn left(until: canopy_units::UnixTime) -> Duration {
    Duration::from_nanos(until.nanos().saturating_sub(canopy_units::UnixTime::now().nanos()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use super::*;

    /// No test of its own: the other one starts it, because a process that has become another user stays that.
    #[test]
    fn child() {
        let Some(directory) = std::env::var_os("ENROLL_IN").map(PathBuf::from) else { return };
        become_owner(&directory).unwrap();
        println!("written: {}", std::fs::write(directory.join("identity/key.pem"), "secret").is_ok());
    }

    /// Catches an agent that was broken into and becomes root by the next enrollment: its directory of certificates is a link to one of the
    /// system. And files that stay with root, which the agent cannot read. Needs root, as the agent does.
    #[test]
    fn root_enrolls_with_the_rights_of_the_owner_of_the_state_directory_alone() {
        const AGENT: u32 = 54_321;
        let run = |directory: &Path| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "program::enrolling::tests::child", "--nocapture"]).env("ENROLL_IN", directory);
            let out = String::from_utf8(child.output().unwrap().stdout).unwrap();
            assert!(out.contains("written: "), "{out}");
            out.contains("written: true")
        };
        let (state, system) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let give = |path: &Path| std::os::unix::fs::chown(path, Some(AGENT), Some(AGENT)).unwrap();
        give(state.path());
        let identity = state.path().join("identity");
        std::fs::create_dir(&identity).unwrap();
        give(&identity);
        assert!(run(state.path()));
        let key = std::fs::metadata(identity.join("key.pem")).unwrap();
        assert_eq!((key.uid(), key.gid()), (AGENT, AGENT));
        std::fs::remove_dir_all(&identity).unwrap();
        std::os::unix::fs::symlink(system.path(), &identity).unwrap();
        assert!(!run(state.path()));
        assert_eq!(std::fs::read_dir(system.path()).unwrap().count(), 0);
        assert_eq!(std::fs::metadata(system.path()).unwrap().uid(), 0);
    }
}
