// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Commit } from "../api/types";
import { ending, left, principal, rollback } from "./commit";

// Catches a time that jumps by a minute, or ends before the deadline.
it("the time left has seconds below an hour", () => {
  expect(left(252e9)).toBe("4 min 12 s");
  expect(left(251.2e9)).toBe("4 min 12 s");
  expect(left(240e9)).toBe("4 min");
  expect(left(9.1e9)).toBe("10 s");
  expect(left(-5e9)).toBe("0 s");
  expect(left(2 * 3600e9)).toBe("2 h");
});

// Catches a rollback that failed in part and is shown as whole.
it("an end has what was not put back", () => {
  const of = (phase: Commit["phase"], refused: number) => ending({ phase, refused: Array.from({ length: refused }, () => ({ kind: "Group", name: "g", detail: "in use" })) } as unknown as Commit);
  expect(of("Confirmed", 0)).toBe("was confirmed: its changes stay");
  expect(of("Expired", 1)).toBe("was not confirmed in time: its changes are taken back; 1 resource was not put back");
  expect(of("Cancelled", 2)).toContain("2 resources were not put back");
  expect(rollback({ kind: "Group", name: "g1", rollback: "putBack" })).toBe("group/g1 is put back");
  expect(rollback({ kind: "Member", name: "g1/r1", rollback: "delete" })).toBe("member/g1/r1 is deleted");
});

it("principals have the names that canopyctl gives them", () => {
  expect([{ kind: "operator", name: "alice", uid: 1000 }, { kind: "operator", uid: 7, via: "ui" }, { kind: "operator", name: "alice", token: "ci" }, { kind: "operator", uid: 1000 }, { kind: "operator" }, { kind: "host", name: "r1" }, { kind: "host", name: "r1", uid: 1000 }, { kind: "host", name: "r1", account: "train/worker" }, { kind: "controller" }].map(principal)).toEqual(["alice", "uid 7 (UI)", "alice (token ci)", "uid 1000", "an operator", "host r1", "uid 1000 of host r1", "train/worker of host r1", "the controller"]);
});
