// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { ALL, FURTHEST, lanes, others } from "./lanes";

/** 200 receivers; each is as far behind as its place, but for those that are named. */
const behind = (of: Record<number, number> = {}, size = 200) => Float64Array.from({ length: size }, (_, at) => of[at] ?? at);

it("has all lanes up to 64 receivers, in their order", () => {
  const few = lanes([], behind({}, ALL));
  expect([few.length, few[0], few[63]]).toEqual([64, 0, 63]);
  // The same array, so that nothing is drawn anew.
  expect(lanes(few, behind({ 3: 900 }, ALL))).toBe(few);
  expect(others(few, behind({}, ALL))).toBe("");
});

// Catches the first lanes of the tree in place of those that are furthest behind.
it("begins with the 20 that are furthest behind", () => {
  expect(lanes([], behind())).toEqual(Array.from({ length: FURTHEST }, (_, at) => 199 - at));
  expect(lanes([], behind({ 7: 5000, 199: Number.NaN })).slice(0, 2)).toEqual([7, 198]);
});

// Catches lanes that jump with every sample, and a receiver that falls far behind and gets no lane.
it("changes lanes only where the difference is clear", () => {
  const first = lanes([], behind());
  // 210 and 160 are no more than the margin away from what has a lane.
  expect(lanes(first, behind({ 10: 210, 11: 209, 180: 160 }))).toBe(first);
  const fallen = lanes(first, behind({ 10: 1000 }));
  expect(fallen[0]).toBe(10);
  expect([fallen.length, new Set(fallen).size, fallen.includes(180), fallen.includes(181)]).toEqual([20, 20, false, true]);
  // It stays until it is clearly less behind than another.
  expect(lanes(fallen, behind({ 10: 170 })).includes(10)).toBe(true);
  expect(lanes(fallen, behind({ 10: 0 })).includes(10)).toBe(false);
});

it("puts those that are clearly further above, and the others stay where they are", () => {
  const first = lanes([], behind());
  const now = lanes(first, behind({ 190: 2000, 195: 4000 }));
  expect(now.slice(0, 4)).toEqual([195, 190, 199, 198]);
});

// Catches receivers that are all replaced at once only in part.
it("takes other receivers altogether where all of them have fallen behind", () => {
  const moved = lanes(lanes([], behind()), Float64Array.from({ length: 200 }, (_, at) => (at < 20 ? 9000 : 0)));
  expect([...moved].sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, at) => at));
});

it("has words for those without a lane", () => {
  const shown = lanes([], behind());
  expect(others(shown, behind())).toBe("and 180 others, all within 179 packets.");
  expect(others(shown, behind({ 0: Number.NaN, 1: Number.NaN }))).toBe("and 180 others, all within 179 packets; 2 of them are not active.");
  const at = (value: number) => Float64Array.from({ length: 200 }, () => value);
  expect(others(shown, at(0))).toBe("and 180 others, with nothing outstanding.");
  expect(others(shown, at(Number.NaN))).toBe("and 180 others, not active.");
});
