// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { FabricMap } from "../../api/types";
import { mapLayout } from "../../lib/map";
import { Room } from "./labels";
import { bundlesOf, levelOf, sceneOf } from "./scene";

const node = (name: string, id: number, tier: number) => ({ name, id, tier });
const link = (a: number, b: number) => ({ a, aPort: `eth${b}`, b, bPort: `eth${a}` });
/** Two pods of two nodes below a core; two links between core and s1. */
const map: FabricMap = {
  apiVersion: "canopy/v1",
  kind: "Map",
  version: "1",
  nodes: [node("core", 1, 3), node("s1", 2, 2), node("l1", 3, 1), node("s2", 4, 2), node("l2", 5, 1)],
  hosts: [{ name: "h1", node: 2 }],
  links: [link(0, 1), link(1, 0), link(1, 2), link(3, 4), link(0, 3), link(2, 5)],
};

it("draws links with the same ends beside each other, whichever end comes first", () => {
  const { aside } = sceneOf(map, mapLayout(map));
  expect([...aside]).toEqual([-3.5, -3.5, 0, 0, 0, 0]);
});

it("makes one line of the links between two cells, and none of links within a cell and to hosts", () => {
  const scene = sceneOf(map, mapLayout(map));
  const { of, links } = bundlesOf(scene);
  expect([...of]).toEqual([0, 0, -1, -1, 1, -1]);
  expect([...links]).toEqual([2, 1]);
  expect(scene.cells.map(({ name, nodes }) => `${name}: ${nodes}`).sort()).toEqual(["core: 1", "l1: 2", "l2: 2"]);
});

it("shows pods from far, ports from near, and no cells of a small fabric", () => {
  const large = { step: 90, cells: [1, 2], x: new Float32Array(1000) };
  expect([0.01, 0.14, 0.15, 1, 1.2].map((scale) => levelOf(scale, large))).toEqual(["cells", "cells", "nodes", "nodes", "ports"]);
  expect(levelOf(0.01, { ...large, x: new Float32Array(100) })).toBe("nodes");
  expect(levelOf(0.01, { ...large, cells: [1] })).toBe("nodes");
});

it("has room for a label where nothing is, and inside the picture only", () => {
  const room = new Room(200, 100);
  room.block(90, 40, 20, 20);
  expect(room.take(80, 45, 20, 10)).toBe(false);
  expect(room.take(20, 45, 40, 10)).toBe(true);
  expect(room.take(50, 45, 20, 10)).toBe(false);
  expect([room.take(-1, 0, 20, 10), room.take(190, 0, 20, 10), room.take(0, 95, 20, 10)]).toEqual([false, false, false]);
  // What reaches beyond the picture takes what is in it.
  room.block(-50, -50, 60, 60);
  expect(room.take(2, 2, 10, 10)).toBe(false);
});
