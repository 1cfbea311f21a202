// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Group, Problem, Severity } from "../api/types";
import { applied } from "./applied";

type Progress = Group["status"]["nodes"][number];

const node = (name: string, wanted: number, observed: number | null, more: Partial<Progress> = {}): Progress => ({ node: name, connected: true, desiredGeneration: wanted, observedGeneration: observed, errors: [], ...more });
const problem = (code: string, name: string, severity: Severity, sinceUnixNs: number) => ({ code, severity, sinceUnixNs, object: { kind: "node", name } }) as Problem;
const tree = ["n1", "n2", "n3", "n4"].map((name) => ({ node: name, parent: null, roles: ["edge" as const], sid: "", upstreamPort: "", branches: [] }));
const words = (nodes: Progress[], problems: Problem[] = []) => applied({ tree, nodes }, problems).map(({ node: name, state, word, since }) => [name, state, word, since]);

// Catches a node that is away or behind in the words of one that is in sync, and the age of another problem of the node.
it("has for each node how far it is, and since when where that is known", () => {
  const errors = [{ kind: "link", name: "eth2", detail: "no carrier" }] as never[];
  const nodes = [node("n1", 4, 4), node("n2", 4, 2), node("n3", 4, null), node("n4", 4, 4, { connected: false }), node("n5", 9, 9, { errors })];
  const problems = [problem("ClockDiffers", "n2", "critical", 1), problem("NodeBehind", "n2", "warning", 2), problem("AgentDisconnected", "n4", "critical", 3), problem("NodeBehind", "n1", "warning", 4)];
  expect(words(nodes, problems)).toEqual([
    ["n4", "failed", "not connected", 3],
    ["n2", "degraded", "2 behind", 2],
    ["n5", "degraded", "1 error", undefined],
    ["n3", "pending", "not reported yet", undefined],
    ["n1", "ok", "in sync", undefined],
  ]);
  const rows = applied({ tree, nodes }, []);
  expect(rows.map(({ node: name, isComing }) => [name, isComing]).filter(([, isComing]) => isComing)).toEqual([["n5", true]]);
  expect(rows.find(({ node: name }) => name === "n5")?.why).toBe("link eth2: no carrier");
  // Ahead of what the group asks of it: other groups have changed since.
  expect(words([node("n1", 4, 7)])).toEqual([["n1", "ok", "in sync", undefined]]);
});
