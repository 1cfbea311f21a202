// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { matches, next, port, type Found } from "./search";

const node = (name: string): Found => ({ kind: "node", name, to: `/nodes/${name}` });

it("offers what begins with the text before what has it within", () => {
  const all = ["leaf10", "spine1", "leaf1", "leaf2"].map(node);
  expect(matches("LEAF1 ", all).map((f) => f.name)).toEqual(["leaf10", "leaf1"]);
  expect(matches("1", all).map((f) => f.name)).toEqual(["leaf10", "spine1", "leaf1"]);
  expect(matches("e1", all).map((f) => f.name)).toEqual(["spine1"]);
  expect([matches("", all), matches("  ", all), matches("x", all)]).toEqual([[], [], []]);
});

it("ends at a bound, however many there are", () => {
  const many = Array.from({ length: 10_000 }, (_, i) => node(`leaf${i}`));
  expect(matches("leaf", many).map((f) => f.name)).toEqual(["leaf0", "leaf1", "leaf2", "leaf3", "leaf4", "leaf5"]);
});

it("knows the port of a node by its name", () => {
  const nodes = new Set(["n1"]);
  expect(port("n1/eth1.3", nodes)).toEqual([{ kind: "link", name: "n1/eth1.3", to: "/links/n1/eth1.3" }]);
  expect([port("n2/eth1", nodes), port("n1/", nodes), port("n1/a/b", nodes), port("n1", nodes)]).toEqual([[], [], [], []]);
});

it("goes round at the ends of the list", () => {
  expect([next(0, -1, 3), next(2, 1, 3), next(0, 1, 3), next(0, 1, 0)]).toEqual([2, 0, 1, 0]);
});
