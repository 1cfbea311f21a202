// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { GroupSample } from "../api/types";
import { Race, verdict, waitedFor } from "./race";

const sample = (node: string, time: number, high: number, branches: [string, number | null, number][]): GroupSample =>
  ({ node, timeUnixNs: time, high, branches: branches.map(([address, next, bytes]) => ({ address, next, bytes, lastFeedbackNs: 5 })) }) as unknown as GroupSample;

// Catches lanes measured against another node's sample: r2 is 10 packets behind at its own edge, whatever n1 has meanwhile.
it("measures each receiver at its own edge", () => {
  const race = new Race(["r1", "r2", "r3"]);
  race.update([sample("n1", 1e9, 1000, [["r1", 1000, 0]]), sample("n2", 1e9, 510, [["r2", 500, 0], ["r3", null, 0]])]);
  expect([...race.behind]).toEqual([0, 10, Number.NaN]);
  expect([race.share(0, 10), race.share(1, 10), race.share(1, 40), race.share(2, 10), race.share(0, 0)]).toEqual([1, 0, 0.75, 0, 1]);
  expect(race.furthest()).toBe(10);
});

// Catches a rate from a sample that is shown twice, which would be 0 every other time.
it("computes rates from two samples of a node", () => {
  const race = new Race(["r1"]);
  race.update([sample("n1", 1e9, 10, [["r1", 10, 1000]])]);
  race.update([sample("n1", 3e9, 20, [["r1", 20, 3000]])]);
  race.update([sample("n1", 3e9, 20, [["r1", 20, 3000]])]);
  expect(race.rate[0]).toBe(8000);
});

it("follows the minimum from the headend to a receiver", () => {
  const samples = [sample("n6", 1, 100, [["n4", 90, 0], ["n5", 95, 0]]), sample("n4", 1, 100, [["r1", 100, 0], ["r2", 90, 0]]), sample("n5", 1, 100, [["r3", 95, 0]])];
  const childOf = new Map([["n4", "n4"], ["n5", "n5"]]);
  expect(waitedFor("n6", samples, childOf)).toEqual(["n4", "r2"]);
  expect(waitedFor("n6", [sample("n6", 1, 100, [["n4", 100, 0]])], childOf)).toEqual([]);
  // A node that is a child of itself does not end the page.
  expect(waitedFor("a", [sample("a", 1, 9, [["x", 1, 0]])], new Map([["x", "a"]])).length).toBeLessThan(4);
});

// Catches a sentence that names one receiver while the accent line leads to another that is as far behind.
it("names the receiver that the accent line leads to", () => {
  const receivers = ["r1", "r2", "r3"].map((host) => ({ host, address: host }));
  const race = new Race(["r1", "r2", "r3"]);
  expect(verdict(race, receivers, undefined)).toBe("No edge has reported positions of receivers yet.");
  race.update([sample("n1", 1e9, 100, [["r1", 90, 0], ["r2", 90, 0], ["r3", 95, 0]])]);
  expect(verdict(race, receivers, "r2")).toMatch(/^r2 is furthest behind: 10 packets .*; the accent line/);
  expect(verdict(race, receivers, "r3")).toMatch(/^r1 is furthest behind: 10 packets .*\. The headend waits for r3: /);
  expect(verdict(race, receivers, "n9")).toMatch(/The headend waits for another branch: /);
  expect(verdict(race, receivers, undefined)).toMatch(/^r1 is furthest behind: 10 packets that its edge forwarded are not acknowledged\.$/);
  // What else is known is of the one that the sentence names.
  expect(verdict(race, receivers, "r2", (at) => `; of ${receivers[at]?.host}`)).toMatch(/ are not acknowledged; of r2; the accent line/);
  race.update([sample("n1", 2e9, 100, [["r1", 100, 0], ["r2", 100, 0], ["r3", 100, 0]])]);
  expect(verdict(race, receivers, undefined)).toBe("Every receiver acknowledged everything that its edge has forwarded.");
});
