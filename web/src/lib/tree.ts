// SPDX-License-Identifier: Apache-2.0
// A group's tree from left to right by hop: where each node and receiver is drawn.
import type { TreeNode } from "../api/types";
import { byName } from "./order";
import { WORST_FIRST, worst, type State } from "./state";

export interface Place {
  /** A node's name, or a receiver's host. */
  name: string;
  kind: "node" | "receiver" | "strip";
  roles: readonly string[];
  /** Hops from the headend. */
  hop: number;
  /** In rows from the top; may be fractional. */
  row: number;
  /** What a strip stands for. */
  receivers: readonly string[];
}

export interface Edge {
  from: string;
  to: string;
  /** Addresses that identify its branches: of a strip those of its receivers, else one. */
  addresses: readonly string[];
}

export interface Layout {
  places: Place[];
  edges: Edge[];
  rows: number;
  hops: number;
}

/** Receivers that are drawn one by one; above, those of an edge are one strip. */
export const DRAWN = 64;

/** Pixels between columns, and of the box of a node, where there is room. Less than the least, and a rate has no room beside its line. */
const COLUMN = { most: 236, least: 180 };
const BOX = { most: 124, least: 112 };
/** Characters of a name that the least box has room for. */
const LONGEST = 12;
/** Left and right of all boxes together. */
export const ASIDE = 16;

/** Rows below its first branch that a parent is drawn at most, so that the first screen of a tree of many rows has its headend. */
const BELOW = 5;

/** Places of a tree's nodes and receivers. A parent is drawn at the middle of its branches, where that is near the first one. */
export function layout(tree: readonly TreeNode[]): Layout {
  const byName = new Map(tree.map((node) => [node.node, node]));
  const receivers = tree.reduce((sum, node) => sum + node.branches.filter((b) => b.kind === "receiver").length, 0);
  const places: Place[] = [];
  const edges: Edge[] = [];
  const seen = new Set<string>();
  let rows = 0;
  let hops = 0;
  const put = (place: Omit<Place, "row">, row: number) => {
    places.push({ ...place, row });
    hops = Math.max(hops, place.hop);
    return row;
  };
  const visit = (node: TreeNode, hop: number): number => {
    seen.add(node.node);
    const under: number[] = [];
    const mine: TreeNode["branches"] = [];
    for (const branch of node.branches) {
      const child = branch.kind === "node" ? byName.get(branch.name) : undefined;
      if (child && !seen.has(child.node)) under.push(visit(child, hop + 1));
      else if (branch.kind === "node") continue;
      else if (receivers > DRAWN) {
        mine.push(branch);
        continue;
      } else under.push(put({ name: branch.name, kind: "receiver", roles: [], hop: hop + 1, receivers: [] }, rows++));
      edges.push({ from: node.node, to: branch.name, addresses: [branch.address] });
    }
    if (mine.length) {
      const strip = `${node.node} receivers`;
      under.push(put({ name: strip, kind: "strip", roles: [], hop: hop + 1, receivers: mine.map(({ name }) => name) }, rows++));
      edges.push({ from: node.node, to: strip, addresses: mine.map(({ address }) => address) });
    }
    const [first = 0, last = first] = [under[0], under.at(-1)];
    const row = under.length ? Math.min((first + last) / 2, first + BELOW) : rows++;
    return put({ name: node.node, kind: "node", roles: node.roles, hop, receivers: [] }, row);
  };
  for (const root of tree.filter((node) => !node.parent || !byName.has(node.parent))) visit(root, 0);
  return { places, edges, rows, hops };
}

/** The state of a place by those of nodes and hosts, of a strip the worst of its receivers. */
export const stateOf = ({ name, kind, receivers }: Place, states: ReadonlyMap<string, State>): State =>
  kind === "strip" ? worst(receivers.map((host) => states.get(host) ?? "ok")) : (states.get(name) ?? "ok");

/** What is written in a strip: how many of its receivers work, "1 failed, 2 degraded", and of the worst three that need someone the names. */
export function ofStrip({ receivers }: Place, states: ReadonlyMap<string, State>): { ready: number; words: string; worst: readonly string[] } {
  const by = WORST_FIRST.filter((state) => state !== "ok").map((state) => ({ state, hosts: receivers.filter((host) => states.get(host) === state).sort(byName) }));
  const words = by.filter(({ hosts }) => hosts.length).map(({ state, hosts }) => `${hosts.length} ${state}`);
  const troubled = by.flatMap(({ hosts }) => hosts);
  return { ready: receivers.length - troubled.length, words: words.join(", "), worst: troubled.slice(0, 3) };
}

/** The thinnest line, pixels, and the rate up to which a line is so thin, bits per second. */
const THIN = { width: 1.5, rate: 1e6 };
/** A line does not become wider than this. */
const WIDEST = 9;

/** How wide the line of an edge is: a pixel more for ten times the rate, 4.5 at 1 Gbit/s. Without a rate it is thin. */
export function widthOf(bitsPerSecond: number): number {
  if (!(bitsPerSecond > THIN.rate)) return THIN.width;
  return Math.min(WIDEST, THIN.width + Math.log10(bitsPerSecond / THIN.rate));
}

/** How far columns are apart, and how wide boxes are, so that the tree fits into so many pixels, as far as it can. */
export function sizesOf({ hops, places }: Layout, room: number): { column: number; box: number; width: number } {
  const narrow = places.some(({ name, kind }) => kind !== "strip" && name.length > LONGEST) ? BOX.most : BOX.least;
  const least = ASIDE + hops * COLUMN.least + narrow;
  const most = ASIDE + hops * COLUMN.most + BOX.most;
  const share = most > least ? Math.min(1, Math.max(0, (room - least) / (most - least))) : 1;
  const [column, box] = [Math.floor(COLUMN.least + share * (COLUMN.most - COLUMN.least)), Math.floor(narrow + share * (BOX.most - narrow))];
  return { column, box, width: ASIDE + hops * column + box };
}
