// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import type { FabricMap, Flow, Link, Problem, QueueState } from "../api/types";
import type { Point } from "./chart";
import { congested, heaviest, isQuiet, measuredPorts, notified, overTime, reaction, sources } from "./congestion";

const none = { cnps: { notify: 0, rateReduce: 0, pause: 0, resume: 0, failed: 0 }, suppressed: 0, rateLimitedFlow: 0, rateLimitedPort: 0, unknownSourceQp: 0 };
const link = (name: string, state: QueueState, marked = 0) => ({ metadata: { name }, status: { congestion: { ...none, state, marked } } }) as unknown as Link;
const flow = (src: string, sharePermille: number, more: object = {}) => ({ ...none, src, dst: "2001:db8::77", sharePermille, rateBps: sharePermille * 1e6, ...more }) as unknown as Flow;

describe("ports", () => {
  // Catches a port that had trouble and is not listed, and an order that changes with every burst.
  it("are listed by their marks, then by name", () => {
    const links = [link("n1/eth3", "Marked", 5), link("n1/eth2", "AboveKMax"), link("n1/eth1", "AboveKMin"), link("n1/eth0", "Quiet"), link("n0/eth9", "Unknown")];
    expect(congested(links, []).map(({ link: { metadata }, rank }) => [metadata.name, rank])).toEqual([["n1/eth3", "earlier"], ["n1/eth1", "marking"], ["n1/eth2", "over"]]);
  });
  it("with an open problem are the first, whatever the last sample had", () => {
    const problem = { code: "LinkCongested", object: { kind: "port", name: "n1/eth0" } } as Problem;
    const other = { code: "LinkLossy", object: { kind: "port", name: "n0/eth9" } } as Problem;
    expect(congested([link("n0/eth1", "AboveKMin", 9), link("n1/eth0", "Quiet"), link("n0/eth9", "Quiet")], [problem, other]).map((found) => [found.link.metadata.name, found.rank, found.problem])).toEqual([["n1/eth0", "over", problem], ["n0/eth1", "marking", undefined]]);
    const silent = { metadata: { name: "n2/eth1" }, status: { congestion: null } } as unknown as Link;
    expect(congested([silent], [])).toEqual([]);
  });
  // Catches directions out of hosts, which no agent measures, among those that should have reported.
  it("are counted by the map's layer", () => {
    const of = { nodes: [{}, {}], hosts: [{}], links: [{ a: 0, b: 1 }, { a: 2, b: 1 }] } as unknown as FabricMap;
    expect(measuredPorts(of, new Uint8Array([0, 255, 255, 201]))).toBe("2 of 3 ports have thresholds and have reported their queue within a minute");
    expect(measuredPorts(of, new Uint8Array([255, 255, 0, 255]))).toBe("");
  });
});

describe("sources", () => {
  // Catches two flows of a host as two sources, and copies of a group that have no source.
  it("are hosts, also of a group's copies, ranked by share", () => {
    const [s1, s2, demo] = [{ host: "s1" }, { host: "s2" }, { group: "demo" }];
    const flows = [flow("2001:db8::1", 200, { ...s1, unknownSourceQp: 2 }), flow("fcfe::1", 500, { ...s2, ...demo, cnps: { ...none.cnps, notify: 3 } }), flow("2001:db8::1", 100, s1), flow("2001:db8::9", 200), flow("2001:db8::2", 10, { ...s2, ...demo }), flow("2001:db8::2", 9, s2)];
    const found = sources(flows);
    expect(found.map(({ name, group: of, flows: many, permille, rateBps }) => [name, of, many, permille, rateBps])).toEqual([
      ["s2", "demo", 1, 500, 500e6],
      ["s1", undefined, 2, 300, 300e6],
      ["2001:db8::9", undefined, 1, 200, 200e6],
      ["s2", "demo", 1, 10, 10e6],
      ["s2", undefined, 1, 9, 9e6],
    ]);
    expect(heaviest(found)).toBe("s2 sends most, for group demo: 50 % of what leaves there, counted only while the queue is above K_min.");
    expect(heaviest(found.slice(1))).toBe("s1 sends most: 30 % of what leaves there.");
    expect(found.slice(0, 3).map(({ counts }) => reaction(counts))).toEqual(["3 Long-haul CNPs (Notify 3)", "not possible: its source QP is not known", "not notified"]);
    expect([heaviest([]), heaviest(sources([flow("2001:db8::1", 0)]))]).toEqual(["No flow is counted there now.", "No flow is counted there now."]);
  });
  it("were notified in words", () => {
    const counts = { ...none, cnps: { notify: 4, rateReduce: 8, pause: 0, resume: 0, failed: 0 }, suppressed: 2, rateLimitedPort: 1 };
    expect([notified(counts), notified(none)]).toEqual(["12 Long-haul CNPs (Notify 4, Rate Reduce 8), 3 held back", "no Long-haul CNP"]);
    expect(reaction({ ...none, suppressed: 1, unknownSourceQp: 0 })).toBe("no Long-haul CNP, 1 held back");
  });
});

// Catches shares of a time that was not measured, and a mean that hides a burst.
it("the time over a threshold is a share of what was measured", () => {
  const of = (points: Point[]) => overTime(points, 1, { kMinBytes: 32, kMaxBytes: 64 });
  expect([isQuiet([null, [1, 32]], { kMinBytes: 32, kMaxBytes: 64 }), isQuiet([[1, 33]], { kMinBytes: 32, kMaxBytes: 64 })]).toEqual([true, false]);
  expect(of([null, null])).toBe("Nothing was measured in the last 5 min.");
  expect(of([[1, 32], null])).toBe("Not over K_min in any of 1 measured second. The largest depth was 32 B.");
  expect(of([[1, 64], [1, 1]])).toBe("Over K_min in 50 % of 2 measured seconds, never over K_max. The largest depth was 64 B.");
  expect(of([[1, 65], [1, 40], null, [1, 1], [1, 1]])).toBe("Over K_max in 25 % of 4 measured seconds, over K_min in 50 %. The largest depth was 65 B.");
});
