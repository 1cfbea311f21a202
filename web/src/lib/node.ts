// SPDX-License-Identifier: Apache-2.0
// Whether a node has what it was given, as one word.
import type { Node } from "../api/types";
import { count, counted } from "./format";
import type { State } from "./state";

export function syncWord({ spec, status }: Node): [State, string] {
  if (status.retirement) return ["pending", status.retirement.step === "Retired" ? "retired" : "retiring"];
  if (status.conditions.some((condition) => condition.reason === "Restarting")) return ["pending", "restarting"];
  if (!status.connected) return ["failed", status.observedTerm === null || status.observedTerm === undefined ? "never connected" : "not connected"];
  if (status.observedTerm === null || status.observedTerm === undefined) return ["pending", "not reported yet"];
  if (status.observedTerm !== spec.term) return ["pending", `of term ${status.observedTerm}`];
  const behind = spec.generation - (status.observedGeneration ?? 0);
  if (behind > 0) return ["pending", `${count(behind)} behind`];
  if (status.errors.length) return ["degraded", counted(status.errors.length, "error")];
  return ["ok", "in sync"];
}
