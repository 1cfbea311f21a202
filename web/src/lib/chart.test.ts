// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { coarser, columns, endOf, figures, isolated, quantity, spark, times, total, type ChartData, type Point } from "./chart";

const data = (points: readonly Point[], step = 1): ChartData => ({ start: 1000, step, series: [{ name: "queue", unit: "bytes", points }] });

describe("series", () => {
  // Catches bytes that are drawn as bits, and a gap that becomes zero.
  it("have values of the axis and gaps", () => {
    expect(columns({ name: "bytes", unit: "bytesPerSecond", points: [[1, 2], null, [0, 0]] })).toEqual([[8, null, 0], [16, null, 0]]);
    expect(times(data([[1, 1], null], 10))).toEqual([1000, 1010]);
    expect([endOf(data([[1, 1], null], 10)), endOf({ start: 5, step: 1, series: [] })]).toEqual([1020, 5]);
  });
  // Catches a single measured second that no one sees, because a line needs two points.
  it("have points between two gaps", () => {
    expect(isolated([1, null, 2, 3, null, 0, null, 4])).toEqual([0, 5, 7]);
  });
  it("have units of everyday use", () => {
    const all = [quantity(5.15e9, "bytesPerSecond"), quantity(3, "perSecond"), quantity(65_536, "packets"), quantity(64_000, "bytes"), quantity(0.0031, "seconds"), quantity(0.05, "share"), quantity(2, "count")];
    expect(all).toEqual(["41.2 Gbit/s", "3 /s", "65.5 k", "64 kB", "3.1 ms", "5 %", "2"]);
  });
});

// Catches a small line that bridges a gap, one that is upside down, and NaN where everything is zero.
it("a small line has a piece between gaps, from zero to the largest", () => {
  expect(spark([[0, 9], [10, 10], null, [5, 5]], 30, 12)).toBe("M0.0 11.0L0.0 11.0L10.0 1.0M30.0 6.0L30.0 6.0");
  expect([spark([[0, 0]], 30, 12), spark([null], 30, 12), spark([], 30, 12)]).toEqual(["M0.0 11.0L0.0 11.0", "", ""]);
});

describe("figures", () => {
  // Catches a maximum of the means, and gaps that count as zero.
  it("are of what was measured", () => {
    expect(figures([[1, 5], null, [3, 4]], 1)).toEqual({ newest: 3, min: 1, mean: 2, max: 5 });
    expect(figures([null, null], 1)).toBeNull();
  });
  // Catches a value of long ago that is shown as that of now.
  it("have no newest value after a gap of more than 5 s", () => {
    const gap = (seconds: number): Point[] => [[7, 7], ...Array.from({ length: seconds }, () => null)];
    expect([figures(gap(5), 1)?.newest, figures(gap(6), 1)?.newest]).toEqual([7, null]);
    expect([figures(gap(1), 10)?.newest, figures(gap(2), 10)?.newest]).toEqual([7, null]);
  });
  // Catches a minute that has just begun and counts as a whole one.
  it("add up over the measured steps", () => {
    const minutes = data([[10, 99], null, [20, 99]], 60);
    expect(total(minutes, "queue", 1000 + 999)).toEqual({ sum: 1800, seconds: 120 });
    expect(total(minutes, "queue", 1000 + 130)).toEqual({ sum: 800, seconds: 70 });
    expect(total(minutes, "other", 1000 + 130)).toEqual({ sum: 0, seconds: 0 });
  });
});

// Catches a coarser step that loses a peak, or fills a gap.
it("steps are merged with their peaks and gaps", () => {
  const fine = data([[1, 9], [3, 3], null, null, null, [5, 6], [7, 7]]);
  expect(coarser(fine, 4)).toEqual({ start: 1000, step: 2, series: [{ name: "queue", unit: "bytes", points: [[2, 9], null, [5, 6], [7, 7]] }] });
  expect(coarser(fine, 100)).toEqual(fine);
});
