// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { expect, it } from "vitest";
import { applyChanges, bySeverity, merged, mergedPages, withEvents, type Change } from "./changes";
import type { Event, Group, Problem } from "./types";

const group = (name: string, phase = "Ready") => ({ metadata: { name }, status: { phase } }) as unknown as Group;
const key = (g: Group) => g.metadata.name;

// Catches a change that is put at the end, and a deletion that is ignored.
it("keeps lists in order", () => {
  const list = [group("a"), group("c")];
  const next = merged(list, [{ kind: "added", data: group("b") }, { kind: "deleted", data: group("a") }, { kind: "modified", data: group("c", "Failed") }], key);
  expect(next.map((g) => [key(g), g.status.phase])).toEqual([["b", "Ready"], ["c", "Failed"]]);
  expect(merged(list, [], key)).toBe(list);
});

// Catches a page that is read again for every change of a group on it, and one that is not when a group is new.
it("reads pages again only if groups came or went", () => {
  const pages = [{ items: [group("a")], metadata: { continue: "x" } }, { items: [group("b")], metadata: {} }];
  const [changed, isOther] = mergedPages(pages, [{ kind: "modified", data: group("b", "Stalled") }]);
  expect(changed[1]?.items[0]?.status.phase).toBe("Stalled");
  expect(isOther).toBe(false);
  expect(mergedPages(pages, [{ kind: "added", data: group("c") }])[1]).toBe(true);
  expect(mergedPages(pages, [{ kind: "deleted", data: group("a") }])[1]).toBe(true);
  expect(mergedPages(pages, [{ kind: "deleted", data: group("z") }])[1]).toBe(false);
});

it("shows each event once", () => {
  const event = (sequence: number) => ({ sequence }) as Event;
  expect(withEvents([event(1), event(2)], [event(2), event(3)]).map((e) => e.sequence)).toEqual([1, 2, 3]);
});

it("sorts problems as the controller does", () => {
  const problem = (id: string, root: boolean, severity: string, sinceUnixNs: number) => ({ id, root, severity, sinceUnixNs }) as Problem;
  const sorted = [problem("d", false, "critical", 1), problem("c", true, "warning", 1), problem("b", true, "critical", 9), problem("a", true, "critical", 3)].sort(bySeverity);
  expect(sorted.map((p) => p.id)).toEqual(["a", "b", "c", "d"]);
});

// Catches a stream that fills the cache with groups that no page shows.
it("changes only what a page has read", () => {
  const queries = new QueryClient();
  queries.setQueryData(["group", "a"], group("a"));
  const changes: Change[] = [{ topic: "groups", kind: "modified", data: group("a", "Failed") }, { topic: "groups", kind: "modified", data: group("b") }];
  applyChanges(queries, changes);
  expect(queries.getQueryData<Group>(["group", "a"])?.status.phase).toBe("Failed");
  expect(queries.getQueryData(["group", "b"])).toBeUndefined();
});
