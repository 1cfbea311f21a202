// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { FabricMap } from "../api/types";
import { mapLayout, type MapLayout } from "./map";
import { clustersOf } from "./mapClusters";
import { cellAt, nearest, towards } from "./mapPlaces";

type Node = FabricMap["nodes"][number];
const mapOf = (nodes: Node[], links: [string, string][] = [], hosts: [string, string][] = []): FabricMap => {
  const at = (name: string) => nodes.findIndex((node) => node.name === name);
  return { apiVersion: "canopy/v1", kind: "Map", version: "1", nodes, hosts: hosts.map(([name, of]) => ({ name, node: at(of) })), links: links.map(([a, b], port) => ({ a: at(a), aPort: `eth${port}`, b: at(b), bPort: `eth${port}` })) };
};
const node = (name: string, id: number, tier: number, site?: string): Node => ({ name, id, tier, ...(site !== undefined && { site }) });
const where = (map: FabricMap, layout: MapLayout) => Object.fromEntries([...map.nodes, ...map.hosts].map(({ name }, at) => [name, `${layout.x[at]} ${layout.y[at]}`]));
const small = mapOf([node("n10", 10, 1), node("n2", 2, 1), node("spine", 1, 2), node("lone", 9, 1)], [["n2", "spine"], ["n10", "spine"]], [["h1", "n2"], ["h2", "n10"], ["h3", "n10"]]);

/** A number below a bound, the same ones each time. */
function drawn(seed: number): (bound: number) => number {
  let state = seed;
  return (bound) => {
    state = (state * 1_103_515_245 + 12_345) & 0x7fffffff;
    return Math.floor((state / 0x80000000) * bound);
  };
}

/** A fabric of some sites, with pods of leaves and spines below cores; `nodes` of it, by chance. */
function fabric(draw: (bound: number) => number, of: ReadonlySet<number>): FabricMap {
  const all = Array.from({ length: 90 }, (_, id) => {
    const [site, pod] = [["", "east", "west"][id % 3], Math.floor(id / 3) % 4];
    const kind = id % 10 === 0 ? "core" : id % 10 < 3 ? "spine" : "leaf";
    return { ...node(`${kind}${id}`, id, { core: 3, spine: 2, leaf: 1 }[kind], site || undefined), pod, kind };
  }).filter(({ id }) => of.has(id));
  const links: [string, string][] = [];
  for (const one of all) {
    for (const other of all) {
      const isNear = one.site === other.site && ((one.kind === "leaf" && other.kind === "spine" && one.pod === other.pod) || (one.kind === "spine" && other.kind === "core"));
      if (isNear && draw(3) > 0) links.push([one.name, other.name]);
    }
  }
  return mapOf(all.map(({ name, id, tier, site }) => node(name, id, tier, site ?? undefined)), links, all.filter(({ kind }) => kind === "leaf").flatMap(({ name, id }) => Array.from({ length: id % 4 }, (_, at): [string, string] => [`host${id}-${at}`, name])));
}

function nearestPair({ x, y }: MapLayout, count: number): number {
  let least = Infinity;
  for (let a = 0; a < count; a += 1) for (let b = 0; b < a; b += 1) least = Math.min(least, Math.hypot((x[a] ?? 0) - (x[b] ?? 0), (y[a] ?? 0) - (y[b] ?? 0)));
  return least;
}

it("has higher tiers above lower ones, hosts below their nodes, and names in the order of their numbers", () => {
  const { x, y } = mapLayout(small);
  const at = (name: string) => [...small.nodes, ...small.hosts].findIndex((one) => one.name === name);
  expect(y[at("spine")]).toBeLessThan(y[at("n2")] ?? 0);
  expect(y[at("h1")]).toBeGreaterThan(y[at("n2")] ?? 0);
  expect(x[at("h1")]).toBe(x[at("n2")]);
  expect(x[at("n2")]).toBeLessThan(x[at("n10")] ?? 0);
  expect(x[at("h2")]).toBeLessThan(x[at("h3")] ?? 0);
});

// Catches a picture that depends on the order in which the topology was written.
it("gives the same picture for the same topology", () => {
  const draw = drawn(7);
  const map = fabric(draw, new Set(Array.from({ length: 90 }, (_, id) => id)));
  const order = map.nodes.map((_, at) => at).reverse();
  const turned = (end: number) => order.indexOf(end);
  const other: FabricMap = { ...map, nodes: order.map((at) => map.nodes[at] as Node), hosts: [...map.hosts].reverse().map((host) => ({ ...host, node: turned(host.node) })), links: [...map.links].reverse().map((link) => ({ ...link, a: turned(link.a), b: turned(link.b) })) };
  expect(where(other, mapLayout(other))).toEqual(where(map, mapLayout(map)));
});

// Catches a node that moves away under the pointer because another one was added.
it("moves nothing when nodes come, go and come again, and puts no two of them into one place", () => {
  for (let seed = 1; seed <= 8; seed += 1) {
    const draw = drawn(seed);
    const there = new Set(Array.from({ length: 90 }, (_, id) => id).filter(() => draw(2) > 0));
    let map = fabric(draw, there);
    let layout = mapLayout(map);
    for (let step = 0; step < 12; step += 1) {
      for (let change = draw(6); change >= 0; change -= 1) {
        const id = draw(90);
        if (!there.delete(id)) there.add(id);
      }
      const before = where(map, layout);
      map = fabric(draw, there);
      layout = mapLayout(map, layout);
      const now = where(map, layout);
      const moved = Object.keys(now).filter((name) => name in before && before[name] !== now[name]);
      expect(moved, `seed ${seed}, step ${step}`).toEqual([]);
      expect(nearestPair(layout, map.nodes.length), `seed ${seed}, step ${step}`).toBeGreaterThan(30);
      expect(new Set(layout.cells.flatMap(({ nodes }) => nodes)).size).toBe(map.nodes.length);
    }
  }
}, 60_000);

it("moves a node whose site or tier is another one, and begins anew for another fabric", () => {
  const layout = mapLayout(small);
  const higher = { ...small, nodes: small.nodes.map((one) => (one.name === "lone" ? { ...one, tier: 2 } : one)) };
  const after = mapLayout(higher, layout);
  expect(after.y[3]).toBeLessThan(layout.y[3] ?? 0);
  expect(after.x.slice(0, 3)).toEqual(layout.x.slice(0, 3));
  const other = mapOf([node("a", 101, 1)]);
  expect(where(other, mapLayout(other, layout))).toEqual(where(other, mapLayout(other)));
});

it("puts sites beside each other in the order of their names, a later one to the right", () => {
  const two = mapOf([node("a", 1, 1, "west"), node("b", 2, 1, "east 10"), node("c", 3, 1, "east 2")]);
  const layout = mapLayout(two);
  expect(layout.sites.map(({ name }) => name)).toEqual(["east 2", "east 10", "west"]);
  const three = { ...two, nodes: [...two.nodes, node("d", 4, 1, "centre")] };
  expect(mapLayout(three, layout).sites.map(({ name }) => name)).toEqual(["east 2", "east 10", "west", "centre"]);
  expect(mapLayout(small).sites).toEqual([]);
});

it("finds the pods of a site: what is connected without its highest tier", () => {
  const pods = mapOf([node("core", 9, 3), node("s1", 1, 2), node("s2", 2, 2), node("l10", 10, 1), node("l2", 12, 1), node("l3", 13, 1), node("apart", 20, 1)], [["s1", "core"], ["s2", "core"], ["l10", "s1"], ["l2", "s1"], ["l3", "s2"], ["apart", "core"]]);
  const named = (map: FabricMap) => clustersOf(map).map(({ kind, nodes }) => `${kind}: ${nodes.map((at) => map.nodes[at]?.name).join(" ")}`);
  expect(named(pods)).toEqual(["pod: l2 l10 s1", "pod: l3 s2", "single: apart", "upper: core"]);
  // A single tier has nothing above it.
  expect(named(mapOf([node("a", 1, 1), node("b", 2, 1)], [["a", "b"]]))).toEqual(["pod: a b"]);
});

it("finds the node under the pointer, none in between, and the next one in a direction", () => {
  const layout = mapLayout(small);
  const [x = 0, y = 0] = [layout.x[1], layout.y[1]];
  expect(nearest(layout, x + 3, y - 3, 10)).toBe(1);
  expect(nearest(layout, x + 30, y, 10)).toBe(-1);
  expect(towards(layout, 1, 0, 1)).toBe(4);
  expect(towards(layout, 4, 0, 1)).toBe(-1);
  expect(cellAt(layout, x, y)?.nodes).toContain(1);
  const { bounds } = layout;
  expect(cellAt(layout, bounds.x - 500, bounds.y)).toBeUndefined();
  expect(cellAt(layout, bounds.x - 50, y, 200)?.nodes).toContain(1);
  expect(mapLayout(mapOf([])).x.length).toBe(0);
});

// Catches a layout that grows with the square of its nodes: 131,072 hosts are the most that a domain has.
it("lays out the largest fabric", () => {
  const leaves = Array.from({ length: 8000 }, (_, at) => node(`leaf${at}`, at, 1));
  const spines = Array.from({ length: 2000 }, (_, at) => node(`spine${at}`, 8000 + at, 2));
  const map: FabricMap = { apiVersion: "canopy/v1", kind: "Map", version: "1", nodes: [...leaves, ...spines], hosts: Array.from({ length: 131_072 }, (_, at) => ({ name: `host${at}`, node: at % 8000 })), links: leaves.flatMap((_, at) => [0, 1, 2, 3].map((up) => ({ a: at, aPort: `eth${up}`, b: 8000 + ((at + up) % 2000), bPort: `eth${at}` }))) };
  const { cells, bounds } = mapLayout(map);
  expect(cells.every(({ nodes }) => nodes.length <= 40)).toBe(true);
  expect(bounds.width / bounds.height).toBeGreaterThan(1);
  expect(bounds.width / bounds.height).toBeLessThan(4);
}, 60_000);
