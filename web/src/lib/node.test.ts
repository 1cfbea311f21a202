// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Node } from "../api/types";
import { inSync, notInSync, syncWord } from "./node";

const node = (status: Partial<Node["status"]>): Node =>
  ({ spec: { term: 3, generation: 9 }, status: { connected: true, observedTerm: 3, observedGeneration: 9, errors: [], conditions: [], ...status } }) as unknown as Node;

// Catches a node that is shown in sync because its generation is equal, but of another term.
it("is in sync only with the same term, the same generation and no error", () => {
  expect(syncWord(node({}))).toEqual(["ok", "in sync"]);
  expect(syncWord(node({ observedTerm: 2 }))).toEqual(["pending", "of term 2"]);
  expect(syncWord(node({ observedGeneration: 7 }))).toEqual(["pending", "2 behind"]);
  expect(syncWord(node({ errors: [{ kind: "route", name: "x", detail: "y" }] as never }))).toEqual(["degraded", "1 error"]);
  expect(syncWord(node({ connected: false }))).toEqual(["failed", "not connected"]);
  expect(syncWord(node({ connected: false, conditions: [{ reason: "Restarting" }] as never }))).toEqual(["pending", "restarting"]);
  expect(syncWord(node({ retirement: { step: "CleaningUp" } as never }))).toEqual(["pending", "retiring"]);
  expect(syncWord(node({ connected: false, retirement: { step: "Retired" } as never }))).toEqual(["pending", "retired"]);
  expect(syncWord(node({ connected: false, observedTerm: null }))).toEqual(["failed", "never connected"]);
  expect(syncWord(node({ observedTerm: null }))).toEqual(["pending", "not reported yet"]);
});

it("names those that are not in sync by their words, the worst first", () => {
  const named = (name: string, status: Partial<Node["status"]>) => ({ ...node(status), metadata: { name } }) as unknown as Node;
  const all = [named("n1", { observedGeneration: 7 }), named("n2", {}), named("n10", { connected: false }), named("n9", { connected: false })];
  expect(notInSync(all)).toBe("not connected: n9, n10; 2 behind: n1");
  expect([inSync(all), notInSync([named("n2", {})])]).toEqual([1, ""]);
});
