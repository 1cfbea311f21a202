// SPDX-License-Identifier: Apache-2.0
// What the worker of the map draws: the fabric with its places, values, and the part that is wanted. Values and what is wanted can be copied to it.
import type { FabricMap } from "../../api/types";
import { byName } from "../../lib/order";
import { nameOf } from "../../lib/mapLayer";
import type { MapLayout } from "../../lib/map";
import { asides, type Box } from "../../lib/mapPlaces";

export interface View {
  x: number;
  y: number;
  scale: number;
}

/** The fabric with its places. Indexes are those of the map. */
export interface Scene {
  /** How many of the places are of nodes; those of hosts follow. */
  nodes: number;
  names: string[];
  x: Float32Array;
  y: Float32Array;
  /** Ends of links, the names of their ports, and how far a link is aside of the line between its ends, where several have the same. */
  a: Int32Array;
  b: Int32Array;
  aPorts: string[];
  bPorts: string[];
  aside: Float32Array;
  cells: (Box & { name: string; nodes: number; isPod: boolean })[];
  cellOf: Int32Array;
  sites: (Box & { name: string })[];
  /** Units between the places of a row. */
  step: number;
}

/** Links between the same two cells are one line from far. */
export interface Bundles {
  a: Int32Array;
  b: Int32Array;
  links: Int32Array;
  /** Of each link: its bundle; -1 if it is within a cell. */
  of: Int32Array;
}

/** States of nodes, of directions and of links, as indexes in STATES. */
export interface Values {
  nodes: Uint8Array;
  directions: Uint8Array;
  links: Uint8Array;
  /** A link that is pending is not measured, and none that needs someone. */
  isMeasured: boolean;
}

export const TOKENS = ["--ok", "--pending", "--degraded", "--failed", "--ok-ground", "--pending-ground", "--degraded-ground", "--failed-ground", "--line", "--faint", "--text", "--raised", "--accent"] as const;
export type Token = (typeof TOKENS)[number];
export type Colours = Readonly<Record<Token, string>>;

/** What is to be drawn: the part of the fabric in a picture of this size, in CSS pixels. */
export interface Wanted {
  view: View;
  width: number;
  height: number;
  /** What is shown of it, without moving, is so much smaller at each side. */
  margin: readonly [x: number, y: number];
  /** Pixels of the screen in one of CSS. */
  ratio: number;
  /** Index of a node, host or link, in this order; -1 if none. */
  picked: number;
  colours: Colours;
}

export function sceneOf(map: FabricMap, layout: MapLayout): Scene {
  const count = map.nodes.length + map.hosts.length;
  const [a, b] = [Int32Array.from(map.links, (link) => link.a), Int32Array.from(map.links, (link) => link.b)];
  return {
    nodes: map.nodes.length,
    names: Array.from({ length: count }, (_, at) => nameOf(map, at)),
    x: layout.x,
    y: layout.y,
    a,
    b,
    aPorts: map.links.map((link) => link.aPort),
    bPorts: map.links.map((link) => link.bPort),
    aside: asides(a, b, count),
    cells: layout.cells.map(({ nodes, isPod, x, y, width, height }) => ({ x, y, width, height, isPod, nodes: nodes.length, name: spanOf(map, nodes) })),
    cellOf: layout.cellOf,
    sites: layout.sites.map(({ name, x, y, width, height }) => ({ x, y, width, height, name: name || "without a site" })),
    step: layout.step,
  };
}

/** Nodes by the first and last name of their lowest tier: "leaf1 … leaf64". */
function spanOf(map: FabricMap, nodes: readonly number[]): string {
  const lowest = Math.min(...nodes.map((at) => map.nodes[at]?.tier ?? 0));
  const names = nodes.filter((at) => map.nodes[at]?.tier === lowest).map((at) => map.nodes[at]?.name ?? "").sort(byName);
  const [first = "", last = ""] = [names[0], names.at(-1)];
  return first === last ? first : `${first} … ${last}`;
}

export function bundlesOf({ a, b, nodes, cellOf, cells }: Scene): Bundles {
  const of = new Int32Array(a.length).fill(-1);
  const known = new Map<number, number>();
  const [from, to, links]: [number[], number[], number[]] = [[], [], []];
  for (let at = 0; at < a.length; at += 1) {
    const [one = 0, other = 0] = [a[at], b[at]];
    if (one >= nodes || other >= nodes) continue;
    const [low, high] = [cellOf[one] ?? 0, cellOf[other] ?? 0].sort((p, q) => p - q) as [number, number];
    if (low === high) continue;
    const key = low * cells.length + high;
    const bundle = known.get(key) ?? from.length;
    if (bundle === from.length) {
      known.set(key, bundle);
      from.push(low);
      to.push(high);
      links.push(0);
    }
    links[bundle] = (links[bundle] ?? 0) + 1;
    of[at] = bundle;
  }
  return { a: Int32Array.from(from), b: Int32Array.from(to), links: Int32Array.from(links), of };
}

/** What is drawn at a scale: pods as cells, nodes, or nodes with the ports of their links. */
export type Level = "cells" | "nodes" | "ports";

/** Fabrics with fewer nodes are drawn node by node from any distance. */
export const FEW = 200;
/** Pixels between the places of a row: less, and nodes are one thing; more, and there is room for names of ports. */
const FAR = 13;
const NEAR = 100;

export const levelOf = (scale: number, { step, cells, x }: { step: number; cells: readonly unknown[]; x: Float32Array }): Level =>
  scale * step < FAR && x.length > FEW && cells.length > 1 ? "cells" : scale * step < NEAR ? "nodes" : "ports";
