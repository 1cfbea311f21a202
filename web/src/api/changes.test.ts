// SPDX-License-Identifier: Apache-2.0
import { QueryClient, type InfiniteData } from "@tanstack/react-query";
import { expect, it, vi } from "vitest";
import { applyChanges, bySeverity, merged, mergedPages, withEvents, type Change } from "./changes";
import type { Commit, Drain, Event, Group, Node, Problem, Topology } from "./types";

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
  // Of a million groups nearly every one that changes is on no page that was read.
  expect(mergedPages(pages, [{ kind: "modified", data: group("z") }])[1]).toBe(false);
  const more = [{ items: [group("a"), group("c")], metadata: { continue: "x" } }];
  expect(mergedPages(more, [{ kind: "added", data: group("b") }])[1]).toBe(true);
  expect(mergedPages(more, [{ kind: "added", data: group("d") }])[1]).toBe(false);
});

// Catches an answer that was made before a change and arrives after it.
it("keeps a change that came while the list was read", async () => {
  const queries = new QueryClient();
  type List = InfiniteData<{ items: Node[]; metadata: object }>;
  let answer: (nodes: List) => void = () => undefined;
  const node = (name: string, connected: boolean) => ({ metadata: { name }, status: { connected } }) as unknown as Node;
  const read = queries.fetchQuery({ queryKey: ["nodes"], queryFn: () => new Promise<List>((resolve) => (answer = resolve)) });
  applyChanges(queries, [{ topic: "nodes", kind: "modified", data: node("n1", false) }]);
  applyChanges(queries, [{ topic: "nodes", kind: "modified", data: node("n2", true) }]);
  answer({ pages: [{ items: [node("n1", true)], metadata: {} }, { items: [node("n2", false)], metadata: {} }], pageParams: [] });
  await read;
  const shown = () => queries.getQueryData<List>(["nodes"])?.pages.flatMap((page) => page.items.map((n) => [n.metadata.name, n.status.connected]));
  await expect.poll(shown).toEqual([["n1", false], ["n2", true]]);
});

// Catches a page of a node that shows what the node was, and one that is still there for a node that has gone.
it("changes the one node that a page shows", () => {
  const queries = new QueryClient();
  const node = (name: string, generation: number) => ({ metadata: { name }, spec: { generation } }) as unknown as Node;
  queries.setQueryData(["node", "n1"], node("n1", 1));
  applyChanges(queries, [{ topic: "nodes", kind: "modified", data: node("n1", 2) }, { topic: "nodes", kind: "modified", data: node("n2", 2) }]);
  expect([queries.getQueryData<Node>(["node", "n1"])?.spec.generation, queries.getQueryData(["node", "n2"])]).toEqual([2, undefined]);
  applyChanges(queries, [{ topic: "nodes", kind: "deleted", data: node("n1", 2) }]);
  expect(queries.getQueryData(["node", "n1"])).toBeNull();
});

// Catches a summary that is read again with every change, and one whose last change is not in it.
it("reads summaries again at once, and then every two seconds", () => {
  vi.useFakeTimers();
  const queries = new QueryClient();
  const reads = vi.spyOn(queries, "invalidateQueries");
  const count = () => reads.mock.calls.filter(([filter]) => JSON.stringify(filter?.queryKey) === '["status"]').length;
  const change: Change = { topic: "problems", kind: "modified", data: { id: "p" } as Problem };
  applyChanges(queries, [change]);
  expect(count()).toBe(1);
  for (let i = 0; i < 7; i += 1) applyChanges(queries, [change]);
  expect(count()).toBe(1);
  vi.advanceTimersByTime(2000);
  expect(count()).toBe(2);
  vi.advanceTimersByTime(10_000);
  expect(count()).toBe(2);
  vi.useRealTimers();
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

// Catches a drain, commit or topology of the stream that a page does not show, and an audit that is not read again.
it("shows what operators write", () => {
  const queries = new QueryClient();
  const reads = vi.spyOn(queries, "invalidateQueries");
  const drain = (name: string, groups: number) => ({ metadata: { name }, status: { groups } }) as unknown as Drain;
  queries.setQueryData(["drains"], [drain("a", 1), drain("c", 1)]);
  applyChanges(queries, [
    { topic: "drains", kind: "added", data: drain("b", 2) },
    { topic: "drains", kind: "modified", data: drain("c", 0) },
    { topic: "drains", kind: "deleted", data: drain("a", 0) },
    { topic: "commits", kind: "added", data: { id: "1", phase: "Pending" } as Commit },
    { topic: "topology", kind: "added", data: { metadata: { name: "default" } } as Topology },
    { topic: "audit", kind: "added", data: {} as never },
  ]);
  expect(queries.getQueryData<Drain[]>(["drains"])?.map((d) => [d.metadata.name, d.status.groups])).toEqual([["b", 2], ["c", 0]]);
  expect(queries.getQueryData<Commit>(["commit"])?.id).toBe("1");
  const again = reads.mock.calls.map(([filter]) => filter?.queryKey?.[0]);
  expect(again).toEqual(expect.arrayContaining(["audit", "status", "topology", "links"]));
});
