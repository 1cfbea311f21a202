// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { ChangeSet } from "../api/types";
import { isActive, notUndone, ofChangeSet, progress, refusal, undoing } from "./changeSet";

const set = (more: Partial<ChangeSet>): ChangeSet => ({
  apiVersion: "canopy/v1", kind: "ChangeSet", id: "0123456789abcdef", phase: "Applied", by: { kind: "operator", name: "alice" }, begunUnixNs: 1, items: 100, done: 60, created: 50, updated: 9, putBack: 0, refused: [], ...more,
});

it("has how far a set is in the words of canopyctl", () => {
  expect(progress(set({}))).toBe("60 of 100 resources, 50 created, 9 updated");
  expect(refusal(set({}))).toBe("was refused");
  expect(refusal(set({ undoneBy: { kind: "operator", name: "bob" } }))).toBe("was not put back");
});

it("has what an undo does, and why there is none", () => {
  expect(undoing(set({}))).toBe("50 resources that it created are deleted, 9 resources that it changed get the version before, the last one first.");
  expect(undoing(set({ phase: "Applying", created: 1, updated: 0 }))).toBe("It stops first. 1 resource that it created is deleted, the last one first.");
  expect(undoing(set({ created: 0, updated: 0 }))).toBe("It has changed nothing yet.");
  expect([notUndone(set({})), notUndone(set({ phase: "Stopped" })), notUndone(set({ phase: "Undone" })), notUndone(set({ phase: "Undoing" }))]).toEqual(["", "", "It was taken back.", "It is being taken back."]);
});

it("takes a phase that it does not know for none that is well", () => {
  expect(ofChangeSet({ phase: "Later" as "Applied" })).toBe("degraded");
  expect((["Applying", "Undoing", "Applied", "Stopped", "Undone"] as const).map((phase) => isActive({ phase }))).toEqual([true, true, false, false, false]);
});
