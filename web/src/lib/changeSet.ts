// SPDX-License-Identifier: Apache-2.0
// Change sets, in the words of `canopyctl change-set show`.
import type { ChangeSet, ChangeSetPhase } from "../api/types";
import { counted } from "./format";
import type { State } from "./state";

const STATES: Readonly<Record<ChangeSetPhase, State>> = { Applying: "pending", Applied: "ok", Stopped: "failed", Undoing: "pending", Undone: "degraded" };

/** A phase of a later version is one that someone should read about. */
export const ofChangeSet = ({ phase }: Pick<ChangeSet, "phase">): State => (STATES as Partial<Record<string, State>>)[phase] ?? "degraded";

/** There is something to do. */
export const isActive = ({ phase }: Pick<ChangeSet, "phase">): boolean => phase === "Applying" || phase === "Undoing";

/** "60 of 100 resources, 50 created, 9 updated". */
export const progress = ({ done, items, created, updated }: ChangeSet): string => `${done} of ${counted(items, "resource")}, ${created} created, ${updated} updated`;

/** Why nothing can be taken back; nothing if it can. */
export function notUndone(set: ChangeSet): string {
  if (set.phase === "Undoing") return "It is being taken back.";
  if (set.phase === "Undone") return "It was taken back.";
  return "";
}

/** What an undo does. */
export function undoing({ phase, created, updated }: ChangeSet): string {
  const written = [created && `${counted(created, "resource")} that it created ${created === 1 ? "is" : "are"} deleted`, updated && `${counted(updated, "resource")} that it changed ${updated === 1 ? "gets" : "get"} the version before`].filter(Boolean);
  const stops = phase === "Applying" ? "It stops first. " : "";
  if (written.length === 0) return `${stops}It has changed nothing yet.`;
  return `${stops}${written.join(", ")}, the last one first.`;
}

/** A refused resource: of one that stopped, and of one that was taken back. */
export const refusal = (set: ChangeSet): string => (set.undoneBy ? "was not put back" : "was refused");
