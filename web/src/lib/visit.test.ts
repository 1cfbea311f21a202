// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { AuditItem, IncidentItem } from "../api/types";
import { lastVisit, noteVisit, since } from "./visit";

// Catches a page that is left and opened again and takes that for an absence.
it("an absence is at least five minutes long", () => {
  const kept = new Map<string, string>();
  const storage = { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => void kept.set(key, value) };
  expect(lastVisit(1e15, storage)).toBe(null);
  noteVisit(1e15, storage);
  expect(lastVisit(1e15 + 299e9, storage)).toBe(null);
  expect(lastVisit(1e15 + 300e9, storage)).toBe(1e15);
  kept.set("visit", "x");
  expect(lastVisit(1e15, storage)).toBe(null);
});

// Catches what happened before, and a count that is cut without a word.
it("counts what has happened since", () => {
  const incident = (openedUnixNs: number, closedUnixNs?: number) => ({ openedUnixNs, closedUnixNs: closedUnixNs ?? null }) as IncidentItem;
  const write = (timeUnixNs: number) => ({ timeUnixNs }) as AuditItem;
  expect(since(10, [incident(10), incident(11, 12), incident(13)], [write(12), write(9)], true)).toEqual({ problems: "2 problems opened, 1 of them still open", writes: "1 write" });
  expect(since(10, [incident(11)], [write(12), write(11)], true)).toEqual({ problems: "1 problem opened, still open", writes: "more than 2 writes" });
  expect(since(10, [incident(11, 12)], [write(10)], false)).toEqual({ problems: "1 problem opened, none of them open now", writes: "nothing was written" });
  expect(since(10, [], [], false).problems).toBe("no problem opened");
});
