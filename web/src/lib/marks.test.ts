// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Event } from "../api/types";
import { concerns, marks, within } from "./marks";

const event = (seconds: number, code: string, of: Partial<Event> = {}): Event => ({ sequence: seconds, timeUnixNs: seconds * 1e9, code, detail: "", ...of });

// Catches marks of another object whose name has the same beginning.
it("an event concerns the object that it names", () => {
  expect(concerns(event(1, "x", { group: "g1" }), { kind: "group", name: "g1" })).toBe(true);
  expect(concerns(event(1, "x", { group: "g11" }), { kind: "group", name: "g1" })).toBe(false);
  expect(concerns(event(1, "x", { node: "g1" }), { kind: "group", name: "g1" })).toBe(false);
  const link = { kind: "link", name: "n1/eth1--n2/eth1" } as const;
  expect(concerns(event(1, "x", { detail: "link n1/eth1--n2/eth1 loses packets" }), link)).toBe(true);
  expect(concerns(event(1, "x", { detail: "port n2/eth1: above K_max" }), link)).toBe(true);
  expect(concerns(event(1, "x", { detail: "port n2/eth11: above K_max", node: "n1" }), link)).toBe(false);
  // That a port carries nothing is an event of its node, which names the port.
  const down = (node: string) => event(1, "LinkDown", { node, detail: "eth1, eth4 is avoided by trees and routes where another path exists" });
  expect([concerns(down("n1"), link), concerns(down("n2"), link), concerns(down("n3"), link)]).toEqual([true, true, false]);
  const host = { kind: "host", name: "h1" } as const;
  expect(concerns(event(1, "x", { detail: "receiver h1 of group g1 was removed" }), host)).toBe(true);
  expect(concerns(event(1, "x", { detail: "receiver h11 of group g1 was removed", node: "h1" }), host)).toBe(false);
});

// Catches names that are written over each other, and marks that jump as time goes by.
it("marks that are near to each other are one", () => {
  const all = [event(1000, "A"), event(1005, "A"), event(1080, "B"), event(1081, "C"), event(1200, "D")];
  const expected = [{ at: 1000, label: "2 A", state: "pending" }, { at: 1080, label: "2 events", state: "pending" }, { at: 1200, label: "D", state: "pending" }];
  expect(marks(all, 300)).toEqual(expected);
  expect(marks(all.slice(2), 300)).toEqual(expected.slice(1));
  expect(marks([], 300)).toEqual([]);
  expect(within(all, 1005, 1081).map(({ code }) => code)).toEqual(["A", "B", "C"]);
});
