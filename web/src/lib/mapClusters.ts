// SPDX-License-Identifier: Apache-2.0
// Which nodes belong together on the map: the pods of each site, and the tiers above them.
import type { FabricMap } from "../api/types";
import { groupBy } from "./groupBy";
import { byName } from "./order";

export interface Cluster {
  site: string;
  /** `upper`: nodes of a tier above the pods; `pod`: several nodes that are connected without these; `single`: nodes of a tier that are connected only through these. */
  kind: "upper" | "pod" | "single";
  /** Indexes in the map, in the order of names. */
  nodes: number[];
}

/** A pod that is larger is cut below its own highest tier, as a site is. */
const POD_MOST = 256;

/** The clusters of all sites, pods in the order of their first names; upper tiers with the lowest first. */
export function clustersOf(map: FabricMap): Cluster[] {
  const neighbours: number[][] = map.nodes.map(() => []);
  for (const { a, b } of map.links) {
    neighbours[a]?.push(b);
    neighbours[b]?.push(a);
  }
  const inOrder = map.nodes.map((_, at) => at).sort((a, b) => byName(map.nodes[a]?.name ?? "", map.nodes[b]?.name ?? ""));
  const rank = new Int32Array(map.nodes.length);
  inOrder.forEach((at, place) => (rank[at] = place));
  const tier = (at: number) => map.nodes[at]?.tier ?? 0;
  const found: Cluster[] = [];
  for (const [site, nodes] of groupBy(inOrder, (at) => map.nodes[at]?.site ?? "")) {
    const [upper, single, pods]: [number[], number[], number[][]] = [[], [], []];
    const parts = [nodes];
    for (let part = parts.pop(); part; part = parts.pop()) {
      const [lowest, highest] = [Math.min(...part.map(tier)), Math.max(...part.map(tier))];
      const rest = lowest === highest ? part : part.filter((at) => tier(at) !== highest);
      if (lowest !== highest) for (const at of part) if (tier(at) === highest) upper.push(at);
      for (const pod of connected(rest, neighbours)) {
        const [first = 0] = pod;
        if (pod.length === 1) single.push(first);
        else if (pod.length > POD_MOST && pod.some((at) => tier(at) !== tier(first))) parts.push(pod);
        else pods.push(pod);
      }
    }
    const sorted = (of: number[]) => of.sort((a, b) => (rank[a] ?? 0) - (rank[b] ?? 0));
    pods.forEach(sorted);
    pods.sort(([a = 0], [b = 0]) => (rank[a] ?? 0) - (rank[b] ?? 0));
    for (const pod of pods) found.push({ site, kind: "pod", nodes: pod });
    for (const [kind, of] of [["single", single], ["upper", upper]] as const) {
      for (const [, members] of [...groupBy(of, tier)].sort(([a], [b]) => a - b)) found.push({ site, kind, nodes: sorted(members) });
    }
  }
  return found;
}

/** The parts of some nodes that are connected by links among them. */
function connected(nodes: readonly number[], neighbours: readonly (readonly number[])[]): number[][] {
  const left = new Set(nodes);
  const parts: number[][] = [];
  for (const first of nodes) {
    if (!left.delete(first)) continue;
    const part = [first];
    // The part grows while it is walked.
    for (const at of part) {
      for (const other of neighbours[at] ?? []) {
        if (left.delete(other)) part.push(other);
      }
    }
    parts.push(part);
  }
  return parts;
}
