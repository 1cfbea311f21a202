// SPDX-License-Identifier: Apache-2.0
// Whether a node has what it was given, as one word.
import type { Node, NodeState } from "../api/types";
import { count, counted } from "./format";
import { wordsOf } from "./order";
import { WORST_FIRST, type State } from "./state";

const WORDS: Readonly<Record<NodeState, readonly [State, (of: Node) => string]>> = {
  InSync: ["ok", () => "in sync"],
  ItemErrors: ["degraded", ({ status }) => counted(status.errors.length, "error")],
  Behind: ["pending", behind],
  NotReported: ["pending", () => "not reported yet"],
  Restarting: ["pending", () => "restarting"],
  Retiring: ["pending", () => "retiring"],
  Retired: ["pending", () => "retired"],
  NotConnected: ["failed", () => "not connected"],
};

/** A state of a later version is pending, by its own name. */
export function syncWord(node: Node): [State, string] {
  const { state: name = "NotReported" } = node.status;
  const [state, word] = (WORDS as Partial<typeof WORDS>)[name] ?? ["pending", () => name];
  return [state, word(node)];
}

function behind({ spec, status }: Node): string {
  if (status.observedTerm !== spec.term) return `of term ${status.observedTerm ?? 0}`;
  return `${count(spec.generation - (status.observedGeneration ?? 0))} behind`;
}

/** Its labels as a selector has them: "rack=a12". */
export const labelsOf = ({ metadata: { labels } }: Node): string[] => Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);

/** How many of the nodes are in sync. */
export const inSync = (all: readonly Node[]): number => all.filter((node) => syncWord(node)[0] === "ok").length;

/** Those that are not in sync, by word, the worst first: "not connected: n4; 2 behind: n1, n3". */
export function notInSync(all: readonly Node[]): string {
  const words = all.map((node) => ({ name: node.metadata.name, word: syncWord(node) })).filter(({ word: [state] }) => state !== "ok");
  words.sort((a, b) => WORST_FIRST.indexOf(a.word[0]) - WORST_FIRST.indexOf(b.word[0]));
  return wordsOf(words.map(({ name, word: [, word] }) => [word, name]));
}

/** Of many nodes the controller has found those that are not in sync, the first ones if `more`. */
export const notInSyncOfMany = (found: readonly Node[], more: boolean): string => `${more ? `of the first ${counted(found.length, "node")} that are not in sync, ` : ""}${notInSync(found) || "all in sync"}`;
