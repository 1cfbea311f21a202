// SPDX-License-Identifier: Apache-2.0
//! `canopy-agent host doctor`: what the agent of a host needs.

use std::path::Path;
use std::time::Duration;

use canopy_agent_link::{Target, reach};
use canopy_identity::{Credentials, Subject};
use canopy_machine::{Check, Machine};
use canopy_units::UnixTime;

use crate::host_agent::config::HostConfig;

/// Examines this machine for the agent of this host, and whether its controller answers it.
pub async fn host(config: &HostConfig) -> Vec<Check> {
    let reached = reach(&config.controller, &config.identity()).await;
    vec![
        certificate(config),
        Check::new("controller", format!("{} {}", config.controller, answer(&reached)), reached.is_ok(), || {
            "start the controller, add this address to its grpc.listen, correct `controller` here, or let TCP to it through".into()
        }),
        writable("state_dir", &config.state_dir),
        writable("directory of host_socket.path", config.host_socket.path.parent().unwrap_or(Path::new("/"))),
        group(&config.host_socket.group),
    ]
}

fn certificate(config: &HostConfig) -> Check {
    let name = &config.host;
    let (found, is_good) = match (&config.controller, Credentials::load(&config.identity())) {
        (Target::Unix(_), _) => ("not needed at a socket of this machine".to_owned(), true),
        (_, Ok(None)) => (format!("none in {}", config.identity().display()), false),
        (_, Err(error)) => (error.to_string(), false),
        (_, Ok(Some(own))) => {
            let (subject, end) = (own.certificate.subject, own.certificate.not_after);
            let left = Duration::from_nanos(end.nanos().saturating_sub(UnixTime::now().nanos()));
            let days = left.as_secs_f64() / 86_400.0;
            let is_good = subject == Subject::Host(name.clone()) && !left.is_zero();
            (format!("of {subject}, valid for {days:.1} days"), is_good)
        }
    };
    Check::new("certificate", found, is_good, || {
        format!(
            "canopyctl host enroll {name} | ssh {name} canopy-agent host enroll --host {name} --controller https://HOST:PORT"
        )
    })
}

fn answer(reached: &Result<(), canopy_agent_link::IdentityError>) -> String {
    reached.as_ref().map_or_else(|error| format!("does not: {error}"), |()| "answers this agent".to_owned())
}

fn writable(name: &'static str, directory: &Path) -> Check {
    Machine::at(Path::new("/")).writable(name, directory, || {
        "start it as canopy-host-agent.service does, which makes the directories for its user".to_owned()
    })
}

fn group(name: &str) -> Check {
    let found = canopy_daemon::socket::group(name);
    let shown = match (&found, name) {
        (Err(why), _) => why.clone(),
        (Ok(_), "") => "the agent's own".to_owned(),
        (Ok(_), name) => name.to_owned(),
    };
    Check::new("host_socket.group", shown, found.is_ok(), || format!("groupadd --system {name}, or set another group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(checks: &[Check]) -> Vec<&'static str> {
        checks.iter().filter(|check| !check.is_met()).map(|check| check.name).collect()
    }

    #[tokio::test]
    async fn what_is_missing_is_named_with_the_command_that_gets_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = HostConfig::defaults("r1");
        config.state_dir = dir.path().join("state");
        config.host_socket.path = dir.path().join("host.sock");
        config.controller = "https://127.0.0.1:1".parse().unwrap();
        let checks = host(&config).await;
        assert_eq!(failed(&checks), ["certificate", "controller"]);
        assert!(checks[0].fix().is_some_and(|fix| fix.starts_with("canopyctl host enroll r1")), "{checks:?}");
        // Without a certificate nothing is sent.
        assert!(checks[1].found.contains("enroll this agent"), "{checks:?}");
        config.controller = format!("unix:{}", dir.path().join("none.sock").display()).parse().unwrap();
        config.host_socket.group = "no-such-group".into();
        std::fs::write(&config.state_dir, "").unwrap();
        assert_eq!(failed(&host(&config).await), ["controller", "state_dir", "host_socket.group"]);
    }
}
