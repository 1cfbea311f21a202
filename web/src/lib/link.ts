// SPDX-License-Identifier: Apache-2.0
// The state of one direction of a link as one word.
import type { Link, LinkState } from "../api/types";
import { counted } from "./format";
import { wordsOf } from "./order";
import { ofSeverity, WORST_FIRST, type State } from "./state";

const WORDS: Readonly<Record<Exclude<LinkState, "Problem">, readonly [State, string]>> = {
  InService: ["ok", "in service"],
  Drained: ["pending", "drained"],
  AgentNotConnected: ["pending", "agent not connected"],
  NotReported: ["pending", "not reported yet"],
};

/** The code of its worst problem, or its state; one of a later version is pending, by its own name. */
export function stateOf({ status: { state = "NotReported", problem } }: Link): readonly [State, string] {
  if (problem) return [ofSeverity(problem.severity), problem.code];
  return (WORDS as Partial<Record<LinkState, readonly [State, string]>>)[state] ?? ["pending", state];
}

/** Part of the port's rate that data takes, percent; `null` where that is not measured. */
export function loadOf({ spec: { rateBps }, status: { congestion } }: Link): number | null {
  const bps = congestion?.loadBps;
  return bps === null || bps === undefined || rateBps === 0 ? null : (100 * bps) / rateBps;
}

/** Those that are not in service, by word, the worst first: "LinkLossy: n1/eth1; drained: n2/eth3". */
export function notInService(all: readonly Link[]): string {
  const words = all.map((link) => ({ name: link.metadata.name, word: stateOf(link) })).filter(({ word: [state] }) => state !== "ok");
  words.sort((a, b) => WORST_FIRST.indexOf(a.word[0]) - WORST_FIRST.indexOf(b.word[0]));
  return wordsOf(words.map(({ name, word: [, word] }) => [word, name]));
}

/** Of many directions the controller has found those that are not in service, the first ones if `more`. */
export const notInServiceOfMany = (found: readonly Link[], more: boolean): string => `${more ? `of the first ${counted(found.length, "direction")} that are not in service, ` : ""}${notInService(found) || "all in service"}`;
