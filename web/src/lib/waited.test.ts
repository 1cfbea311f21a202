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
