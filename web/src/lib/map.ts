// SPDX-License-Identifier: Apache-2.0
// Where nodes and hosts are on the map: by site, tier and pod. The same map always gives the same picture, and what comes later moves nothing.
//
// A site is a block beside the others. In it, the upper tiers are above and the pods below, in rows; a pod has its tiers above each other. Each tier
// of these is a band of places: one per node, and as many between them, which are free for nodes that come later. Where these do not suffice, there
// are new bands above the upper tiers, or below the pods, where nothing is in the way.
import type { FabricMap } from "../api/types";
import { groupBy } from "./groupBy";
import { clustersOf, type Cluster } from "./mapClusters";
import type { Box } from "./mapPlaces";
import { byName } from "./order";

/** Units between the places of a row, at least. */
export const STEP = 90;
/** Units between rows: a node, its name, its hosts, and their names. */
const ROW = 150;
/** The picture is about so much wider than high. */
const ASPECT = 2.2;
/** Nodes that are in one row of a pod, whatever its shape. */
const ONE_ROW = 12;
/** Nodes of a cell, about, if they are in no pod: those that are next to each other in at most so many rows. */
const CELL = 24;
const CELL_ROWS = 4;
/** Below its node, where hosts begin, and what their rows are apart. */
const HOSTS_BELOW = 56;
const HOST_ROW = 12;
const HOSTS_WIDE = 72;

/** Places of the nodes of one tier in a block. */
interface Band {
  tier: number;
  x: number[];
  y: number[];
  /** The first places are for those that were there first, in rows of so many. */
  perRow: number;
}

/** A pod, or nodes of a tier that are in none. */
interface Block extends Box {
  site: string;
  kind: Cluster["kind"];
  bands: Band[];
}

interface Place {
  block: Block;
  band: Band;
  slot: number;
}

/** What is one thing from far: a pod, or neighbours of a tier. */
export interface Cell extends Box {
  nodes: number[];
  isPod: boolean;
}

export interface Site extends Box {
  name: string;
}

export interface MapLayout {
  bounds: Box;
  /** Of nodes, then of hosts. */
  x: Float32Array;
  y: Float32Array;
  /** Index in `cells` of each node. */
  cellOf: Int32Array;
  cells: Cell[];
  sites: Site[];
  /** For the next layout: how wide places are, and what is where. */
  step: number;
  places: Map<number, Place>;
  hosts: Map<string, readonly [node: number, x: number, y: number]>;
}

export const siteOf = (node: FabricMap["nodes"][number]): string => node.site ?? "";

/** `before`: what is shown now; a node of it stays where it is unless its site or tier is another one. */
export function mapLayout(map: FabricMap, before?: MapLayout): MapLayout {
  const clusters = clustersOf(map);
  if (before && map.nodes.some((node) => before.places.has(node.id))) return withPlaces(map, placed(map, clusters, before), before.step, before);
  // How much pods and upper tiers need is known then: pods in longer rows, and for a small fabric wider places, fill a wide picture.
  let places = placed(map, clusters, undefined, STEP);
  const longer = Math.max(1, Math.sqrt(lacking(places)));
  if (longer > 1.05) places = placed(map, clusters, undefined, STEP, longer);
  const step = STEP * Math.min(3, Math.max(1, lacking(places)));
  if (step > 1.05 * STEP) places = placed(map, clusters, undefined, step, longer);
  return withPlaces(map, places, step > 1.05 * STEP ? step : STEP);
}

/** How much wider what is placed would have to be. */
function lacking(places: ReadonlyMap<number, Place>): number {
  const { width, height } = boundsOf(blocksOf(places));
  return (height * ASPECT) / Math.max(1, width);
}

const blocksOf = (places: ReadonlyMap<number, Place>): Set<Block> => new Set([...places.values()].map(({ block }) => block));

/** A place for every node, by its id. `longer`: rows of pods, than their area asks for. */
function placed(map: FabricMap, clusters: readonly Cluster[], before?: MapLayout, step = before?.step ?? STEP, longer = 1): Map<number, Place> {
  const places = new Map<number, Place>();
  const taken = new Map<Band, Set<number>>();
  const take = (node: number, place: Place) => {
    places.set(map.nodes[node]?.id ?? 0, place);
    const slots = taken.get(place.band) ?? new Set<number>();
    taken.set(place.band, slots.add(place.slot));
  };
  map.nodes.forEach((node, at) => {
    const old = before?.places.get(node.id);
    if (old && old.block.site === siteOf(node) && old.band.tier === node.tier) take(at, old);
  });
  const isPlaced = (node: number) => places.has(map.nodes[node]?.id ?? 0);
  const blocksBySite = groupBy(blocksOf(places), ({ site }) => site);
  const bySite = groupBy(clusters, ({ site }) => site);
  const names = [...bySite.keys()].sort(byName);
  const total = names.reduce((sum, name) => sum + areaOf(bySite.get(name) ?? [], step), 0);
  let right = Math.max(0, ...[...blocksBySite.values()].flat().map((block) => block.x + block.width));
  const isLast = (blocks: readonly Block[]) => blocks.some((block) => block.x + block.width >= right);
  for (const name of names) {
    const known = blocksBySite.get(name) ?? [];
    const fresh = known.length === 0;
    const waiting = (bySite.get(name) ?? []).flatMap((cluster) => {
      const rest = fresh ? cluster.nodes : fill(map, cluster, known, places, taken, take).filter((node) => !isPlaced(node));
      return rest.length ? [{ ...cluster, nodes: rest }] : [];
    });
    if (!waiting.length) continue;
    const box = boundsOf(known);
    const wanted = longer * Math.sqrt(total * ASPECT) * (areaOf(bySite.get(name) ?? [], step) / Math.max(1, total));
    const width = fresh ? wanted : isLast(known) ? Math.max(box.width, wanted) : box.width;
    const left = fresh ? (places.size ? right + 3 * step : 0) : box.x;
    const made = arranged(map, waiting, { left, width, top: box.y, bottom: box.y + box.height, step, mayGrow: fresh || isLast(known) });
    for (const { block, nodes } of made) {
      for (const band of block.bands) nodes.filter((node) => map.nodes[node]?.tier === band.tier).forEach((node, slot) => take(node, { block, band, slot }));
      right = Math.max(right, block.x + block.width);
    }
  }
  return places;
}

/** Gives nodes of a cluster, part of which is placed, the free places next to it. Returns the nodes. */
function fill(map: FabricMap, { kind, nodes }: Cluster, known: readonly Block[], places: ReadonlyMap<number, Place>, taken: ReadonlyMap<Band, Set<number>>, take: (node: number, place: Place) => void): number[] {
  const own = new Set(nodes.flatMap((node) => places.get(map.nodes[node]?.id ?? 0)?.block ?? []));
  for (const node of nodes) {
    const { id = 0, tier = 0 } = map.nodes[node] ?? {};
    if (places.has(id)) continue;
    // Those of no pod are with any others of their tier.
    const blocks = kind === "pod" ? own : known.filter((block) => block.kind === kind);
    for (const block of blocks) {
      const band = block.bands.find((one) => one.tier === tier);
      const slot = band?.x.findIndex((_, at) => !taken.get(band)?.has(at)) ?? -1;
      if (!band || slot < 0) continue;
      take(node, { block, band, slot });
      break;
    }
  }
  return nodes;
}

interface Room {
  left: number;
  width: number;
  /** Upper tiers go above, pods below. */
  top: number;
  bottom: number;
  step: number;
  mayGrow: boolean;
}

function arranged(map: FabricMap, clusters: readonly Cluster[], { left, width, top, bottom, step, mayGrow }: Room): { block: Block; nodes: number[] }[] {
  const columns = mayGrow ? Infinity : Math.max(1, Math.floor(width / step));
  const lower = clusters.filter(({ kind }) => kind !== "upper").map((cluster) => {
    const wide = cluster.kind === "pod" ? columns : Math.min(columns, Math.max(ONE_ROW, Math.ceil(width / step)));
    return { block: blockOf(map, cluster, wide, step), nodes: cluster.nodes };
  });
  const whole = Math.max(mayGrow ? width : Math.min(width, columns * step), ...lower.map(({ block }) => block.width));
  let [x, y, high, used] = [0, bottom, 0, 0];
  const rows: Block[][] = [[]];
  for (const { block } of lower) {
    if (x > 0 && x + block.width > whole) {
      [x, y, high] = [0, y + high + ROW / 2, 0];
      rows.push([]);
    }
    move(block, left + x, y);
    rows.at(-1)?.push(block);
    used = Math.max(used, x + block.width);
    [x, high] = [x + block.width + step, Math.max(high, block.height)];
  }
  // What is in one row only is as wide as that, and the last row is in the middle.
  const last = rows.at(-1) ?? [];
  if (rows.length > 1) for (const block of last) move(block, block.x + (left + used - Math.max(...last.map((one) => one.x + one.width))) / 2, block.y);
  const upper = clusters.filter(({ kind }) => kind === "upper").map((cluster) => {
    const room = used || (mayGrow ? Math.max(width, ONE_ROW * step) : width);
    const most = Math.max(1, Math.floor(room / step));
    return { block: blockOf(map, cluster, Math.min(columns, most), step, Math.min(room, 4 * step * cluster.nodes.length)), nodes: cluster.nodes, room };
  });
  let above = top;
  for (const { block, room } of upper) {
    above -= block.height + (bottom > top ? 0 : fan(room));
    move(block, left + (room - block.width) / 2, above);
  }
  return [...lower, ...upper];
}

/** Space below an upper tier: lines to a wide one would be flat otherwise. */
const fan = (width: number): number => Math.max(0, Math.min(900, width / 10) - ROW / 2);

function blockOf(map: FabricMap, { site, kind, nodes }: Cluster, most: number, step: number, width = 0): Block {
  const tiers = [...groupBy(nodes, (node) => map.nodes[node]?.tier ?? 0)].sort(([a], [b]) => b - a);
  const largest = Math.max(...tiers.map(([, of]) => of.length));
  const wanted = kind === "pod" ? (largest <= ONE_ROW ? largest : Math.ceil(Math.sqrt(largest * ASPECT * (ROW / STEP)))) : largest;
  const columns = Math.max(1, Math.min(most, wanted));
  const whole = Math.max(columns * step, width);
  let y = ROW / 2;
  const bands = tiers.map(([tier, of]): Band => {
    const band = bandOf(tier, of.length, Math.min(columns, of.length), whole, y);
    y += Math.ceil(of.length / band.perRow) * ROW;
    return band;
  });
  return { site, kind, bands, x: 0, y: 0, width: whole, height: y - ROW / 2 };
}

function bandOf(tier: number, count: number, perRow: number, width: number, top: number): Band {
  const rows = Math.ceil(count / perRow);
  // Rows of the same length, as far as that goes.
  const even = Math.ceil(count / rows);
  const step = width / even;
  const [x, y]: [number[], number[]] = [[], []];
  for (let at = 0; at < count; at += 1) {
    const row = Math.floor(at / even);
    const inRow = Math.min(even, count - row * even);
    // Lines to the rows below pass between the nodes of a row.
    const aside = rows > 1 ? (row % 2 ? step : -step) / 4 : 0;
    x.push(width / 2 + (at % even - (inRow - 1) / 2) * step + aside);
    y.push(top + row * ROW);
  }
  for (let at = 0; at < count; at += 1) {
    x.push((x[at] ?? 0) + step / 2);
    y.push((y[at] ?? 0) - ROW * 0.4);
  }
  return { tier, x, y, perRow: even };
}

function move(block: Block, x: number, y: number): void {
  const [dx, dy] = [x - block.x, y - block.y];
  for (const band of block.bands) {
    band.x = band.x.map((at) => at + dx);
    band.y = band.y.map((at) => at + dy);
  }
  [block.x, block.y] = [x, y];
}

/** What clusters need, about, in square units. */
const areaOf = (clusters: readonly Cluster[], step: number): number => clusters.reduce((sum, { nodes }) => sum + nodes.length * step * ROW, 0) * 1.2;

function boundsOf(boxes: Iterable<Box>): Box {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y, width, height } of boxes) [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + width), Math.max(bottom, y + height)];
  return left === Infinity ? { x: 0, y: 0, width: 0, height: 0 } : { x: left, y: top, width: right - left, height: bottom - top };
}

function withPlaces(map: FabricMap, places: Map<number, Place>, step: number, before?: MapLayout): MapLayout {
  const [x, y] = [new Float32Array(map.nodes.length + map.hosts.length), new Float32Array(map.nodes.length + map.hosts.length)];
  map.nodes.forEach(({ id }, at) => {
    const place = places.get(id);
    [x[at], y[at]] = [place?.band.x[place.slot] ?? 0, place?.band.y[place.slot] ?? 0];
  });
  const hosts = placeHosts(map, x, y, before);
  const blocks = blocksOf(places);
  const bySite = groupBy(blocks, ({ site }) => site);
  const sites = [...bySite].map(([name, of]) => ({ name, ...boundsOf(of) })).sort((a, b) => a.x - b.x);
  return { bounds: boundsOf(blocks), x, y, sites: sites.length > 1 || sites.some(({ name }) => name) ? sites : [], ...cellsOf(map, places, x, y), step, places, hosts };
}

/** The bar of a host is below its node, where it was before, or in a free place. */
function placeHosts(map: FabricMap, x: Float32Array, y: Float32Array, before?: MapLayout): MapLayout["hosts"] {
  const all: MapLayout["hosts"] = new Map();
  const first = map.nodes.length;
  const byNode = groupBy(map.hosts.map((_, at) => at), (at) => map.hosts[at]?.node ?? 0);
  for (const [node, of] of byNode) {
    const id = map.nodes[node]?.id ?? 0;
    const kept = before ? of.filter((at) => before.hosts.get(map.hosts[at]?.name ?? "")?.[0] === id) : [];
    const points = kept.map((at) => before?.hosts.get(map.hosts[at]?.name ?? "")?.slice(1) as [number, number]);
    const added = of.filter((at) => !kept.includes(at)).sort((a, b) => byName(map.hosts[a]?.name ?? "", map.hosts[b]?.name ?? ""));
    const free = kept.length ? added.map(() => widestGap(points)) : spread(added.length);
    [...kept, ...added].forEach((at, place) => {
      const point = place < kept.length ? points[place] : free[place - kept.length];
      const [dx, dy] = point ?? [0, HOSTS_BELOW];
      [x[first + at], y[first + at]] = [(x[node] ?? 0) + dx, (y[node] ?? 0) + dy];
      all.set(map.hosts[at]?.name ?? "", [id, dx, dy]);
    });
  }
  return all;
}

/** Places of hosts below their node. */
function spread(count: number): [number, number][] {
  const rows = count <= 5 ? 1 : count <= 16 ? 2 : 4;
  const perRow = Math.ceil(count / rows);
  const step = Math.min(HOSTS_WIDE / 3, HOSTS_WIDE / perRow);
  return Array.from({ length: count }, (_, at) => {
    const row = Math.floor(at / perRow);
    const inRow = Math.min(perRow, count - row * perRow);
    return [(at % perRow - (inRow - 1) / 2) * step, HOSTS_BELOW + row * HOST_ROW];
  });
}

/** The place below a node that is farthest from those that are taken; it is taken then. */
function widestGap(points: [number, number][]): [number, number] {
  let [found, best]: [[number, number], number] = [[0, HOSTS_BELOW], -1];
  for (let row = 0; row < 4; row += 1) {
    for (let column = -12; column <= 12; column += 1) {
      const [px, py] = [(column * HOSTS_WIDE) / 24, HOSTS_BELOW + row * HOST_ROW];
      const distance = Math.min(HOSTS_WIDE, ...points.map(([x, y]) => Math.hypot(x - px, 2 * (y - py))));
      if (distance > best) [found, best] = [[px, py], distance];
    }
  }
  points.push(found);
  return found;
}

/** A pod is a cell; of what is in none, neighbours of a row are. */
function cellsOf(map: FabricMap, places: ReadonlyMap<number, Place>, x: Float32Array, y: Float32Array): Pick<MapLayout, "cells" | "cellOf"> {
  const partOf = ({ block, band, slot }: Place): string => {
    if (block.kind === "pod") return "";
    const at = slot % (band.x.length / 2);
    const rows = Math.min(CELL_ROWS, Math.ceil(band.x.length / 2 / band.perRow));
    const parts = Math.max(1, Math.round((band.perRow * rows) / CELL));
    return `${Math.floor(at / band.perRow / rows)} ${Math.floor(((at % band.perRow) * parts) / band.perRow)}`;
  };
  const placed = map.nodes.flatMap(({ id }, at) => {
    const place = places.get(id);
    return place ? [{ at, of: place.block.kind === "pod" ? place.block : place.band, part: partOf(place) }] : [];
  });
  const cellOf = new Int32Array(map.nodes.length);
  const cells: Cell[] = [];
  for (const [key, members] of groupBy(placed, ({ of }) => of)) {
    for (const part of groupBy(members, (member) => member.part).values()) {
      const nodes = part.map(({ at }) => at);
      for (const node of nodes) cellOf[node] = cells.length;
      const around = boundsOf(nodes.map((node) => ({ x: (x[node] ?? 0) - STEP / 2, y: (y[node] ?? 0) - ROW / 3, width: STEP, height: ROW * 0.9 })));
      cells.push({ nodes, isPod: "kind" in key, ...around });
    }
  }
  return { cells, cellOf };
}
