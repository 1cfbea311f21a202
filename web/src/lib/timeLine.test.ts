// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { partsOf, rangeOf, stepWord, timeLine } from "./timeLine";

it("counts by minute, from full minutes", () => {
  const line = timeLine([600, 659.9, 660, 1199, 1200]);
  expect(line).toEqual({ start: 600, step: 60, counts: [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1] });
  expect(timeLine([])).toBeNull();
});

// Catches a line of thousands of parts, and one that leaves the first or last event out.
it("counts by more where it is long, and all of it", () => {
  for (const span of [0, 59, 3600, 7200, 7201, 86_400, 30 * 86_400, 900 * 86_400]) {
    const times = Array.from({ length: 50 }, (_, at) => 1_000_003 + (at * span) / 49);
    const line = timeLine(times);
    expect(line?.counts.length).toBeGreaterThanOrEqual(10);
    expect(line?.counts.length).toBeLessThanOrEqual(121);
    expect(line?.counts.reduce((sum, count) => sum + count, 0)).toBe(50);
    expect((line?.start ?? 1) % (line?.step ?? 0)).toBe(0);
  }
});

it("has ranges of parts, and parts of ranges", () => {
  const line = { start: 600, step: 60, counts: [1, 2, 3, 4] };
  expect(rangeOf(line, 2, 1)).toEqual({ from: 660, to: 780 });
  expect(partsOf(line, { from: 660, to: 780 })).toEqual([1, 2]);
  expect(partsOf(line, { from: 0, to: 601 })).toEqual([0, 0]);
  expect(partsOf(line, { from: 800, to: 9000 })).toEqual([3, 3]);
  expect(partsOf(line, { from: 0, to: 600 })).toBeNull();
  expect(partsOf(line, { from: 840, to: 900 })).toBeNull();
});

it("has a word for how long a part is", () => {
  expect([60, 900, 3600, 14_400, 86_400].map(stepWord)).toEqual(["1 min", "15 min", "1 h", "4 h", "1 d"]);
});
