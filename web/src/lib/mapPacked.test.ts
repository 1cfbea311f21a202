// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { FabricMap } from "../api/types";
import { buffersOf, packed, unpacked } from "./mapPacked";

const map: FabricMap = {
  apiVersion: "canopy/v1",
  kind: "Map",
  version: "7.3",
  nodes: [{ name: "n1", id: 4_294_967_295, tier: 2, site: "east" }, { name: "a\nb", id: 2, tier: 1 }, { name: "", id: 3, tier: 1, site: "" }, { name: "größe", id: 4, tier: 0, site: "east" }],
  hosts: [{ name: "h1", node: 1 }, { name: "h2", node: 0 }],
  links: [{ a: 0, aPort: "eth1", b: 1, bPort: "" }, { a: 1, aPort: "eth12", b: 4, bPort: "eth0" }],
};

it("gives back every map as it was, whatever names have in them", () => {
  expect(unpacked(packed(map))).toEqual(map);
  const empty: FabricMap = { ...map, nodes: [], hosts: [], links: [] };
  expect(unpacked(packed(empty))).toEqual(empty);
});

// Catches an array that is copied on the page's thread because it is missing in the list of those that are moved.
it("moves all its arrays to the worker", () => {
  const whole = packed(map);
  const moved = structuredClone(whole, { transfer: buffersOf(whole) as ArrayBuffer[] });
  expect(unpacked(moved)).toEqual(map);
  const left = [whole, whole.names, whole.siteNames, whole.ports].flatMap((of) => Object.values(of)).filter((of) => ArrayBuffer.isView(of));
  expect(left.map(({ byteLength }) => byteLength)).toEqual(left.map(() => 0));
});
