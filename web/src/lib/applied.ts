// SPDX-License-Identifier: Apache-2.0
// What each node of a group's tree was given beside what it has applied.
import type { Group, Problem } from "../api/types";
import { count, counted } from "./format";
import { byName } from "./order";
import { ofSeverity, WORST_FIRST, type State } from "./state";

export interface Applied {
  node: string;
  roles: readonly string[];
  /** Only the next tree of a move has it. */
  isComing: boolean;
  wanted: number;
  applied: number | null;
  state: State;
  word: string;
  /** Since when, where a problem of the node has it; nanoseconds since the Unix epoch. */
  since: number | undefined;
  /** Why, as the node reported it. */
  why: string;
}

/** Problems of a node that have since when it is behind, or away. */
const BEHIND = ["NodeBehind"];
const AWAY = ["AgentDisconnected", "AgentSilent"];

/** A row per node, those that need someone first. */
export function applied({ tree, nodes }: Pick<Group["status"], "tree" | "nodes">, problems: readonly Problem[]): Applied[] {
  const inForce = new Map(tree.map((node) => [node.node, node.roles]));
  const rows = nodes.map(({ node, desiredGeneration: wanted, observedGeneration, connected, errors }): Applied => {
    const observed = observedGeneration ?? null;
    const of = (codes: readonly string[]) => problems.find(({ code, object }) => object.kind === "node" && object.name === node && codes.includes(code));
    const found = (state: State, word: string, codes: readonly string[]) => {
      const problem = of(codes);
      return { state: problem ? ofSeverity(problem.severity) : state, word, since: problem?.sinceUnixNs };
    };
    const now =
      errors.length > 0
        ? found("degraded", counted(errors.length, "error"), [])
        : !connected
          ? found("pending", "not connected", AWAY)
          : observed === null
            ? found("pending", "not reported yet", AWAY)
            : observed < wanted
              ? found("pending", `${count(wanted - observed)} behind`, BEHIND)
              : found("ok", "in sync", []);
    return { node, roles: inForce.get(node) ?? [], isComing: !inForce.has(node), wanted, applied: observed, ...now, why: errors.map(({ kind, name, detail }) => `${kind} ${name}: ${detail}`).join("; ") };
  });
  return rows.sort((a, b) => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state) || byName(a.node, b.node));
}
