// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Group, Problem } from "../api/types";
import { byGroup, ready, since, waitsFor } from "./groupRow";

const problem = (kind: string, name: string, sinceUnixNs = 1) => ({ object: { kind, name }, sinceUnixNs }) as Problem;
const group = (more: Record<string, unknown> = {}) =>
  ({ metadata: { name: "demo" }, status: { phase: "Ready", tree: [{}], receivers: 8, conditions: [{ type: "Open", status: "True" }, { type: "Stalled", status: "False", message: "no branch holds the group up" }], ...more } }) as unknown as Group;

it("sorts problems by group", () => {
  const found = byGroup([problem("member", "demo/r1"), problem("member", "demo/r1"), problem("group", "demo"), problem("member", "demo2/r1"), problem("node", "demo")]);
  expect([...found].map(([name, { own, hosts }]) => [name, own.length, [...hosts]])).toEqual([["demo", 1, ["r1"]], ["demo2", 0, ["r1"]]]);
});

// Catches a receiver with two reasons that is taken off twice, and receivers of a group without data that count as ready.
it("counts the receivers that get data and have no problem", () => {
  const of = byGroup([problem("member", "demo/r1"), problem("member", "demo/r2")]).get("demo");
  expect([ready(group(), undefined), ready(group({ probing: ["r2", "r3"] }), of)]).toEqual([8, 5]);
  expect([ready(group({ tree: [] }), undefined), ready(group({ conditions: [{ type: "Open", status: "False" }] }), undefined), ready(group({ receivers: 1 }), of)]).toEqual([0, 0, 0]);
});

it("has what the group waits for", () => {
  const stalled = [{ type: "Stalled", status: "True", message: "held up by receiver r3 at node n4" }];
  const of = byGroup(["r10", "r9", "r1", "r2"].map((host) => problem("member", `demo/${host}`))).get("demo");
  expect([waitsFor(group(), undefined), waitsFor(group(), of), waitsFor(group({ conditions: stalled }), of)]).toEqual(["", "r1, r2, r9 and 1 more", "receiver r3 at node n4"]);
});

// Catches the age of the delivery of a group that is degraded for another reason.
it("has since when it needs someone, where that is known", () => {
  const of = byGroup([problem("group", "demo", 7), problem("group", "demo", 5), problem("member", "demo/r1", 1)]).get("demo");
  const delivery = { state: "Stalled", sinceUnixNs: 3 };
  expect([since(group({ delivery }), of), since(group({ phase: "Stalled", delivery }), of), since(group({ phase: "Degraded", delivery }), of), since(group({ phase: "Pending" }), undefined)]).toEqual([undefined, 3, 5, undefined]);
});
