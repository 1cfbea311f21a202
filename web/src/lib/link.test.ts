// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Link, Node, Problem } from "../api/types";
import { agentsOf, byObject, loadOf, stateOf } from "./link";

const node = (name: string, observedTerm: number | null | undefined, connected = true) => ({ metadata: { name }, spec: { term: 3, generation: 1 }, status: { observedTerm, observedGeneration: 1, connected, conditions: [], errors: [] } }) as unknown as Node;
const link = (name: string, of: { drained?: boolean; status?: Partial<Link["status"]> } = {}) =>
  ({ metadata: { name }, spec: { link: "n1/eth1--n2/eth1", to: "n2/eth1", drained: of.drained ?? false }, status: { rtt: { samples: 0, lost: 0, refused: 0, reportedAgoNs: null }, congestion: null, loss: null, ...of.status } }) as unknown as Link;
const problem = (kind: string, name: string, severity: string, code: string) => ({ object: { kind, name }, severity, code }) as unknown as Problem;
const none = byObject([]);
const noAgents = agentsOf([]);

// Catches a fabric that is all green although no agent has ever connected.
it("has nothing of a direction whose node has never reported", () => {
  const known = agentsOf([node("n1", 3), node("n2", null), node("n3", undefined)]);
  expect(stateOf(link("n1/eth1"), none, known)).toEqual(["ok", "in service"]);
  expect(stateOf(link("n2/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
  expect(stateOf(link("n3/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
});

it("is in service where the direction itself has a report, also while the list of nodes is not there", () => {
  const known = agentsOf(undefined);
  expect(stateOf(link("n1/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
  for (const status of [{ congestion: { queueBytes: 0 } }, { loss: { requests: 1 } }, { rtt: { reportedAgoNs: 0 } }]) {
    expect(stateOf(link("n1/eth1", { status: status as never }), none, known)).toEqual(["ok", "in service"]);
  }
});

it("has its worst problem, of the link or its port, before all else, and drained before silent", () => {
  const problems = byObject([problem("link", "n1/eth1--n2/eth1", "warning", "LinkLossy"), problem("port", "n2/eth1", "critical", "PortDown"), problem("node", "n1", "critical", "AgentLost")]);
  expect(stateOf(link("n1/eth1", { drained: true }), problems, noAgents)).toEqual(["degraded", "LinkLossy"]);
  expect(stateOf(link("n2/eth1"), problems, noAgents)).toEqual(["failed", "LinkLossy"]);
  expect(stateOf(link("n1/eth1", { drained: true }), none, noAgents)).toEqual(["pending", "drained"]);
});

// Catches links that are in service because their agent reported something once.
it("is not known where the agent of its node is not connected any more", () => {
  const agents = agentsOf([node("n1", 3, false), node("n2", 3)]);
  expect(stateOf(link("n1/eth1", { status: { loss: { requests: 1 } } as never }), none, agents)).toEqual(["pending", "agent not connected"]);
  expect(stateOf(link("n2/eth1"), none, agents)).toEqual(["ok", "in service"]);
});

it("has its load where the rate is known and data was measured", () => {
  const loaded = (rateBps: number, congestion: object | null) => ({ spec: { rateBps }, status: { congestion } }) as unknown as Link;
  expect(loadOf(loaded(1000, { loadBps: 250 }))).toBe(25);
  expect([loadOf(loaded(0, { loadBps: 250 })), loadOf(loaded(1000, null)), loadOf(loaded(1000, { loadBps: null })), loadOf(loaded(1000, {}))]).toEqual([null, null, null, null]);
});
