// SPDX-License-Identifier: Apache-2.0
// Which receivers of many have a lane in the race: those that are furthest behind, without lanes that jump with every sample.
import { count, counted } from "./format";

/** Receivers that all have a lane, in the order of the tree; above, there are the lanes of those that are furthest behind. */
export const ALL = 64;
export const FURTHEST = 20;

/** One receiver is clearly further behind than another from this factor, and so many packets, on. */
const CLEARLY = { factor: 1.25, packets: 16 };

/** Who has not reported a position is behind none. */
const known = (behind: number): number => (Number.isNaN(behind) ? -1 : behind);
const isClearly = (a: number, b: number): boolean => a > b * CLEARLY.factor + CLEARLY.packets;

/** The receivers that have lanes, by their places in `behind`, the furthest first. `before`: those that had them, which only clear differences change. */
export function lanes(before: readonly number[], behind: Readonly<Float64Array>): readonly number[] {
  if (behind.length <= ALL) return before.length === behind.length ? before : Array.from(behind, (_, at) => at);
  const of = (at: number) => known(behind[at] ?? Number.NaN);
  const furthest = Array.from(behind, (_, at) => at).sort((a, b) => of(b) - of(a) || a - b);
  // While nothing is known, those at the beginning of the tree.
  if (before.length === 0) return furthest.slice(0, FURTHEST);
  const chosen = [...before];
  const waiting = furthest.filter((at) => !before.includes(at)).slice(0, FURTHEST);
  for (const at of waiting) {
    // The one that is least behind makes room.
    const least = chosen.reduce((low, one, place) => (of(one) < of(chosen[low] ?? one) ? place : low), 0);
    if (!isClearly(of(at), of(chosen[least] ?? at))) break;
    chosen[least] = at;
  }
  // Neighbours change places where the order between them is clear: each change brings the list nearer to the order, so it ends.
  for (let changed = true; changed; ) {
    changed = false;
    for (let place = 1; place < chosen.length; place += 1) {
      const [above = 0, below = 0] = [chosen[place - 1], chosen[place]];
      if (!isClearly(of(below), of(above))) continue;
      [chosen[place - 1], chosen[place]] = [below, above];
      changed = true;
    }
  }
  return chosen.every((at, place) => at === before[place]) ? before : chosen;
}

/** What is known of the receivers without a lane; empty if all have one. */
export function others(shown: readonly number[], behind: Readonly<Float64Array>): string {
  const has = new Set(shown);
  const rest = Array.from(behind).filter((_, at) => !has.has(at));
  if (rest.length === 0) return "";
  const active = rest.filter((one) => !Number.isNaN(one));
  const all = `and ${counted(rest.length, "other")}`;
  if (active.length === 0) return `${all}, not active.`;
  const most = active.reduce((a, b) => Math.max(a, b));
  const within = most === 0 ? "with nothing outstanding" : `all within ${counted(most, "packet")}`;
  return `${all}, ${within}${active.length < rest.length ? `; ${count(rest.length - active.length)} of them are not active` : ""}.`;
}
