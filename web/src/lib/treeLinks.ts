// SPDX-License-Identifier: Apache-2.0
// The ports that a group's tree sends through, and which of them are congested.
import type { Link, TreeNode } from "../api/types";
import { byName } from "./order";
import { WORST_FIRST, type State } from "./state";

/** The ports that data takes from the headend to the receivers of an edge, and from there to one of them: "n1/eth2". */
export function portsTo(tree: readonly TreeNode[], edge: string, address: string): string[] {
  const byNode = new Map(tree.map((node) => [node.node, node]));
  const ports: string[] = [];
  let [node, isNext] = [byNode.get(edge), (branch: TreeNode["branches"][number]) => branch.kind === "receiver" && branch.address === address];
  // A tree is no deeper than it has nodes.
  while (node && ports.length <= tree.length) {
    const branch = node.branches.find(isNext);
    if (branch) ports.unshift(`${node.node}/${branch.port}`);
    const child = node.node;
    isNext = ({ kind, name }) => kind === "node" && name === child;
    node = node.parent ? byNode.get(node.parent) : undefined;
  }
  return ports;
}

/** Ports whose queue is above a threshold now, with which. */
export function overThreshold(links: readonly Link[]): Map<string, "K_max" | "K_min"> {
  const over = { AboveKMax: "K_max", AboveKMin: "K_min" } as const;
  return new Map(links.flatMap(({ metadata, status }) => {
    const which = (over as Partial<Record<string, "K_max" | "K_min">>)[status.congestion?.state ?? ""];
    return which ? [[metadata.name, which] as const] : [];
  }));
}

/** The first of these ports that is above a threshold: "port n2/eth2 over K_min"; empty if none is. */
export function firstOver(ports: readonly string[], over: ReadonlyMap<string, string>): string {
  const port = ports.find((one) => over.get(one) === "K_max") ?? ports.find((one) => over.has(one));
  return port === undefined ? "" : `port ${port} over ${over.get(port) ?? ""}`;
}

/** What goes through a port of the tree. */
export type Carries = "data" | "feedback";

/** The ports that a tree sends through: data towards receivers, feedback towards the headend and the source. */
export function directions(tree: readonly TreeNode[]): Map<string, Carries> {
  const down = tree.flatMap(({ node, branches }) => branches.map(({ port }) => [`${node}/${port}`, "data"] as const));
  const up = tree.map(({ node, upstreamPort }) => [`${node}/${upstreamPort}`, "feedback"] as const);
  // A port that has both is one of data.
  return new Map([...up, ...down]);
}

const DEPTHS = { AboveKMax: ["failed", "over K_max"], AboveKMin: ["degraded", "over K_min"], Marked: ["pending", "marked"] } as const;

export interface BusyPort {
  link: Link;
  carries: Carries;
  state: State;
  /** "over K_max". */
  word: string;
}

/** Those of the tree's ports whose queue is not quiet, the worst first. */
export function busyPorts(tree: readonly TreeNode[], links: readonly Link[]): BusyPort[] {
  const of = directions(tree);
  const found = links.flatMap((link): BusyPort[] => {
    const carries = of.get(link.metadata.name);
    const depth = (DEPTHS as Partial<Record<string, readonly [State, string]>>)[link.status.congestion?.state ?? ""];
    return carries && depth ? [{ link, carries, state: depth[0], word: depth[1] }] : [];
  });
  const marked = ({ link }: BusyPort) => link.status.congestion?.marked ?? 0;
  return found.sort((a, b) => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state) || marked(b) - marked(a) || byName(a.link.metadata.name, b.link.metadata.name));
}
