// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Node, NodeState } from "../api/types";
import { inSync, labelsOf, notInSync, notInSyncOfMany, syncWord } from "./node";

const node = (state: NodeState, status: Partial<Node["status"]> = {}, name = "n"): Node =>
  ({ metadata: { name }, spec: { term: 3, generation: 9 }, status: { state, connected: true, observedTerm: 3, observedGeneration: 9, errors: [], conditions: [], ...status } }) as unknown as Node;

// Catches a node that is behind without a figure, and a state of a later controller that is shown as nothing.
it("has the word of the controller's state, with its figures", () => {
  expect(syncWord(node("InSync"))).toEqual(["ok", "in sync"]);
  expect(syncWord(node("Behind", { observedTerm: 2 }))).toEqual(["pending", "of term 2"]);
  expect(syncWord(node("Behind", { observedGeneration: 7 }))).toEqual(["pending", "2 behind"]);
  expect(syncWord(node("ItemErrors", { errors: [{ kind: "route", name: "x", detail: "y" }] as never }))).toEqual(["degraded", "1 error"]);
  expect(syncWord(node("NotConnected"))).toEqual(["failed", "not connected"]);
  expect(syncWord(node("Retired"))).toEqual(["pending", "retired"]);
  expect(syncWord(node("Quarantined" as never))).toEqual(["pending", "Quarantined"]);
});

it("has its labels as a selector has them", () => {
  const labelled = { metadata: { name: "n1", labels: { rack: "a12", "example.com/row": "" } } } as unknown as Node;
  expect([labelsOf(labelled), labelsOf(node("InSync"))]).toEqual([["rack=a12", "example.com/row="], []]);
});

it("names those that are not in sync by their words, the worst first", () => {
  const all = [node("Behind", { observedGeneration: 7 }, "n1"), node("InSync", {}, "n2"), node("NotConnected", {}, "n10"), node("NotConnected", {}, "n9")];
  expect(notInSync(all)).toBe("not connected: n9, n10; 2 behind: n1");
  expect([inSync(all), notInSync([node("InSync")])]).toEqual([1, ""]);
  expect(notInSyncOfMany(all.slice(2, 3), true)).toBe("of the first 1 node that are not in sync, not connected: n10");
  expect(notInSyncOfMany([], false)).toBe("all in sync");
});
