// SPDX-License-Identifier: Apache-2.0
//! The answer to a dry run.

use canopy_controller_actor::Done;
use canopy_controller_actor::difference::Difference;
use canopy_controller_api::check::{DryRun, Effect, FieldChange, Outcome};
use canopy_controller_api::{ApiVersion, Kind};
use canopy_controller_core::effect::EffectKind;

/// Effects in an answer, at most.
const MAX_EFFECTS: usize = 1000;

/// What a write would do, for people and for programs.
pub(crate) fn dry_run(done: Done) -> DryRun {
    let outcome = Outcome::from(done.outcome);
    let preview = done.preview.map(|preview| *preview);
    let (changes, effects, plan) = preview.map(|p| (p.changes, p.effects, p.plan)).unwrap_or_default();
    let count = |kind: EffectKind| effects.iter().filter(|e| e.kind == kind).count();
    let pairs =
        |kind: EffectKind| effects.iter().filter(|e| e.kind == kind).filter_map(|e| e.pairs).sum::<u64>() as usize;
    let lossy = effects.iter().filter(|e| e.kind == EffectKind::TreeMoves && !e.lossless).count();
    let parts = [
        (count(EffectKind::TreeStops), "tree stops", "trees stop"),
        (pairs(EffectKind::PathsStop), "pair of edges loses its last path", "pairs of edges lose their last paths"),
        (count(EffectKind::GroupDeleted), "group is deleted with its members", "groups are deleted with their members"),
        (lossy, "tree moves with a gap", "trees move with a gap"),
        (count(EffectKind::TreeMoves) - lossy, "tree moves without loss", "trees move without loss"),
        (count(EffectKind::TreeStays), "tree stays for want of another way", "trees stay for want of another way"),
        (
            pairs(EffectKind::PathsStay),
            "pair of edges keeps drained paths for want of others",
            "pairs of edges keep drained paths for want of others",
        ),
        (pairs(EffectKind::PathsFewer), "pair of edges has fewer paths", "pairs of edges have fewer paths"),
        (
            pairs(EffectKind::PathsNotCounted),
            "pair of edges whose paths are not counted",
            "pairs of edges whose paths are not counted",
        ),
        (pairs(EffectKind::PathsMore), "pair of edges has more paths", "pairs of edges have more paths"),
        (count(EffectKind::TreeStarts), "tree starts", "trees start"),
        (count(EffectKind::NodeRemoved), "node is removed", "nodes are removed"),
        (count(EffectKind::NodeAdded), "node is added", "nodes are added"),
        (count(EffectKind::NodeChanged), "node changes", "nodes change"),
    ];
    let happens = parts.iter().filter(|(n, ..)| *n > 0);
    let sentences: Vec<String> =
        happens.map(|(n, one, many)| format!("{n} {}", if *n == 1 { one } else { many })).collect();
    let fields = match changes.len() {
        _ if outcome != Outcome::Updated => String::new(),
        1 => ": 1 field".to_owned(),
        n => format!(": {n} fields"),
    };
    let verb = match outcome {
        Outcome::Created => "created",
        Outcome::Updated => "updated",
        Outcome::Unchanged => "unchanged",
        Outcome::Deleted => "deleted",
    };
    let effect = if sentences.is_empty() { "no node or tree changes".to_owned() } else { sentences.join(", ") };
    let summary = if outcome == Outcome::Unchanged { verb.to_owned() } else { format!("{verb}{fields}; {effect}") };
    let more_effects = effects.len().saturating_sub(MAX_EFFECTS) as u64;
    let effects = effects.into_iter().take(MAX_EFFECTS).map(Effect::from).collect();
    let changes = changes.into_iter().map(change).collect();
    DryRun { api_version: ApiVersion, kind: Kind::DryRun, outcome, summary, changes, effects, more_effects, plan }
}

fn change(difference: Difference) -> FieldChange {
    let Difference { pointer, old, new } = difference;
    FieldChange { pointer, old, new }
}
