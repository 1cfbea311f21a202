// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { WaitedFor } from "../api/types";
import { parts, percent, sentence, wait } from "./waited";

const of = (shares: readonly [string, number][], more: Partial<WaitedFor> = {}): WaitedFor => ({
  apiVersion: "canopy/v1",
  kind: "WaitedFor",
  group: "g",
  coversNs: 9_400_000_000,
  psns: 120,
  unknownPpm: 0,
  receivers: shares.map(([host, sharePpm]) => ({ host, node: "n5", sharePpm, waitNs: 34_400_000 })),
  left: 0,
  ...more,
});

test("each receiver with a share has a part, and all parts are the whole", () => {
  expect(parts(of([["r3", 974_100], ["r1", 25_900], ["r2", 0]]))).toEqual([
    { label: "r3", ppm: 974_100, kind: "receiver" },
    { label: "r1", ppm: 25_900, kind: "receiver" },
  ]);
  const many = parts(of(Array.from({ length: 10 }, (_, i) => [`r${i}`, 90_000]), { unknownPpm: 100_000 }));
  expect(many.map((part) => part.kind)).toEqual([...Array<string>(6).fill("receiver"), "rest", "unknown"]);
  expect(many.reduce((sum, part) => sum + part.ppm, 0)).toBe(1_000_000);
});

test("a rounded third is no other receiver", () => {
  expect(parts(of([["r1", 333_333], ["r2", 333_333], ["r3", 333_333]])).length).toBe(3);
});

test("without progress there is no part and the sentence states it", () => {
  expect(parts(of([["r1", 0]], { psns: 0 }))).toEqual([]);
  expect(sentence(of([["r1", 0]], { psns: 0 }))).toBe("Nothing was acknowledged to the source in the last seconds.");
  expect(sentence(of([]))).toBe("No receiver gets data.");
  expect(sentence(of([["r3", 974_100]]))).toBe("The source waited for r3 behind n5 most: 97.4 % of 120 PSNs in 9.4 s; ACKs came after 34 ms.");
  expect([wait(null), wait(410_000), percent(5)]).toEqual(["–", "0.41 ms", "0.0 %"]);
});

// Catches a bound that a receiver that the sentence does not name exceeds, and one where shares are not known.
test("the sentence has the next shares, and below which share all others are", () => {
  const after = (shares: readonly [string, number][], more: Partial<WaitedFor> = {}) => sentence(of(shares, more)).replace(/^.*? ms/, "");
  expect(after([["r3", 973_000], ["r1", 19_900], ["r2", 7100]])).toBe("; all others < 2 %.");
  expect(after([["r3", 730_000], ["r1", 220_000], ["r2", 50_000]])).toBe("; r1 22.0 %; r2 5.0 %.");
  expect(after([["r3", 730_000], ["r1", 120_000], ["r2", 80_000], ["r4", 70_000]])).toBe("; r1 12.0 %; r2 8.0 %; the other one < 8 %.");
  expect(after([["r3", 980_000], ["r1", 20_000]])).toBe("; the other one < 3 %.");
  expect(after([["r3", 1_000_000], ["r1", 0], ["r2", 0]])).toBe("; for no other.");
  // Those beyond the list.
  expect(after([["r3", 990_000]], { left: 5 })).toBe("; all others < 100 %.");
  expect(after([["r3", 900_000], ["r1", 5000]], { unknownPpm: 50_000 })).toBe(".");
  expect(sentence(of([["r3", 973_000], ["r1", 19_900], ["r2", 7100]]), (host) => `port of ${host} over K_min`)).toMatch(/; all others < 2 %; port of r3 over K_min\.$/);
});
