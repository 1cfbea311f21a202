// SPDX-License-Identifier: Apache-2.0
// Whether a node has what it was given, as one word.
import type { Node } from "../api/types";
import { count, counted } from "./format";
import { wordsOf } from "./order";
import { WORST_FIRST, type State } from "./state";

export function syncWord({ spec, status }: Node): [State, string] {
  if (status.retirement) return ["pending", status.retirement.step === "Retired" ? "retired" : "retiring"];
  if (status.conditions.some((condition) => condition.reason === "Restarting")) return ["pending", "restarting"];
  if (!status.connected) return ["failed", status.observedTerm === null || status.observedTerm === undefined ? "never connected" : "not connected"];
  if (status.observedTerm === null || status.observedTerm === undefined) return ["pending", "not reported yet"];
  if (status.observedTerm !== spec.term) return ["pending", `of term ${status.observedTerm}`];
  const behind = spec.generation - (status.observedGeneration ?? 0);
  if (behind > 0) return ["pending", `${count(behind)} behind`];
  if (status.errors.length) return ["degraded", counted(status.errors.length, "error")];
  return ["ok", "in sync"];
}

/** How many of the nodes are in sync. */
export const inSync = (all: readonly Node[]): number => all.filter((node) => syncWord(node)[0] === "ok").length;

/** Those that are not in sync, by word, the worst first: "not connected: n4; 2 behind: n1, n3". */
export function notInSync(all: readonly Node[]): string {
  const words = all.map((node) => ({ name: node.metadata.name, word: syncWord(node) })).filter(({ word: [state] }) => state !== "ok");
  words.sort((a, b) => WORST_FIRST.indexOf(a.word[0]) - WORST_FIRST.indexOf(b.word[0]));
  return wordsOf(words.map(({ name, word: [, word] }) => [word, name]));
}
