// SPDX-License-Identifier: Apache-2.0
// What Overview has checked, in words: how old the reports of agents are, and in how many groups data progresses.
import type { DeliveryState, Group, Link } from "../api/types";
import { age, count, counted } from "./format";
import { isLate } from "./late";

/** Agents that are named; more are counted. */
const NAMED = 3;

interface Reports {
  /** Of agents that report: "2 agents reported their ports less than 2 s ago". */
  fresh: string;
  /** Of those that are late, the latest first: "n5 12 s ago, n7 9 s ago". */
  late: string;
}

/** How old the newest report of each agent is, of the ports that its links leave from. Agents that have never reported one are not known here. */
export function reports(links: readonly Link[]): Reports {
  const newest = new Map<string, number>();
  for (const { metadata, status } of links) {
    const [node = ""] = metadata.name.split("/");
    const ago = status.congestion?.reportedAgoNs;
    if (ago !== undefined) newest.set(node, Math.min(ago, newest.get(node) ?? Infinity));
  }
  const all = [...newest].sort(([, a], [, b]) => b - a);
  const late = all.filter(([, ago]) => isLate(ago));
  const fresh = all.length - late.length;
  const [, oldest = 0] = all[late.length] ?? [];
  const names = late.slice(0, NAMED).map(([node, ago]) => `${node} ${age(ago)} ago`);
  return {
    fresh: fresh ? `${counted(fresh, "agent")} reported ${fresh === 1 ? "its" : "their"} ports less than ${Math.floor(oldest / 1e9) + 1} s ago` : "",
    late: [...names, ...(late.length > NAMED ? [`${count(late.length - NAMED)} more`] : [])].join(", "),
  };
}

const STATES: readonly (readonly [DeliveryState | undefined, string])[] = [
  ["Stalled", "stalled"],
  ["Idle", "idle"],
  ["NoData", "without data"],
  [undefined, "not reported"],
];

/** In how many groups AckPSN advances, and what the others do: "3 groups progressing, 1 stalled"; nothing without a group. */
export function progress(groups: readonly Group[]): string {
  if (groups.length === 0) return "";
  const of = (state: DeliveryState | undefined) => groups.filter(({ status }) => status.delivery?.state === state).length;
  const others = STATES.map(([state, word]) => [of(state), word] as const).filter(([many]) => many > 0);
  return [`${counted(of("Flowing"), "group")} progressing`, ...others.map(([many, word]) => `${count(many)} ${word}`)].join(", ");
}
