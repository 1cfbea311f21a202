// SPDX-License-Identifier: Apache-2.0
// A map as few large values, which a worker is given without copying ten thousands of objects on the page's thread.
import type { FabricMap } from "../api/types";

/** Texts behind each other; the end of each. */
export interface Texts {
  all: string;
  ends: Int32Array;
}

export interface PackedMap {
  version: string;
  /** Names of nodes, then of hosts. */
  names: Texts;
  ids: Float64Array;
  tiers: Float64Array;
  /** Of each node: its place in `siteNames`, -1 without a site. */
  sites: Int32Array;
  siteNames: Texts;
  hostNodes: Int32Array;
  a: Int32Array;
  b: Int32Array;
  /** Ports of all links at `a`, then at `b`. */
  ports: Texts;
}

export function packed({ version, nodes, hosts, links }: FabricMap): PackedMap {
  const places = new Map<string, number>();
  const sites = Int32Array.from(nodes, ({ site }) => {
    if (typeof site !== "string") return -1;
    const place = places.get(site) ?? places.size;
    places.set(site, place);
    return place;
  });
  return {
    version,
    names: textsOf([...nodes, ...hosts].map(({ name }) => name)),
    ids: Float64Array.from(nodes, ({ id }) => id),
    tiers: Float64Array.from(nodes, ({ tier }) => tier),
    sites,
    siteNames: textsOf([...places.keys()]),
    hostNodes: Int32Array.from(hosts, ({ node }) => node),
    a: Int32Array.from(links, ({ a }) => a),
    b: Int32Array.from(links, ({ b }) => b),
    ports: textsOf([...links.map(({ aPort }) => aPort), ...links.map(({ bPort }) => bPort)]),
  };
}

/** What of it is moved to the worker instead of copied. */
export const buffersOf = ({ names, ids, tiers, sites, siteNames, hostNodes, a, b, ports }: PackedMap): ArrayBufferLike[] =>
  [names.ends, ids, tiers, sites, siteNames.ends, hostNodes, a, b, ports.ends].map(({ buffer }) => buffer);

export function unpacked({ version, names, ids, tiers, sites, siteNames, hostNodes, a, b, ports }: PackedMap): FabricMap {
  const [nameOf, siteOf, portOf] = [listOf(names), listOf(siteNames), listOf(ports)];
  return {
    apiVersion: "canopy/v1",
    kind: "Map",
    version,
    nodes: Array.from(ids, (id, at) => {
      const site = siteOf[sites[at] ?? -1];
      return { name: nameOf[at] ?? "", id, tier: tiers[at] ?? 0, ...(site !== undefined && { site }) };
    }),
    hosts: Array.from(hostNodes, (node, at) => ({ name: nameOf[ids.length + at] ?? "", node })),
    links: Array.from(a, (one, at) => ({ a: one, aPort: portOf[at] ?? "", b: b[at] ?? 0, bPort: portOf[a.length + at] ?? "" })),
  };
}

function textsOf(list: readonly string[]): Texts {
  let end = 0;
  return { all: list.join(""), ends: Int32Array.from(list, ({ length }) => (end += length)) };
}

const listOf = ({ all, ends }: Texts): string[] => Array.from(ends, (end, at) => all.slice(at ? ends[at - 1] : 0, end));
