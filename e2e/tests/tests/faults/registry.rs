// SPDX-License-Identifier: Apache-2.0
//! Which test provokes each code of the registry, and why some are provoked by no fault of a lab.

use std::collections::BTreeSet;
use std::path::Path;

/// Provoked by reports of agents that a test writes: an agent mends the fault before its problem opens, or has none of the kind.
const DOMAIN: &str = "controller/core/src/domain/tests/problems.rs";

/// Codes that no fault of the catalogue provokes: where another test does, and why not here.
const ELSEWHERE: [(&str, &str, &str); 19] = [
    (
        "StoreLostCommits",
        "controller/rest/tests/rest/resources.rs",
        "the store of the lab would have to be damaged in a certain page",
    ),
    ("CommitExpiring", "controller/rest/tests/rest/commit.rs", "no fault: an operator has not confirmed"),
    ("RollbackRefused", "controller/rest/tests/rest/commit.rs", "no fault: writes of an operator exclude one another"),
    ("AuthorityReplacementLate", "controller/runtime/tests/controller/replacement.rs", "it opens after a day"),
    (
        "CertificateNotRenewed",
        "controller/authority/tests/renewals.rs",
        "it opens at three quarters of a certificate's life",
    ),
    ("RetirementLate", "controller/core/src/domain/tests/retirements.rs", "no fault: an agent that leaves is away"),
    ("NodeBehind", DOMAIN, "an agent that sends telemetry applies what it gets"),
    ("ProgramNotLoaded", DOMAIN, "a kernel that refuses a program is none on which the lab runs"),
    ("ProgramRefused", DOMAIN, "the maps of the datapath have room for more groups than a controller of the lab takes"),
    ("RouteMissing", DOMAIN, "an agent puts a route back within a second"),
    ("ItemMissing", DOMAIN, "an agent mends what differs in the kernel"),
    ("NeighbourUnresolved", DOMAIN, "a neighbour that does not answer is a host that takes nothing, which comes first"),
    ("GroupInfeasible", DOMAIN, "no fault: links that are lost are the cause, and the group the symptom"),
    (
        "GroupFailed",
        "controller/core/src/domain/tests/stall.rs",
        "no fault: the stall policy of a group has stopped it",
    ),
    ("GroupNotProgrammed", DOMAIN, "a symptom of agents that do not apply"),
    ("GroupDegraded", DOMAIN, "a symptom of links and ports that are down"),
    ("GroupStalled", DOMAIN, "a symptom of receivers that acknowledge nothing"),
    ("GroupUnobserved", DOMAIN, "a symptom of an agent that is silent"),
    ("MoveGivenUp", "e2e/tests/tests/moves.rs", "a node has to refuse the next tree of a move"),
];

/// Tests of what a problem finds, as its delay is too long for a test of the problem.
const EVIDENCE: [(&str, &str); 1] = [("CertificateNotRenewed", "controller/authority/tests/renewals.rs")];

/// Codes whose faults are too rare or too quick for a lab, and that a test of the domain provokes by the reports of agents.
const BY_REPORTS: [&str; 5] =
    ["ReceiverFailed", "BranchSilent", "CopiesNotForwarded", "CopiesTooLarge", "SourceGaveUp"];

#[test]
fn every_code_is_provoked_or_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/problems.md");
    let codes: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let catalogue: String =
        ["outage", "degraded", "limit", "mended"].map(|of| read(&format!("e2e/tests/tests/faults/{of}.rs"))).concat();
    let in_catalogue = |code: &str| [" ", "\""].iter().any(|end| catalogue.contains(&format!("\"{code}{end}")));
    for (code, file, why) in ELSEWHERE.into_iter().chain(BY_REPORTS.map(|code| (code, DOMAIN, "by reports"))) {
        assert!(codes.contains(code), "{code} is no code");
        assert!(!in_catalogue(code), "{code} is in the catalogue: it needs no other place");
        let text: String = read(file).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let finds = [format!("Code::{code}"), format!("\"{code}\""), format!("\"{code} ")];
        let is_there = finds.iter().any(|find| text.contains(find)) || EVIDENCE.contains(&(code, file));
        assert!(is_there, "{code}: not in {file}");
        assert!(!why.is_empty());
    }
    let listed: BTreeSet<&str> = ELSEWHERE.iter().map(|(code, ..)| *code).chain(BY_REPORTS).collect();
    let missing: Vec<&&str> = codes.iter().filter(|code| !listed.contains(**code) && !in_catalogue(code)).collect();
    assert!(missing.is_empty(), "provoked by no test: {missing:?}");
}
