// SPDX-License-Identifier: Apache-2.0
// The state of a link, and of one direction of it, as one word.
import type { Link, Node, Problem, Topology } from "../api/types";
import { device } from "./map";
import { wordsOf } from "./order";
import { ofSeverity, worst, WORST_FIRST, type State } from "./state";

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

/** The states of all links for the map, by their names `a--b`, from lists that are small in a large fabric. */
export function linkStates(spec: Topology["spec"], problems: ReadonlyMap<string, Problem[]>, drained: ReadonlySet<string>, known: ReadonlySet<string>): Map<string, State> {
  const nodes = new Set(spec.nodes.map((node) => node.name));
  const isSilent = (end: string) => nodes.has(device(end)) && !known.has(device(end));
  return new Map(
    spec.links.map((link): [string, State] => {
      const name = `${link.a}--${link.b}`;
      const found = [name, link.a, link.b].flatMap((of) => problems.get(of) ?? []);
      if (found.length) return [name, worst(found.map((problem) => ofSeverity(problem.severity)))];
      return [name, link.drained || drained.has(name) || isSilent(link.a) || isSilent(link.b) ? "pending" : "ok"];
    }),
  );
}

/** What the lines of the map show. */
export type Layer = "state" | "queue" | "loss";
export const LAYERS: readonly Layer[] = ["state", "queue", "loss"];

/** Packets of a thousand that a link loses, from which on it is drawn as failed. */
const HEAVY_LOSS = 10;

/** A direction on a fixed scale: its deepest queue since the last report against K_min and K_max, or its loss; `pending` where that is not measured. */
export function measured({ status: { congestion, loss, thresholds } }: Link, layer: Exclude<Layer, "state">): State {
  if (layer === "loss") return loss ? scale(loss.permille ?? 0, 1, HEAVY_LOSS) : "pending";
  return congestion && thresholds ? scale(Math.max(congestion.queueBytes, congestion.peakQueueBytes), thresholds.kMinBytes, thresholds.kMaxBytes) : "pending";
}

const scale = (value: number, degraded: number, failed: number): State => (value >= failed ? "failed" : value >= degraded ? "degraded" : "ok");

/** What each layer's states are called. */
export const LEGENDS: Readonly<Record<Layer, Readonly<Record<State, string>>>> = {
  state: { ok: "in service", pending: "drained, not reported yet, or info", degraded: "warning", failed: "critical" },
  queue: { ok: "below K_min", pending: "not measured", degraded: "K_min or more, packets marked", failed: "K_max or more, sources slowed down" },
  loss: { ok: "none known", pending: "not measured", degraded: "less than 1\u00a0%", failed: "1\u00a0% or more" },
};

/** The states of all links for the map by what was measured: the worse of both directions, one that is not measured only if the other is not either. */
export function linkMeasures(links: readonly Link[], layer: Exclude<Layer, "state">): Map<string, State> {
  const states = new Map<string, State>();
  for (const link of links) {
    const [old, now] = [states.get(link.spec.link), measured(link, layer)];
    states.set(link.spec.link, old === undefined || old === "pending" ? now : now === "pending" ? old : worst([old, now]));
  }
  return states;
}

/** Links by the words of their states, without those that are well: "critical: a--b; warning: c--d". */
export function linksNeeding(states: ReadonlyMap<string, State>, layer: Layer): string {
  const found = [...states].filter(([, state]) => state !== "ok" && (layer === "state" || state !== "pending"));
  found.sort(([, a], [, b]) => WORST_FIRST.indexOf(a) - WORST_FIRST.indexOf(b));
  return wordsOf(found.map(([name, state]) => [LEGENDS[layer][state], name]), 3);
}
