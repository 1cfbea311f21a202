// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { FabricMap } from "../api/types";
import { indexOf, LAYERS, linksNeeding, linksOf, linkStates, nameOf, nextLink, nodesNeeding, ofBoth, stateAt, STATES, statesAt, statesOf, worstFirst, type Layer } from "./mapLayer";

const map: FabricMap = {
  apiVersion: "canopy/v1",
  kind: "Map",
  version: "1",
  nodes: ["n10", "n2", "n3"].map((name, id) => ({ name, id, tier: 1 })),
  hosts: [{ name: "h1", node: 0 }],
  links: [{ a: 0, aPort: "eth1", b: 3, bPort: "eth0" }, { a: 1, aPort: "eth1", b: 2, bPort: "eth1" }, { a: 0, aPort: "eth2", b: 2, bPort: "eth2" }],
};
const states = (octets: number[], layer: Layer | "nodes") => octets.map((octet) => STATES[stateAt(octet, layer)]);

it("has fixed scales", () => {
  expect(states([0, 1, 2, 3], "state")).toEqual(["ok", "pending", "degraded", "failed"]);
  expect(states([0, 1, 2, 3], "nodes")).toEqual(["ok", "pending", "degraded", "failed"]);
  expect(states([0, 69, 70, 94, 95, 254, 255], "load")).toEqual(["ok", "ok", "degraded", "degraded", "failed", "failed", "pending"]);
  expect(states([0, 99, 100, 199, 200, 254, 255], "queue")).toEqual(["ok", "ok", "degraded", "degraded", "failed", "failed", "pending"]);
  expect(states([0, 1, 9, 10, 254, 255], "loss")).toEqual(["ok", "degraded", "degraded", "failed", "failed", "pending"]);
});

// Catches a link that is drawn as not measured because one of its agents is away, and one that hides the bad direction behind the good one.
it("has the worse direction of a link, and one that is not measured behind one that is", () => {
  const both = (layer: Layer, a: number, b: number) => [...linkStates(statesOf(Uint8Array.of(a, b), layer), layer)].map((state) => STATES[state]);
  expect(both("loss", 255, 4)).toEqual(["degraded"]);
  expect(both("loss", 40, 255)).toEqual(["failed"]);
  expect(both("loss", 255, 0)).toEqual(["ok"]);
  expect(both("loss", 255, 255)).toEqual(["pending"]);
  expect(both("load", 30, 96)).toEqual(["failed"]);
  // Drained in one direction is drained.
  expect(both("state", 0, 1)).toEqual(["pending"]);
  for (const layer of LAYERS) for (let a = 0; a < 4; a += 1) for (let b = 0; b < 4; b += 1) expect(ofBoth(a, b, layer)).toBe(ofBoth(b, a, layer));
});

// Catches a list of a node's links that shows the first of hundreds, and none of those that are drawn in red.
it("lists links with the states of their lines, those that need someone first", () => {
  const octets = Uint8Array.of(0, 0, 255, 255, 10, 96, 75, 255);
  expect(worstFirst([0, 1, 2, 3], statesAt(octets, [0, 1, 2, 3], "load"))).toEqual([{ link: 2, state: "failed" }, { link: 3, state: "degraded" }, { link: 1, state: "pending" }, { link: 0, state: "ok" }]);
  expect(worstFirst([3, 1], [])).toEqual([{ link: 3, state: undefined }, { link: 1, state: undefined }]);
});

it("finds nodes and hosts by their names", () => {
  expect([0, 1, 2, 3].map((at) => indexOf(map, nameOf(map, at)))).toEqual([0, 1, 2, 3]);
  expect(indexOf(map, "n4")).toBe(-1);
});

it("names the links and nodes that need someone by the words of the layer, names in the order of their numbers", () => {
  expect(linksNeeding(map, Uint8Array.of(1, 3, 2), "state")).toBe("critical: n2/eth1--n3/eth1; warning: n10/eth2--n3/eth2; drained, not reported, or info: n10/eth1--h1/eth0");
  expect(linksNeeding(map, Uint8Array.of(1, 3, 2), "loss")).toBe("1\u00a0% or more: n2/eth1--n3/eth1; less than 1\u00a0%: n10/eth2--n3/eth2");
  expect(linksNeeding(map, Uint8Array.of(0, 0, 0), "state")).toBe("");
  expect(nodesNeeding(map, Uint8Array.of(1, 1, 3))).toBe("not connected: n3; not applied yet: n2, n10");
  const many: FabricMap = { ...map, nodes: Array.from({ length: 12 }, (_, id) => ({ name: `n${12 - id}`, id, tier: 1 })) };
  expect(nodesNeeding(many, new Uint8Array(12).fill(2))).toBe("with errors: n1, n2, n3, n4, n5 and 7 more");
});

// Catches a link that is taken for a host, and one that is found by another one's name.
it("has names of links behind those of nodes and hosts", () => {
  expect([4, 5, 6, 7].map((at) => nameOf(map, at))).toEqual(["n10/eth1--h1/eth0", "n2/eth1--n3/eth1", "n10/eth2--n3/eth2", ""]);
  for (let at = 0; at < 7; at += 1) expect(indexOf(map, nameOf(map, at))).toBe(at);
  expect(indexOf(map, "n3/eth1--n2/eth1")).toBe(-1);
});

// Catches a key that never comes back to the first link, and one that goes over the links of another node.
it("goes over the links of a node in the order of its ports, round their end", () => {
  const many: FabricMap = { ...map, links: [{ a: 0, aPort: "eth10", b: 1, bPort: "eth1" }, { a: 1, aPort: "eth2", b: 2, bPort: "eth1" }, { a: 2, aPort: "eth2", b: 0, bPort: "eth9" }] };
  expect(linksOf(many, 0)).toEqual([2, 0]);
  expect([nextLink(many, 0, -1, 1), nextLink(many, 0, 2, 1), nextLink(many, 0, 0, 1)]).toEqual([2, 0, 2]);
  expect([nextLink(many, 0, -1, -1), nextLink(many, 0, 0, -1), nextLink(many, 0, 2, -1)]).toEqual([0, 2, 0]);
  expect(nextLink(many, 3, -1, 1)).toBe(-1);
});
