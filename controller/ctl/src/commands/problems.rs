// SPDX-License-Identifier: Apache-2.0
//! Problems as text: the cause first, then what was seen, what it affects, and what to do.

use std::io::Write;
use std::time::Duration;

use canopy_controller_api::health::{ObjectKind, ObjectRef, ProblemItem, ProblemRef, Severity};

use canopy_controller_api::silence::SilenceRef;
use canopy_model::rfc3339;
use canopy_units::UnixTime;

use crate::failure::Failure;
use crate::output::text;

/// Affected objects that are named.
const NAMED: usize = 5;

/// `group demo`; a membership's is `receiver r3 of group demo`.
pub(super) fn object(of: &ObjectRef) -> String {
    let name = text(&of.name);
    match of.kind {
        ObjectKind::Controller => "the controller".to_owned(),
        ObjectKind::Member => match name.split_once('/') {
            Some((group, host)) => format!("receiver {host} of group {group}"),
            None => format!("receiver {name}"),
        },
        ObjectKind::Node | ObjectKind::Link | ObjectKind::Port | ObjectKind::Group => {
            format!("{} {name}", text(of.kind))
        }
    }
}

/// The severity as a word that stands out.
pub(super) fn severity(of: Severity) -> &'static str {
    match of {
        Severity::Critical => "CRITICAL",
        Severity::Warning => "WARNING",
        Severity::Info => "INFO",
    }
}

/// Time since an instant of the controller's clock, in whole seconds.
pub(super) fn ago(since_unix_ns: u64, now_unix_ns: u64) -> String {
    let age = Duration::from_nanos(now_unix_ns.saturating_sub(since_unix_ns));
    humantime::format_duration(Duration::from_secs(age.as_secs())).to_string()
}

/// Objects that a problem affects: how many of which kind, and the first of them by name.
pub(super) fn affected(problems: &[ProblemRef]) -> Option<String> {
    let mut objects: Vec<&ObjectRef> = problems.iter().map(|p| &p.object).collect();
    objects.sort();
    objects.dedup();
    let groups = objects.iter().filter(|o| o.kind == ObjectKind::Group).count();
    let named: Vec<String> = objects.iter().take(NAMED).map(|o| object(o)).collect();
    if named.is_empty() {
        return None;
    }
    let more = match objects.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more ({groups} groups in all)"),
    };
    Some(format!("{}{more}", named.join(", ")))
}

/// `alice: optics ordered (silence n4, until 2026-11-26T18:00:00Z)`.
fn known(silence: &SilenceRef) -> String {
    let by = silence.by.as_ref().map_or("an operator".to_owned(), |by| text(by.to_string()));
    let ends = match silence.until_unix_ns {
        Some(until) => format!("until {}", rfc3339::format(UnixTime::from_nanos(until))),
        None => "until it ends".to_owned(),
    };
    format!("{by}: {} (silence {}, {ends})", text(&silence.note), text(&silence.name))
}

/// One problem, for a terminal.
pub(super) fn write(out: &mut dyn Write, p: &ProblemItem, now_unix_ns: u64) -> Result<(), Failure> {
    let flaps = if p.count > 1 { format!(", {} times", p.count) } else { String::new() };
    let ends = if p.closing { ", not seen at present" } else { "" };
    writeln!(out, "{:<9} {} {}", severity(p.severity), object(&p.object), text(&p.title))?;
    writeln!(
        out,
        "          {}, problem {}, for {}{flaps}{ends}",
        text(&p.code),
        text(&p.id),
        ago(p.since_unix_ns, now_unix_ns)
    )?;
    for evidence in &p.evidence {
        writeln!(out, "          seen:    {}", text(evidence))?;
    }
    if let Some(affected) = affected(&p.affects) {
        writeln!(out, "          affects: {affected}")?;
    }
    if let Some(silence) = &p.silence {
        writeln!(out, "          known:   {}", known(silence))?;
    }
    Ok(writeln!(out, "          do:      {}\n", text(&p.remedy))?)
}

/// The same, as an item of a Markdown list.
pub(super) fn write_markdown(out: &mut dyn Write, p: &ProblemItem, now_unix_ns: u64) -> Result<(), Failure> {
    let title = format!("{} {}", object(&p.object), text(&p.title));
    writeln!(
        out,
        "- **{}** {title} (`{}`, problem `{}`, for {})",
        severity(p.severity),
        text(&p.code),
        text(&p.id),
        ago(p.since_unix_ns, now_unix_ns)
    )?;
    for evidence in &p.evidence {
        writeln!(out, "  - seen: {}", text(evidence))?;
    }
    if let Some(affected) = affected(&p.affects) {
        writeln!(out, "  - affects: {affected}")?;
    }
    if let Some(silence) = &p.silence {
        writeln!(out, "  - known: {}", known(silence))?;
    }
    Ok(writeln!(out, "  - do: {}", text(&p.remedy))?)
}

#[cfg(test)]
pub(super) fn example() -> ProblemItem {
    let reference = |kind, name: &str, code: &str| ProblemRef {
        id: "0".repeat(16),
        code: code.to_owned(),
        object: ObjectRef { kind, name: name.to_owned() },
    };
    ProblemItem {
        id: "00c0ffee00c0ffee".into(),
        code: "PortDown".into(),
        severity: Severity::Critical,
        object: ObjectRef { kind: ObjectKind::Port, name: "n5/eth3".into() },
        title: "has no interface or no carrier".into(),
        since_unix_ns: 1_000_000_000,
        count: 2,
        closing: false,
        root: true,
        evidence: vec!["n5: link eth3: no carrier\u{1b}[2J".into()],
        causes: vec![],
        affects: vec![
            reference(ObjectKind::Member, "demo/r3", "ReceiverStalled"),
            reference(ObjectKind::Group, "demo", "GroupStalled"),
        ],
        drain_link: None,
        remedy: "Check the interface, the cable and the host.".into(),
        silence: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_a_sentence_with_what_was_seen_and_what_to_do() {
        let mut out = Vec::new();
        write(&mut out, &example(), 13_500_000_000).unwrap();
        write_markdown(&mut out, &example(), 13_500_000_000).unwrap();
        let wanted = "\
CRITICAL  port n5/eth3 has no interface or no carrier
          PortDown, problem 00c0ffee00c0ffee, for 12s, 2 times
          seen:    n5: link eth3: no carrier [2J
          affects: group demo, receiver r3 of group demo
          do:      Check the interface, the cable and the host.

- **CRITICAL** port n5/eth3 has no interface or no carrier (`PortDown`, problem `00c0ffee00c0ffee`, for 12s)
  - seen: n5: link eth3: no carrier [2J
  - affects: group demo, receiver r3 of group demo
  - do: Check the interface, the cable and the host.
";
        assert_eq!(String::from_utf8(out).unwrap(), wanted);
    }

    #[test]
    fn many_affected_objects_are_counted() {
        let of = |i: usize| ProblemRef {
            id: String::new(),
            code: String::new(),
            object: ObjectRef { kind: ObjectKind::Group, name: format!("g{i}") },
        };
        let all: Vec<ProblemRef> = (0..7).chain(0..7).map(of).collect();
        assert_eq!(
            affected(&all).unwrap(),
            "group g0, group g1, group g2, group g3, group g4 and 2 more (7 groups in all)"
        );
        assert_eq!(affected(&[]), None);
    }
}
