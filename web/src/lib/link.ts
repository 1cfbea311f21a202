// SPDX-License-Identifier: Apache-2.0
// The state of one direction of a link as one word.
import type { Link, Node, Problem } from "../api/types";
import { syncWord } from "./node";
import { ofSeverity, worst, type State } from "./state";

/** The node or host of an end of a link. */
export const device = (endpoint: string): string => endpoint.split("/")[0] ?? endpoint;

/** Problems of links and ports by the object's name. */
export function byObject(problems: readonly Problem[]): Map<string, Problem[]> {
  const map = new Map<string, Problem[]>();
  for (const problem of problems) {
    if (problem.object.kind === "link" || problem.object.kind === "port") map.set(problem.object.name, [...(map.get(problem.object.name) ?? []), problem]);
  }
  return map;
}

/** Nodes by what is known of the links that leave them: their agents report, or did and are not connected any more. */
export interface Agents {
  reporting: ReadonlySet<string>;
  away: ReadonlySet<string>;
}

/** None is known as long as the list of nodes is not there. */
export function agentsOf(nodes: readonly Node[] | undefined): Agents {
  const names = (all: readonly Node[]) => new Set(all.map((node) => node.metadata.name));
  const known = (nodes ?? []).filter(({ status }) => status.observedTerm !== null && status.observedTerm !== undefined);
  const isAway = (node: Node) => syncWord(node)[0] === "failed";
  return { reporting: names(known), away: names(known.filter(isAway)) };
}

/** A direction's state: the worst problem of the link or of its port, else whether it is drained, else whether its sending node reports anything. */
export function stateOf(link: Link, problems: ReadonlyMap<string, Problem[]>, { reporting, away }: Agents): [State, string] {
  const found = [...(problems.get(link.spec.link) ?? []), ...(problems.get(link.metadata.name) ?? [])];
  const first = found[0];
  if (first) return [worst(found.map((p) => ofSeverity(p.severity))), first.code];
  if (link.spec.drained) return ["pending", "drained"];
  const from = device(link.metadata.name);
  if (away.has(from)) return ["pending", "agent not connected"];
  return isReported(link) || reporting.has(from) ? ["ok", "in service"] : ["pending", "not reported yet"];
}

/** Part of the port's rate that data takes, percent; `null` where that is not measured. */
export function loadOf({ spec: { rateBps }, status: { congestion } }: Link): number | null {
  const bps = congestion?.loadBps;
  return bps === null || bps === undefined || rateBps === 0 ? null : (100 * bps) / rateBps;
}

function isReported({ status: { congestion, loss, rtt } }: Link): boolean {
  return [congestion, loss, rtt.reportedAgoNs].some((value) => value !== null && value !== undefined);
}
