// SPDX-License-Identifier: Apache-2.0
// The four states of the visual language, for every closed set of the API.
import type { ConditionStatus, GroupPhase, PortState, Severity } from "../api/types";

export type State = "ok" | "pending" | "degraded" | "failed";

const PHASES: Record<GroupPhase, State> = {
  Ready: "ok",
  Pending: "pending",
  Programming: "pending",
  Unknown: "degraded",
  Degraded: "degraded",
  Stalled: "failed",
  Failed: "failed",
  Deleting: "pending",
};
const SEVERITIES: Record<Severity, State> = { critical: "failed", warning: "degraded", info: "pending" };

export const ofPhase = (phase: GroupPhase): State => PHASES[phase];
/** The same of a severity as text; one of a later version is a warning at least. */
export const ofSeverityName = (severity: string): State => (SEVERITIES as Record<string, State>)[severity] ?? "degraded";
const PORTS: Record<PortState, State> = { Down: "failed", Unknown: "degraded", Up: "ok" };

export const ofPort = (port: PortState): State => PORTS[port];
/** States of ports, the worst first. */
export const PORT_ORDER: readonly PortState[] = ["Down", "Unknown", "Up"];
export const ofSeverity = (severity: Severity): State => SEVERITIES[severity];

/** Conditions that are true when something is wrong. */
const BAD_WHEN_TRUE = new Set(["Stalled", "Lossy"]);

export function ofCondition(type: string, status: ConditionStatus): State {
  if (status === "Unknown") return "pending";
  return (status === "True") === BAD_WHEN_TRUE.has(type) ? "degraded" : "ok";
}

/** The states, those that need someone first. */
export const WORST_FIRST: readonly State[] = ["failed", "degraded", "pending", "ok"];

/** Of several the worst. */
export function worst(states: readonly State[]): State {
  return states.reduce<State>((a, b) => (WORST_FIRST.indexOf(b) < WORST_FIRST.indexOf(a) ? b : a), "ok");
}

/** The phases, those that need someone first. */
export const PHASE_ORDER: readonly GroupPhase[] = ["Failed", "Stalled", "Degraded", "Unknown", "Deleting", "Programming", "Pending", "Ready"];
