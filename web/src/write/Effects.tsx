// SPDX-License-Identifier: Apache-2.0
// What the controller answered to a dry run: the fields that change, and what that does.
import type { DryRun } from "../api/types";
import { effectSentence } from "../lib/effect";
import { count } from "../lib/format";
import { Diff } from "./Diff";

const SHOWN = 20;

export function Effects({ name, of }: { name: string; of: DryRun }) {
  const effects = of.effects ?? [];
  const more = Math.max(0, effects.length - SHOWN) + (of.moreEffects ?? 0);
  return (
    <div className="note degraded" role="status">
      <strong>The controller accepts it.</strong> Nothing has changed yet. {name} would be {of.summary}.
      {effects.length > 0 && (
        <ul>
          {effects.slice(0, SHOWN).map((effect) => (
            <li key={`${effect.type} ${effect.object} ${effect.name} ${effect.from ?? ""} ${effect.to ?? ""}`}>{effectSentence(effect)}</li>
          ))}
          {more > 0 && <li>and {count(more)} more</li>}
        </ul>
      )}
      {of.outcome === "updated" && <Diff changes={of.changes ?? []} />}
    </div>
  );
}
