// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { AuditItem, Event } from "../api/types";
import { history } from "./groupHistory";

const event = (sequence: number, code: string, group: string | null, at: number): Event => ({ sequence, timeUnixNs: at, code, group, node: "n1", branch: null, detail: `${code} happened`, requestId: "ab" }) as Event;
const entry = (sequence: number, kind: string, name: string, action: string, at: number, more: Partial<AuditItem> = {}): AuditItem => ({ sequence, timeUnixNs: at, kind, name, action, by: { kind: "operator", name: "alice" }, ...more }) as AuditItem;

// Catches what happened to "demo2" in the history of "demo", entries of two books with one number that displace each other, and the same twice.
it("has what happened to this group, the newest first, each once", () => {
  const events = [event(1, "GroupPhase", "demo", 10), event(2, "GroupPhase", "demo2", 11), event(3, "MemberEvicted", "demo", 12), event(4, "LinkDown", null, 13), event(5, "BranchStalled", "demo", 14), event(6, "MoveGivenUp", "demo", 15)];
  const update = entry(1, "Group", "demo", "update", 16, { fields: ["/spec/pathMtu"] });
  const writes = [update, update, entry(2, "Group", "demo2", "delete", 17), entry(3, "Member", "demo/r1", "delete", 18), entry(4, "Drain", "demo", "create", 19)];
  const joins = [entry(1, "Member", "demo/r2", "join", 9, { count: 12, lastUnixNs: 20, by: { kind: "host", name: "r2" } }), entry(2, "Member", "demo2/r2", "join", 21)];
  const found = history("demo", events, writes, joins);
  expect(found.map(({ at, kind, what }) => [at, kind, what])).toEqual([
    [20, "member", "join"],
    [18, "member", "delete"],
    [16, "write", "update"],
    [15, "move", "MoveGivenUp"],
    [14, "event", "BranchStalled"],
    [12, "eviction", "MemberEvicted"],
    [10, "phase", "GroupPhase"],
  ]);
  expect(found[0]?.detail).toBe("12 times within a minute, the first member/demo/r2, by host r2");
  expect(found[2]?.detail).toBe("group/demo, by alice; other values: /spec/pathMtu");
  expect([found[3]?.node, found[3]?.request]).toEqual(["n1", "ab"]);
});
