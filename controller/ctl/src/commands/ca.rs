// SPDX-License-Identifier: Apache-2.0
//! `ca status|rotate|issue|finish|cancel`.

use std::io::Write;

use canopy_controller_api::authority::{
    Authority, AuthorityAgent, AuthorityReplacement, AuthorityRequest, AuthorityStep, ReplacementStep,
};
use canopy_model::rfc3339;
use canopy_units::UnixTime;
use serde_json::{Value, json};

use crate::cli::{CaAction, LossArgs};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{self, text};

const PATH: &str = "/api/v1/authority";

/// Executes the command.
///
/// # Errors
/// The controller cannot be reached, or refused.
pub async fn run(client: &Client, action: &CaAction, out: &mut dyn Write) -> Result<(), Failure> {
    let none = LossArgs { accept_loss: vec![] };
    let (step, loss, doing) = match action {
        CaAction::Status { json: true } => {
            let shown: Value = client.get("asking for the authority", PATH).await?;
            return output::json(out, &shown);
        }
        CaAction::Status { json: false } => return show(&client.get("asking for the authority", PATH).await?, out),
        CaAction::Rotate => (AuthorityStep::Rotate, &none, "making the next authority"),
        CaAction::Issue(loss) => (AuthorityStep::Issue, loss, "letting the next authority sign"),
        CaAction::Finish(loss) => (AuthorityStep::Finish, loss, "ending the trust in the former authority"),
        CaAction::Cancel => (AuthorityStep::Cancel, &none, "dropping the next authority"),
    };
    let body = json!(AuthorityRequest { step, accept_loss: loss.accept_loss.clone() });
    show(&client.post(doing, PATH, &body).await?, out)
}

fn show(shown: &Authority, out: &mut dyn Write) -> Result<(), Failure> {
    let Authority { authority, replacement, listed_since_unix_ns: _, agents } = shown;
    writeln!(out, "Authority:    {}", text(authority))?;
    let ready = agents.iter().filter(|agent| agent.ready).count();
    match replacement {
        None => writeln!(out, "Replacement:  none")?,
        Some(AuthorityReplacement { step, since_unix_ns, from, to, waits_for }) => {
            let (step, next) = match step {
                ReplacementStep::Announced => ("announced", "canopyctl ca issue"),
                ReplacementStep::Issuing => ("issuing", "canopyctl ca finish"),
            };
            let since = rfc3339::format(UnixTime::from_nanos(*since_unix_ns));
            writeln!(out, "Replacement:  {step} since {}", text(since))?;
            writeln!(out, "  from:       {}", text(from))?;
            writeln!(out, "  to:         {}", text(to))?;
            match waits_for.len() {
                0 => writeln!(out, "  next:       {next}")?,
                count => writeln!(out, "  next:       {next}, which waits for {count}")?,
            }
        }
    }
    writeln!(out, "Agents:       {ready} of {} are ready", agents.len())?;
    for AuthorityAgent { subject, connected, trusts, .. } in agents.iter().filter(|agent| !agent.ready) {
        let place = if *connected { "connected" } else { "away" };
        let why =
            if *trusts { "has a certificate of the former authority" } else { "does not trust the new authority yet" };
        writeln!(out, "  {}: {place}, {why}", text(subject))?;
    }
    let known: Vec<&str> = agents.iter().filter(|agent| !agent.enrolled).map(|agent| agent.subject.as_str()).collect();
    if !known.is_empty() {
        let names = text(known.join(", "));
        writeln!(out, "Not enrolled here, known by the keys that they have shown: {names}")?;
    }
    for (agent, since) in agents.iter().filter_map(|agent| Some((agent, agent.other_key_unix_ns?))) {
        let (subject, since) = (text(&agent.subject), rfc3339::format(UnixTime::from_nanos(since)));
        let (kind, name) = agent.subject.split_once('/').unwrap_or(("node", &agent.subject));
        writeln!(
            out,
            "Two keys in one name: {subject}, since {since}; unless it was enrolled again then, another machine has a certificate of it: canopyctl {} revoke {}, then enroll it",
            text(kind),
            text(name)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_names_who_is_waited_for_and_the_next_command() {
        let agent = |subject: &str, connected, ready, trusts| AuthorityAgent {
            subject: subject.into(),
            connected,
            ready,
            trusts,
            authority: "a".into(),
            not_after_unix_ns: 0,
            enrolled: subject != "node/n2",
            other_key_unix_ns: (subject == "host/r1").then_some(0),
        };
        let replacement = AuthorityReplacement {
            step: ReplacementStep::Issuing,
            since_unix_ns: 0,
            from: "a".into(),
            to: "b".into(),
            waits_for: vec!["host/r1".into(), "node/n1".into()],
        };
        let shown = Authority {
            authority: "b".into(),
            replacement: Some(replacement),
            listed_since_unix_ns: 0,
            agents: vec![
                agent("host/r1", false, false, false),
                agent("node/n1", true, false, true),
                agent("node/n2", true, true, true),
            ],
        };
        let mut out = Vec::new();
        show(&shown, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("canopyctl ca finish, which waits for 2"), "{out}");
        assert!(out.contains("host/r1: away, does not trust") && out.contains("1 of 3 are ready"), "{out}");
        assert!(
            out.contains("node/n1: connected, has a certificate of the former") && !out.contains("node/n2:"),
            "{out}"
        );
        assert!(out.contains("by the keys that they have shown: node/n2\n"), "{out}");
        assert!(
            out.contains("host/r1, since 1970-01-01T00:00:00") && out.contains("canopyctl host revoke r1,"),
            "{out}"
        );
    }
}
