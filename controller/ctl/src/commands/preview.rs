// SPDX-License-Identifier: Apache-2.0
//! A dry run as text: what would change, and what that would do.

use std::io::Write;

use canopy_controller_api::check::{DryRun, Effect, EffectKind, FieldChange};
use serde_json::Value;

use crate::failure::Failure;
use crate::output::{clean, text};

/// Effects that are printed, at most.
const SHOWN: usize = 20;
/// Longest value that is printed whole, characters.
const MAX_VALUE: usize = 60;

/// Prints a dry run of `name`.
pub(super) fn write(name: &str, preview: &DryRun, out: &mut dyn Write) -> Result<(), Failure> {
    writeln!(out, "{name} would be {}", clean(&preview.summary))?;
    for change in &preview.changes {
        writeln!(out, "  {}", line(change))?;
    }
    for effect in preview.effects.iter().take(SHOWN) {
        writeln!(out, "  {}", described(effect))?;
    }
    let more = preview.effects.len().saturating_sub(SHOWN) as u64 + preview.more_effects;
    if more > 0 {
        writeln!(out, "  and {more} effects more: the dry run of the API has up to 1000")?;
    }
    Ok(())
}

/// `~ /spec/pathMtu: 4096 -> 1024`.
fn line(change: &FieldChange) -> String {
    let at = if change.pointer.is_empty() { "all of it".to_owned() } else { clean(&change.pointer) };
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => format!("~ {at}: {} -> {}", value(old), value(new)),
        (None, Some(new)) => format!("+ {at}: {}", value(new)),
        (Some(old), None) => format!("- {at}: {}", value(old)),
        (None, None) => format!("~ {at}"),
    }
}

fn value(value: &Value) -> String {
    let all = clean(&value.to_string());
    match all.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}...", &all[..end]),
        None => all,
    }
}

fn described(effect: &Effect) -> String {
    let Effect { name, from, to, lossless, .. } = effect;
    let [name, from, to] = [text(name), text(from), text(to)];
    let loss = if *lossless { "no packet is lost" } else { "packets are lost until it has moved" };
    match effect.kind {
        EffectKind::NodeAdded => format!("+ node {name}"),
        EffectKind::NodeChanged => format!("~ node {name}: ports, addresses or routes"),
        EffectKind::NodeRemoved => format!("- node {name}"),
        EffectKind::TreeStarts => format!("+ group {name}: its tree starts over {to}"),
        EffectKind::TreeMoves => match (from.as_str(), to.as_str()) {
            ("-", to) => format!("~ group {name}: its tree grows over {to}"),
            (from, "-") => format!("~ group {name}: its tree leaves {from}"),
            (from, to) => format!("~ group {name}: its tree moves from {from} to {to}; {loss}"),
        },
        EffectKind::TreeStays => format!("! group {name}: its tree stays on {to}: there is no other way"),
        EffectKind::TreeStops => format!("! group {name}: its tree stops, and its receivers get no data: {to}"),
        EffectKind::GroupDeleted => format!("! group {name}: deleted with {from}"),
        EffectKind::PathsMore => format!("+ paths of {}: {to} in service, before: {from}", pairs(effect)),
        EffectKind::PathsFewer if *lossless => format!("~ paths of {}: {to} in service, before: {from}", pairs(effect)),
        EffectKind::PathsFewer => format!(
            "~ paths of {}: {to} in service, before: {from}; packets are lost until sources have moved",
            pairs(effect)
        ),
        EffectKind::PathsStay => {
            format!("! paths of {}: none in service; packets stay on drained ones for want of others", pairs(effect))
        }
        EffectKind::PathsStop => format!("! paths of {}: none is left, and packets are lost", pairs(effect)),
        EffectKind::Unknown => format!("? {name}: an effect that a later canopyctl knows"),
        EffectKind::PathsNotCounted => {
            format!("? paths of {}: not counted, as that would take too long", pairs(effect))
        }
    }
}

/// Which pairs of edges.
fn pairs(effect: &Effect) -> String {
    let name = text(&effect.name);
    match effect.pairs {
        None | Some(1) if !effect.name.is_empty() => name,
        Some(pairs) if effect.name.is_empty() => format!("{pairs} pairs of edges"),
        Some(pairs) if !effect.name.contains(" - ") => format!("{name} and {pairs} edges"),
        Some(pairs) => format!("{pairs} pairs of edges, such as {name}"),
        None => "pairs of edges".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_dry_run_is_read_line_by_line() {
        let preview = json!({"apiVersion": "canopy/v1", "kind": "DryRun", "outcome": "updated", "summary": "updated: 3 fields; 2 trees move without loss",
            "changes": [{"pointer": "/spec/pathMtu", "old": 4096, "new": 1024}, {"pointer": "/metadata/labels/a", "new": "x".repeat(90)}, {"pointer": "/spec/links/3", "old": {"a": "n1/eth1"}}],
            "effects": [{"type": "treeStops", "object": "Group", "name": "g\u{1b}[2J", "to": "no way", "lossless": false},
                {"type": "treeMoves", "object": "Group", "name": "h", "from": "n4/eth1", "to": "n4/eth2", "lossless": true},
                {"type": "pathsStop", "object": "Pairs", "name": "n1 - n2", "from": "1", "to": "0", "pairs": 1, "lossless": false},
                {"type": "pathsStay", "object": "Pairs", "name": "n9", "from": "1", "to": "0", "pairs": 31, "lossless": true},
                {"type": "pathsFewer", "object": "Pairs", "name": "n1 - n3", "from": "4", "to": "3", "pairs": 465, "lossless": true},
                {"type": "pathsFewer", "object": "Pairs", "name": "n1 - n4", "from": "4", "to": "3", "pairs": 1, "lossless": false},
                {"type": "pathsNotCounted", "object": "Pairs", "name": "", "pairs": 7, "lossless": false},
                {"type": "pathsMore", "object": "Pairs", "name": "n1 - n3", "from": "3", "to": "4", "pairs": 2, "lossless": true},
                {"type": "later", "object": "Later", "name": "n1", "lossless": true}],
            "moreEffects": 7, "plan": "x"});
        let mut out = Vec::new();
        write("topology/default", &serde_json::from_value(preview).unwrap(), &mut out).unwrap();
        let cut = format!("\"{}...", "x".repeat(59));
        assert_eq!(
            String::from_utf8(out).unwrap(),
            format!(
                "topology/default would be updated: 3 fields; 2 trees move without loss\n  ~ /spec/pathMtu: 4096 -> 1024\n  + /metadata/labels/a: {cut}\n  \
                - /spec/links/3: {{\"a\":\"n1/eth1\"}}\n  ! group g [2J: its tree stops, and its receivers get no data: no way\n  \
                ~ group h: its tree moves from n4/eth1 to n4/eth2; no packet is lost\n  \
                ! paths of n1 - n2: none is left, and packets are lost\n  \
                ! paths of n9 and 31 edges: none in service; packets stay on drained ones for want of others\n  \
                ~ paths of 465 pairs of edges, such as n1 - n3: 3 in service, before: 4\n  \
                ~ paths of n1 - n4: 3 in service, before: 4; packets are lost until sources have moved\n  \
                ? paths of 7 pairs of edges: not counted, as that would take too long\n  \
                + paths of 2 pairs of edges, such as n1 - n3: 4 in service, before: 3\n  \
                ? n1: an effect that a later canopyctl knows\n  and 7 effects more: the dry run of the API has up to 1000\n"
            )
        );
    }
}
