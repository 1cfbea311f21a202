// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Link, Node, Problem } from "../api/types";
import { byObject, linkMeasures, linksNeeding, linkStates, measured, reporting, stateOf } from "./link";

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

it("draws a link as not known while a node at one of its ends is silent; hosts need not report", () => {
  const spec = { nodes: [{ name: "n1", id: 1 }, { name: "n2", id: 2 }], hosts: [{ name: "h1", prefix: "::/64", address: "::1" }], links: [{ a: "n1/eth1", b: "n2/eth1" }, { a: "n1/eth2", b: "h1/eth0" }, { a: "n1/eth3", b: "n2/eth3" }] };
  const states = (known: string[], drained: string[] = []) => [...linkStates(spec, byObject([problem("port", "n2/eth3", "critical", "PortDown")]), new Set(drained), new Set(known)).values()];
  expect(states([])).toEqual(["pending", "pending", "failed"]);
  expect(states(["n1"])).toEqual(["pending", "ok", "failed"]);
  expect(states(["n1", "n2"])).toEqual(["ok", "ok", "failed"]);
  expect(states(["n1", "n2"], ["n1/eth1--n2/eth1"])).toEqual(["pending", "ok", "failed"]);
});

const queued = (queueBytes: number, peakQueueBytes: number) => link("n1/eth1", { status: { thresholds: { kMinBytes: 32, kMaxBytes: 64 }, congestion: { queueBytes, peakQueueBytes } } as never });
const losing = (name: string, permille: number | null) => link(name, { status: { loss: { permille } } as never });

it("measures queues against their thresholds, and loss on a fixed scale", () => {
  expect([queued(31, 0), queued(32, 0), queued(0, 63), queued(1, 64), link("n1/eth1")].map((of) => measured(of, "queue"))).toEqual(["ok", "degraded", "degraded", "failed", "pending"]);
  expect([losing("n1/eth1", null), losing("n1/eth1", 1), losing("n1/eth1", 10), link("n1/eth1")].map((of) => measured(of, "loss"))).toEqual(["ok", "degraded", "failed", "pending"]);
});

// Catches a link that is drawn as not measured because one of its agents is away, and one that hides the bad direction behind the good one.
it("draws the worse direction of a link, and one that is not measured behind one that is", () => {
  const both = (a: Link, b: Link) => [...linkMeasures([a, b], "loss").values()];
  expect(both(losing("n1/eth1", null), losing("n2/eth1", 4))).toEqual(["degraded"]);
  expect(both(losing("n1/eth1", 40), losing("n2/eth1", null))).toEqual(["failed"]);
  expect(both(link("n1/eth1"), losing("n2/eth1", null))).toEqual(["ok"]);
  expect(both(losing("n1/eth1", null), link("n2/eth1"))).toEqual(["ok"]);
  expect(both(link("n1/eth1"), link("n2/eth1"))).toEqual(["pending"]);
});

it("names the links that need someone by the words of the layer", () => {
  const states = new Map([["a--b", "pending"], ["c--d", "failed"], ["e--f", "ok"], ["g--h", "degraded"]] as const);
  expect(linksNeeding(states, "state")).toBe("critical: c--d; warning: g--h; drained, not reported yet, or info: a--b");
  expect(linksNeeding(states, "loss")).toBe("1\u00a0% or more: c--d; less than 1\u00a0%: g--h");
  expect(linksNeeding(new Map([["e--f", "ok"]]), "state")).toBe("");
});
