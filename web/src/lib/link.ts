// SPDX-License-Identifier: Apache-2.0
// The state of one direction of a link as one word.
import type { Link, Node, Problem } from "../api/types";
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

/** Names of the nodes whose agent has reported since the controller started. A link is known by what they report. */
export const reporting = (nodes: readonly Node[] | undefined): ReadonlySet<string> =>
  new Set((nodes ?? []).filter(({ status }) => status.observedTerm !== null && status.observedTerm !== undefined).map((node) => node.metadata.name));

/** A direction's state: the worst problem of the link or of its port, else whether it is drained, else whether its sending node has reported anything. */
export function stateOf(link: Link, problems: ReadonlyMap<string, Problem[]>, known: ReadonlySet<string>): [State, string] {
  const found = [...(problems.get(link.spec.link) ?? []), ...(problems.get(link.metadata.name) ?? [])];
  const first = found[0];
  if (first) return [worst(found.map((p) => ofSeverity(p.severity))), first.code];
  if (link.spec.drained) return ["pending", "drained"];
  return isReported(link) || known.has(device(link.metadata.name)) ? ["ok", "in service"] : ["pending", "not reported yet"];
}

function isReported({ status: { congestion, loss, rtt } }: Link): boolean {
  return [congestion, loss, rtt.reportedAgoNs].some((value) => value !== null && value !== undefined);
}
