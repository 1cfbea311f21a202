// SPDX-License-Identifier: Apache-2.0
// How many events there were per minute; where that is more than fits, per more.

/** Seconds since the Unix epoch; `to` is the first that is no longer part of it. */
export interface TimeRange {
  from: number;
  to: number;
}

export interface TimeLine {
  /** Start of the first part. */
  start: number;
  /** Seconds per part. */
  step: number;
  counts: number[];
}

const MINUTE = 60;
const STEPS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 15 * MINUTE, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600];
/** Parts of a line at least, so that one event is no line of its own. */
const LEAST = 10;
const MOST = 120;

/** Counts of times, in seconds; nothing without any. Parts begin at full steps, so that they stay the same while time goes by. */
export function timeLine(times: readonly number[]): TimeLine | null {
  if (times.length === 0) return null;
  let [first, last] = [Infinity, -Infinity];
  for (const time of times) [first, last] = [Math.min(first, time), Math.max(last, time)];
  const parts = (step: number) => Math.floor(last / step) - Math.floor(first / step) + 1;
  const step = STEPS.find((one) => parts(one) <= MOST) ?? Math.ceil((last - first) / MOST / 86_400) * 86_400;
  const count = Math.max(LEAST, parts(step));
  const start = (Math.floor(last / step) - count + 1) * step;
  const counts = new Array<number>(count).fill(0);
  for (const time of times) {
    const at = Math.floor((time - start) / step);
    counts[at] = (counts[at] ?? 0) + 1;
  }
  return { start, step, counts };
}

/** From one part to another, in whichever order. */
export const rangeOf = ({ start, step }: TimeLine, a: number, b: number): TimeRange => ({ from: start + Math.min(a, b) * step, to: start + (Math.max(a, b) + 1) * step });

/** The parts that a range touches; nothing if it is beside the line. */
export function partsOf({ start, step, counts }: TimeLine, { from, to }: TimeRange): readonly [number, number] | null {
  const [first, last] = [Math.floor((from - start) / step), Math.ceil((to - start) / step) - 1];
  return last < 0 || first >= counts.length ? null : [Math.max(0, first), Math.min(counts.length - 1, last)];
}

/** How long a part is: "1 min", "4 h". */
export function stepWord(step: number): string {
  if (step < 3600) return `${step / MINUTE} min`;
  return step < 86_400 ? `${step / 3600} h` : `${step / 86_400} d`;
}
