// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { TreeNode } from "../api/types";
import type { State } from "./state";
import { DRAWN, layout, ofStrip, sizesOf, stateOf, widthOf } from "./tree";

const node = (name: string, parent: string | null, branches: [string, "node" | "receiver"][]): TreeNode => ({
  node: name,
  parent,
  roles: ["transit"],
  sid: "::",
  upstreamPort: "eth1",
  branches: branches.map(([to, kind], at) => ({ name: to, kind, address: `fc::${to}`, port: `eth${at + 2}`, qpn: null })),
});

it("puts each hop in a column and a parent between its branches", () => {
  const { places, edges, rows, hops } = layout([
    node("n6", null, [["n4", "node"], ["n5", "node"]]),
    node("n4", "n6", [["r1", "receiver"], ["r2", "receiver"]]),
    node("n5", "n6", [["r3", "receiver"]]),
  ]);
  const at = Object.fromEntries(places.map((p) => [p.name, [p.hop, p.row]]));
  expect(at).toEqual({ n6: [0, 1.25], n4: [1, 0.5], r1: [2, 0], r2: [2, 1], n5: [1, 2], r3: [2, 2] });
  expect([rows, hops, edges.length]).toEqual([3, 2, 5]);
});

// Catches a headend that is drawn below the first screen, because the middle of its branches is there.
it("puts a parent of many rows near its first branch", () => {
  const many = Array.from({ length: 40 }, (_, i): [string, "receiver"] => [`r${i}`, "receiver"]);
  const { places } = layout([node("n1", null, [["n2", "node"]]), node("n2", "n1", many)]);
  expect(places.filter((place) => place.kind === "node").map((place) => [place.name, place.row])).toEqual([["n2", 5], ["n1", 5]]);
});

// Catches a tree of hundreds of lines of receivers, and a page that never ends drawing nodes that name each other.
it("draws many receivers as one strip per edge, and a circle once", () => {
  const many = Array.from({ length: DRAWN + 1 }, (_, i): [string, "receiver"] => [`r${i}`, "receiver"]);
  const { places, edges } = layout([node("n1", null, many)]);
  expect(places.map((p) => [p.kind, p.receivers.length])).toEqual([["strip", DRAWN + 1], ["node", 0]]);
  // The rate of its line is that of all its receivers, and the accent line leads to it.
  expect(edges.map(({ from, addresses }) => [from, addresses.length, addresses[64]])).toEqual([["n1", DRAWN + 1, "fc::r64"]]);
  const circle = layout([node("a", null, [["b", "node"]]), node("b", "a", [["a", "node"]])]);
  expect(circle.places.length).toBe(2);
});

// Catches a strip that is drawn as well although one of its receivers acknowledges nothing.
it("has a strip in the worst state of its receivers, with how many need someone and the worst three", () => {
  const many = Array.from({ length: DRAWN + 1 }, (_, i): [string, "receiver"] => [`r${i}`, "receiver"]);
  const [strip, edge] = layout([node("n1", null, many)]).places;
  if (!strip || !edge) throw new Error("nothing is drawn");
  const states = new Map<string, State>([["r40", "pending"], ["r10", "degraded"], ["r9", "degraded"], ["r3", "failed"], ["n1", "pending"], ["r999", "failed"]]);
  expect([stateOf(strip, states), stateOf(edge, states), stateOf(strip, new Map())]).toEqual(["failed", "pending", "ok"]);
  expect(ofStrip(strip, states)).toEqual({ ready: DRAWN - 3, words: "1 failed, 2 degraded, 1 pending", worst: ["r3", "r9", "r10"] });
  expect(ofStrip(strip, new Map())).toEqual({ ready: DRAWN + 1, words: "", worst: [] });
});

// Catches a tree over the cores whose receivers are right of the window: 1,041 px are what a page of 1,280 px has for it.
it("has narrower columns where that makes the tree fit, and the widest where there is room", () => {
  const chain = (names: string[]) => layout(names.map((name, at) => node(name, names[at - 1] ?? null, [[names[at + 1] ?? "host1", at + 1 < names.length ? "node" : "receiver"]])));
  const five = chain(["leaf1", "spine1", "core1", "spine2", "leaf2"]);
  expect(five.hops).toBe(5);
  expect(sizesOf(five, 1041).width).toBeLessThanOrEqual(1041);
  expect(sizesOf(five, 1041).width).toBeGreaterThan(1030);
  expect(sizesOf(five, Infinity)).toEqual({ column: 236, box: 124, width: 1320 });
  expect(sizesOf(five, 350)).toEqual({ column: 180, box: 112, width: 1028 });
  // Names keep their room.
  expect(sizesOf(chain(["leaf1", "replication-node-1"]), 100).box).toBe(124);
});

// Catches a line whose width is by the rate itself, so that only the fastest edge is seen, and one that a rate that is not known makes wide.
it("has lines a pixel wider for ten times the rate", () => {
  expect([Number.NaN, 0, 1, 1e6].map(widthOf)).toEqual([1.5, 1.5, 1.5, 1.5]);
  expect(widthOf(1e9)).toBeCloseTo(4.5);
  expect(widthOf(2e11) - widthOf(2e10)).toBeCloseTo(1);
  expect(widthOf(1e30)).toBe(9);
});
