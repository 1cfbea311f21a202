// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { mapLayout, nearest } from "./map";

const host = (name: string) => ({ name, prefix: "::/64", address: "::1" });
const spec = {
  nodes: [{ name: "n10", id: 10 }, { name: "n2", id: 2 }, { name: "spine", id: 1 }, { name: "lone", id: 9 }],
  hosts: [host("h1"), host("h2")],
  links: [{ a: "n2/eth1", b: "h1/eth0" }, { a: "n10/eth1", b: "h2/eth0" }, { a: "n2/eth2", b: "spine/eth1" }, { a: "n10/eth2", b: "spine/eth2" }],
};

it("puts nodes into tiers by their hops to the nearest host", () => {
  const { nodes, links } = mapLayout(spec);
  expect(Object.fromEntries(nodes.map((n) => [n.name, n.tier]))).toEqual({ h1: 0, h2: 0, n2: 1, n10: 1, lone: 1, spine: 2 });
  const from = (key: "x" | "y", names: string[]) => nodes.filter((n) => names.includes(n.name)).sort((a, b) => a[key] - b[key]).map((n) => n.name);
  expect(from("y", ["h1", "spine", "n2"])).toEqual(["spine", "n2", "h1"]);
  // Numbers as numbers: n2 before n10.
  expect(from("x", ["n10", "n2"])).toEqual(["n2", "n10"]);
  expect(links.length).toBe(4);
});

// Catches a picture that depends on the order in which the topology was written.
it("gives the same picture for the same topology", () => {
  const turned = { ...spec, nodes: [...spec.nodes].reverse(), links: [...spec.links].reverse() };
  const by = (layout: ReturnType<typeof mapLayout>) => layout.nodes.map((n) => [n.name, n.x, n.y]).sort();
  expect(by(mapLayout(turned))).toEqual(by(mapLayout(spec)));
});

it("finds the node under the pointer, and none in between", () => {
  const layout = mapLayout(spec);
  const { x, y } = layout.nodes.find((n) => n.name === "n2") ?? { x: 0, y: 0 };
  expect(nearest(layout, x + 3, y - 3, 10)?.name).toBe("n2");
  expect(nearest(layout, x + 30, y, 10)).toBeUndefined();
  expect(mapLayout({ nodes: [], links: [] }).nodes).toEqual([]);
});
