// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Link, LinkState } from "../api/types";
import { loadOf, notInService, notInServiceOfMany, stateOf } from "./link";

const link = (name: string, state: LinkState, problem?: { code: string; severity: string }) => ({ metadata: { name }, status: { state, problem: problem ?? null } }) as unknown as Link;

// Catches a problem that is hidden by what else is true of the link, and a state of a later controller that is shown as nothing.
it("has its worst problem, or the word of the controller's state", () => {
  expect(stateOf(link("n1/eth1", "Problem", { code: "LinkLossy", severity: "warning" }))).toEqual(["degraded", "LinkLossy"]);
  expect(stateOf(link("n1/eth1", "Problem", { code: "PortDown", severity: "critical" }))).toEqual(["failed", "PortDown"]);
  expect((["InService", "Drained", "AgentNotConnected", "NotReported"] as const).map((state) => stateOf(link("n1/eth1", state)))).toEqual([
    ["ok", "in service"],
    ["pending", "drained"],
    ["pending", "agent not connected"],
    ["pending", "not reported yet"],
  ]);
  expect(stateOf(link("n1/eth1", "Standby" as never))).toEqual(["pending", "Standby"]);
});

it("names those that are not in service by their words, the worst first", () => {
  const all = [link("n1/eth1", "Drained"), link("n2/eth1", "InService"), link("n3/eth1", "Problem", { code: "LinkDown", severity: "critical" })];
  expect([notInService(all), notInService(all.slice(1, 2))]).toEqual(["LinkDown: n3/eth1; drained: n1/eth1", ""]);
  expect([notInServiceOfMany([], false), notInServiceOfMany(all.slice(0, 1), true)]).toEqual(["all in service", "of the first 1 direction that are not in service, drained: n1/eth1"]);
});

it("has its load where the rate is known and data was measured", () => {
  const loaded = (rateBps: number, congestion: object | null) => ({ spec: { rateBps }, status: { congestion } }) as unknown as Link;
  expect(loadOf(loaded(1000, { loadBps: 250 }))).toBe(25);
  expect([loadOf(loaded(0, { loadBps: 250 })), loadOf(loaded(1000, null)), loadOf(loaded(1000, { loadBps: null })), loadOf(loaded(1000, {}))]).toEqual([null, null, null, null]);
});
