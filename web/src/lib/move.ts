// SPDX-License-Identifier: Apache-2.0
// How far the programs of a group's nodes are confirmed, and the nodes that only the next tree of a move has.
import type { Group } from "../api/types";
import { count, counted } from "./format";
import { firstOf } from "./order";

export interface Progress {
  /** Nodes that have confirmed what the group asks of them, without an error. */
  confirmed: number;
  all: number;
  /** The tree moves: the one in force carries the data until every node has confirmed the next one. */
  moves: boolean;
  /** Nodes that only the next tree has; they carry nothing yet. */
  coming: readonly string[];
}

type Node = Group["status"]["nodes"][number];

const isConfirmed = ({ desiredGeneration, observedGeneration, errors }: Node): boolean => errors.length === 0 && (observedGeneration ?? 0) >= desiredGeneration;

export function progress({ tree, nodes, conditions }: Pick<Group["status"], "tree" | "nodes" | "conditions">): Progress {
  const inForce = new Set(tree.map(({ node }) => node));
  const moved = conditions.find(({ type }) => type === "Moved");
  return {
    confirmed: nodes.filter(isConfirmed).length,
    all: nodes.length,
    moves: moved?.status === "False" && moved.reason === "Making",
    coming: tree.length ? nodes.map(({ node }) => node).filter((node) => !inForce.has(node)) : [],
  };
}

/** The same in words; empty where every node has confirmed and nothing moves. */
export function inWords({ confirmed, all, moves, coming }: Progress): string {
  if (all === 0 || (confirmed === all && !moves && coming.length === 0)) return "";
  const nodes = `${count(confirmed)} of ${counted(all, "node")} confirmed`;
  if (coming.length === 0) return moves ? `The tree moves: ${nodes}. The next tree has no other nodes.` : `${nodes} what the group asks of them.`;
  const only = `${firstOf(coming)} ${coming.length === 1 ? "is" : "are"} of the next tree only`;
  return moves ? `The tree moves: ${nodes}. ${only}.` : `${nodes}. ${only}, to which the group has not moved.`;
}
