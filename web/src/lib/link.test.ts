// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Link, Node, Problem } from "../api/types";
import { byObject, reporting, stateOf } from "./link";

const node = (name: string, observedTerm: number | null | undefined) => ({ metadata: { name }, status: { observedTerm } }) as unknown as Node;
const link = (name: string, of: { drained?: boolean; status?: Partial<Link["status"]> } = {}) =>
  ({ metadata: { name }, spec: { link: "n1/eth1--n2/eth1", to: "n2/eth1", drained: of.drained ?? false }, status: { rtt: { samples: 0, lost: 0, refused: 0, reportedAgoNs: null }, congestion: null, loss: null, ...of.status } }) as unknown as Link;
const problem = (kind: string, name: string, severity: string, code: string) => ({ object: { kind, name }, severity, code }) as unknown as Problem;
const none = byObject([]);

// Catches a fabric that is all green although no agent has ever connected.
it("has nothing of a direction whose node has never reported", () => {
  const known = reporting([node("n1", 3), node("n2", null), node("n3", undefined)]);
  expect(stateOf(link("n1/eth1"), none, known)).toEqual(["ok", "in service"]);
  expect(stateOf(link("n2/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
  expect(stateOf(link("n3/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
});

it("is in service where the direction itself has a report, also while the list of nodes is not there", () => {
  const known = reporting(undefined);
  expect(stateOf(link("n1/eth1"), none, known)).toEqual(["pending", "not reported yet"]);
  for (const status of [{ congestion: { queueBytes: 0 } }, { loss: { requests: 1 } }, { rtt: { reportedAgoNs: 0 } }]) {
    expect(stateOf(link("n1/eth1", { status: status as never }), none, known)).toEqual(["ok", "in service"]);
  }
});

it("has its worst problem, of the link or its port, before all else, and drained before silent", () => {
  const problems = byObject([problem("link", "n1/eth1--n2/eth1", "warning", "LinkLossy"), problem("port", "n2/eth1", "critical", "PortDown"), problem("node", "n1", "critical", "AgentLost")]);
  expect(stateOf(link("n1/eth1", { drained: true }), problems, new Set())).toEqual(["degraded", "LinkLossy"]);
  expect(stateOf(link("n2/eth1"), problems, new Set())).toEqual(["failed", "LinkLossy"]);
  expect(stateOf(link("n1/eth1", { drained: true }), none, new Set())).toEqual(["pending", "drained"]);
});
