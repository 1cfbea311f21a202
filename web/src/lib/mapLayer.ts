// SPDX-License-Identifier: Apache-2.0
// What the octets of the map's layers mean: the state of a node, of a direction of a link, and of a link, on fixed scales.
import type { FabricMap, MapLayerName } from "../api/types";
import { count } from "./format";
import { byName } from "./order";
import { WORST_FIRST, type State } from "./state";

/** What the lines of the map show. */
export type Layer = Exclude<MapLayerName, "nodes">;
export const LAYERS: readonly Layer[] = ["state", "load", "queue", "loss"];

/** States by their octets in what is drawn. */
export const STATES: readonly State[] = ["ok", "pending", "degraded", "failed"];
/** The octet of a direction that is not measured, in layers of what is measured. */
export const NOT_MEASURED = 255;
/** From which octets on a direction is drawn as degraded, and as failed. */
const SCALES: Readonly<Record<Exclude<Layer, "state">, readonly [degraded: number, failed: number]>> = { load: [70, 95], queue: [100, 200], loss: [1, 10] };
const PENDING = 1;

/** What each layer's states are called. */
export const LEGENDS: Readonly<Record<MapLayerName, Readonly<Record<State, string>>>> = {
  nodes: { ok: "in sync", pending: "not applied yet", degraded: "with errors", failed: "not connected" },
  state: { ok: "in service", pending: "drained, not reported, or info", degraded: "warning", failed: "critical" },
  load: { ok: "below 70\u00a0% of the rate", pending: "not measured", degraded: "70\u00a0% or more", failed: "95\u00a0% or more" },
  queue: { ok: "below K_min", pending: "not measured", degraded: "K_min or more, packets marked", failed: "K_max or more, sources slowed down" },
  loss: { ok: "none known", pending: "not measured", degraded: "less than 1\u00a0%", failed: "1\u00a0% or more" },
};

/** The state of an octet, as an index in [`STATES`]. */
export function stateAt(octet: number, layer: MapLayerName): number {
  if (layer === "state" || layer === "nodes") return Math.min(octet, 3);
  if (octet === NOT_MEASURED) return PENDING;
  const [degraded, failed] = SCALES[layer];
  return octet >= failed ? 3 : octet >= degraded ? 2 : 0;
}

/** The states of a layer's octets. */
export const statesOf = (octets: Uint8Array, layer: MapLayerName): Uint8Array => octets.map((octet) => stateAt(octet, layer));

/** The worse of both directions; where that is measured, one that is not only if the other is not either. */
export function ofBoth(a: number, b: number, layer: Layer): number {
  if (layer !== "state" && (a === PENDING || b === PENDING)) return a === PENDING ? b : a;
  return Math.max(a, b);
}

/** The states of links by those of their directions. */
export function linkStates(directions: Uint8Array, layer: Layer): Uint8Array {
  return Uint8Array.from({ length: directions.length >> 1 }, (_, at) => ofBoth(directions[2 * at] ?? 0, directions[2 * at + 1] ?? 0, layer));
}

/** The states of some links, as indexes in [`STATES`]. */
export const statesAt = (octets: Uint8Array, links: readonly number[], layer: Layer): number[] =>
  links.map((link) => ofBoth(stateAt(octets[2 * link] ?? 0, layer), stateAt(octets[2 * link + 1] ?? 0, layer), layer));

/** Some links with their states, those that need someone first. Without values in the order of the map. */
export function worstFirst(links: readonly number[], states: readonly number[]): { link: number; state: State | undefined }[] {
  const rank = (state: State | undefined) => (state ? WORST_FIRST.indexOf(state) : 0);
  return links.map((link, at) => ({ link, state: STATES[states[at] ?? -1] })).sort((a, b) => rank(a.state) - rank(b.state));
}

/** Nodes and hosts of a map: indexes of links follow theirs where something is picked. */
export const devicesOf = (map: FabricMap): number => map.nodes.length + map.hosts.length;

/** The name of a node, host or link by its index in nodes, followed by hosts, followed by links: "n1", "n1/eth1--n2/eth1". */
export function nameOf(map: FabricMap, at: number): string {
  if (at >= devicesOf(map)) return at - devicesOf(map) < map.links.length ? endsOf(map, at - devicesOf(map)).join("--") : "";
  return (at < map.nodes.length ? map.nodes[at]?.name : map.hosts[at - map.nodes.length]?.name) ?? "";
}

/** The reverse of [`nameOf`]; -1 if nothing has the name. */
export function indexOf(map: FabricMap, name: string): number {
  if (name.includes("--")) {
    const link = map.links.findIndex((_, at) => endsOf(map, at).join("--") === name);
    if (link >= 0) return devicesOf(map) + link;
  }
  const node = map.nodes.findIndex((one) => one.name === name);
  if (node >= 0) return node;
  const host = map.hosts.findIndex((one) => one.name === name);
  return host < 0 ? -1 : map.nodes.length + host;
}

/** Both ends of a link: "n1/eth1", "n2/eth1". */
export function endsOf(map: FabricMap, at: number): readonly [string, string] {
  const link = map.links[at];
  return link ? [`${nameOf(map, link.a)}/${link.aPort}`, `${nameOf(map, link.b)}/${link.bPort}`] : ["", ""];
}

/** The links of a node or host, in the order of its ports. */
export function linksOf(map: FabricMap, device: number): number[] {
  const port = (at: number) => (map.links[at]?.a === device ? map.links[at].aPort : (map.links[at]?.bPort ?? ""));
  return map.links.flatMap(({ a, b }, at) => (a === device || b === device ? [at] : [])).sort((p, q) => byName(port(p), port(q)));
}

/** The next link of a node or host, or the one before, round their end; the first or last one if none is picked. -1 if it has none. */
export function nextLink(map: FabricMap, device: number, picked: number, by: 1 | -1): number {
  const links = linksOf(map, device);
  const at = links.indexOf(picked);
  return links.at(at < 0 ? (by > 0 ? 0 : -1) : (at + by) % links.length) ?? -1;
}

/** Nodes that need someone, by words, the worst first: "not connected: n4; not applied yet: n1, n3 and 4 more". */
export const nodesNeeding = (map: FabricMap, states: Uint8Array): string => needing(states, "nodes", (at) => map.nodes[at]?.name ?? "", 5);

/** Links by the words of their states, without those that are well: "critical: a--b; warning: c--d". One that is not measured is none of them. */
export const linksNeeding = (map: FabricMap, states: Uint8Array, layer: Layer): string => needing(states, layer, (at) => endsOf(map, at).join("--"), 3);

function needing(states: Uint8Array, layer: MapLayerName, name: (at: number) => string, shown: number): string {
  const parts: string[] = [];
  for (const state of WORST_FIRST) {
    if (state === "ok" || (state === "pending" && layer !== "state" && layer !== "nodes")) continue;
    const wanted = STATES.indexOf(state);
    const [first, all] = firstNames(states, wanted, name, shown);
    if (all) parts.push(`${LEGENDS[layer][state]}: ${first.join(", ")}${all > shown ? ` and ${count(all - shown)} more` : ""}`);
  }
  return parts.join("; ");
}

/** The first names in their order, and how many there are. Not sorted: there may be as many as there are links. */
function firstNames(states: Uint8Array, wanted: number, name: (at: number) => string, shown: number): [string[], number] {
  const first: string[] = [];
  let all = 0;
  for (let at = 0; at < states.length; at += 1) {
    if (states[at] !== wanted) continue;
    all += 1;
    const next = name(at);
    if (first.length === shown && byName(next, first[shown - 1] ?? "") > 0) continue;
    first.splice(first.filter((one) => byName(one, next) < 0).length, 0, next);
    first.length = Math.min(first.length, shown);
  }
  return [first, all];
}
