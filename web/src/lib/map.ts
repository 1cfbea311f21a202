// SPDX-License-Identifier: Apache-2.0
// Where nodes are on the map: by tier, the number of hops to the nearest host. The same topology always gives the same picture.
import type { Topology } from "../api/types";

export interface MapNode {
  name: string;
  tier: number;
  x: number;
  y: number;
  isHost: boolean;
}

export interface MapLink {
  a: number;
  b: number;
  /** Ends as in the topology. */
  ends: readonly [string, string];
}

export interface MapLayout {
  nodes: MapNode[];
  links: MapLink[];
  width: number;
  height: number;
}

/** Units between the places of a row, at least. */
export const STEP = 90;
const TIER = 120;
/** The picture is at most so much wider than high. */
const ASPECT = 2.2;
/** Nodes of a tier that are in one row, at least; a larger tier has several rows. */
const PER_ROW = 120;

/** Hosts at the bottom, each tier above the one before, sorted by name with numbers as numbers. */
export function mapLayout(spec: Topology["spec"]): MapLayout {
  const names = [...(spec.hosts ?? []).map((host) => host.name), ...spec.nodes.map((node) => node.name)];
  const index = new Map(names.map((name, at) => [name, at]));
  const hosts = (spec.hosts ?? []).length;
  const neighbours: number[][] = names.map(() => []);
  const links: MapLink[] = [];
  for (const link of spec.links) {
    const [a, b] = [index.get(device(link.a)), index.get(device(link.b))];
    if (a === undefined || b === undefined) continue;
    neighbours[a]?.push(b);
    neighbours[b]?.push(a);
    links.push({ a, b, ends: [link.a, link.b] });
  }
  const tiers = tiersOf(names.length, hosts, neighbours);
  const rows = rowsOf(names, tiers);
  const widest = Math.max(1, ...rows.map((row) => row.length));
  const tier = Math.max(TIER, (widest * STEP) / ASPECT / Math.max(1, rows.length));
  const nodes: MapNode[] = names.map((name, at) => ({ name, tier: tiers[at] ?? 0, x: 0, y: 0, isHost: at < hosts }));
  rows.forEach((row, up) => {
    const step = (widest * STEP) / row.length;
    row.forEach((at, place) => {
      const node = nodes[at];
      if (!node) return;
      node.x = (place + 0.5) * step;
      node.y = (rows.length - 1 - up) * tier + tier / 2;
    });
  });
  return { nodes, links, width: widest * STEP, height: rows.length * tier };
}

export const device = (endpoint: string): string => endpoint.split("/")[0] ?? endpoint;

function tiersOf(count: number, hosts: number, neighbours: readonly (readonly number[])[]): number[] {
  const tiers = new Array<number>(count).fill(-1);
  let edge = Array.from({ length: hosts }, (_, at) => at);
  for (const at of edge) tiers[at] = 0;
  for (let tier = 1; edge.length; tier += 1) {
    const next: number[] = [];
    for (const at of edge) {
      for (const other of neighbours[at] ?? []) {
        if (tiers[other] !== -1) continue;
        tiers[other] = tier;
        next.push(other);
      }
    }
    edge = next;
  }
  // What no host is connected to is with the first tier of nodes.
  return tiers.map((tier) => (tier < 0 ? 1 : tier));
}

function rowsOf(names: readonly string[], tiers: readonly number[]): number[][] {
  const order = new Intl.Collator("en", { numeric: true });
  const rows: number[][] = [];
  const highest = Math.max(0, ...tiers);
  const perRow = Math.max(PER_ROW, Math.ceil(Math.sqrt((names.length * ASPECT * TIER) / STEP)));
  for (let tier = 0; tier <= highest; tier += 1) {
    const members = tiers.flatMap((of, at) => (of === tier ? [at] : []));
    members.sort((a, b) => order.compare(names[a] ?? "", names[b] ?? ""));
    for (let from = 0; from < members.length; from += perRow) rows.push(members.slice(from, from + perRow));
  }
  return rows;
}

/** The node nearest to a point, if it is within `reach`. */
export function nearest(layout: MapLayout, x: number, y: number, reach: number): MapNode | undefined {
  let found: MapNode | undefined;
  let best = reach * reach;
  for (const node of layout.nodes) {
    const distance = (node.x - x) ** 2 + (node.y - y) ** 2;
    if (distance <= best) [found, best] = [node, distance];
  }
  return found;
}
