// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { ChartData } from "./chart";
import { CounterChart, rise } from "./counter";

it("has how much a counter rises per second, and nothing where it began anew", () => {
  expect(rise({ at: 10, total: 4 }, { at: 12, total: 10 })).toBe(3);
  expect(rise({ at: 10, total: 4 }, { at: 12, total: 4 })).toBe(0);
  expect(rise({ at: 10, total: 4 }, { at: 12, total: 1 })).toBeNull();
  expect(rise({ at: 10, total: 4 }, { at: 10, total: 9 })).toBeNull();
});

// Catches a rate across a gap, a report that is read twice as one without a rise, and a first reading that counts from zero.
it("charts what was read, with gaps where nothing was", () => {
  let shown: ChartData | undefined;
  const chart = new CounterChart("sent");
  chart.subscribe((data) => (shown = data));
  const points = () => shown?.series[0]?.points.slice(-6).map((point) => point && [...point]);
  chart.add({ at: 1000, total: 500 });
  expect(points()).toEqual([null, null, null, null, null, null]);
  chart.add({ at: 1002, total: 520 });
  chart.add({ at: 1002.1, total: 520 });
  chart.add({ at: 1004, total: 600 });
  expect(shown?.start).toBe(1005 - 300);
  expect(points()?.at(-1)).toEqual([25, 40]);
  chart.add({ at: 1021, total: 900 });
  chart.add({ at: 1023, total: 910 });
  chart.add({ at: 1025, total: 0 });
  expect(points()).toEqual([[25, 40], null, null, null, [5, 5], null]);
  expect(shown?.series[0]?.points.length).toBe(60);
});
