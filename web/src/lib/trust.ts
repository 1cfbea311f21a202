// SPDX-License-Identifier: Apache-2.0
// Whether what the controller shows is complete and of now: the reasons against it, as sentences.
import type { DomainStatus, Problem } from "../api/types";
import { bytes, count, counted } from "./format";
import type { Own } from "./metrics";
import { sentence } from "./problem";
import { WORST_FIRST, type State } from "./state";

export interface Doubt {
  state: State;
  text: string;
}

/** A line of `/readyz`: `[+]` holds, `[!]` has to be seen to, `[-]` does not hold. */
export function check(line: string): { state: State; name: string; detail: string } {
  const [, mark = "-", name = line, detail = ""] = /^\[(.)\] ([^:]+): (.*)$/.exec(line) ?? [];
  return { state: mark === "+" ? "ok" : mark === "!" ? "degraded" : "failed", name, detail };
}

interface Known {
  readiness: readonly string[] | undefined;
  status: DomainStatus | undefined;
  problems: readonly Problem[] | undefined;
  /** `null` if it could not be read. */
  own: Own | null | undefined;
  /** This browser receives changes. */
  isLive: boolean;
}

/** Reasons not to trust it, the worst first; `null` while nothing is known. */
export function doubts({ readiness, status, problems, own, isLive }: Known): Doubt[] | null {
  if (!readiness || !status || own === undefined) return null;
  const value = (name: string) => own?.values.get(name) ?? 0;
  const found: (Doubt | false)[] = [
    !isLive && { state: "failed", text: "this browser receives no changes: what it shows is of before" },
    own === null && { state: "pending", text: "the counters of what was left out could not be read" },
    ...readiness.map(check).filter(({ state }) => state !== "ok").map(({ state, name, detail }): Doubt => ({ state, text: `${name}: ${detail}` })),
    ...(problems ?? []).filter(({ object }) => object.kind === "controller").map((problem): Doubt => ({ state: problem.severity === "critical" ? "failed" : "degraded", text: sentence(problem) })),
    status.connectedNodes < status.nodes && { state: "degraded", text: `${counted(status.nodes - status.connectedNodes, "agent")} of ${count(status.nodes)} not connected: what is shown of ${status.nodes - status.connectedNodes === 1 ? "its node" : "their nodes"} is old` },
    status.syncedNodes < status.connectedNodes && { state: "pending", text: `${counted(status.connectedNodes - status.syncedNodes, "connected node")} without exactly the desired state` },
    value("canopy_intent_unconfirmed_changes") > 0 && { state: "pending", text: `${counted(value("canopy_intent_unconfirmed_changes"), "change")} not confirmed by every node that ${value("canopy_intent_unconfirmed_changes") === 1 ? "it concerns" : "they concern"}` },
    status.leftOut > 0 && { state: "degraded", text: `${counted(status.leftOut, "symptom")} not kept: there were too many problems` },
    value("canopy_controller_series_left_out") > 0 && { state: "pending", text: `${counted(value("canopy_controller_series_left_out"), "series", "series")} left out of the last scrape of metrics` },
    value("canopy_charts_samples_left_out_total") > 0 && { state: "pending", text: `${counted(value("canopy_charts_samples_left_out_total"), "sample")} not charted: no room in ${bytes(CHARTS)}` },
  ];
  return found.filter((doubt) => doubt !== false).sort((a, b) => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state));
}

/** Memory of charts, at most. */
export const CHARTS = 268_435_456;
