// SPDX-License-Identifier: Apache-2.0
// The ports that a group's tree sends through, and which of them are congested.
import type { Link, TreeNode } from "../api/types";

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

/** The first of these ports that is over a threshold: "port n2/eth2 over K_min"; empty if none is. */
export function firstOver(ports: readonly string[], over: ReadonlyMap<string, string>): string {
  const port = ports.find((one) => over.get(one) === "K_max") ?? ports.find((one) => over.has(one));
  return port === undefined ? "" : `port ${port} over ${over.get(port) ?? ""}`;
}
