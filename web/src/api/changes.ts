// SPDX-License-Identifier: Apache-2.0
// What changes of resources do to the lists and resources that are in the query cache.
import type { InfiniteData, QueryClient } from "@tanstack/react-query";
import type { Event, Group, Node, Problem } from "./types";

type Kind = "added" | "modified" | "deleted";
export type Change =
  | { topic: "groups"; kind: Kind; data: Group }
  | { topic: "nodes"; kind: Kind; data: Node }
  | { topic: "problems"; kind: Kind; data: Problem }
  | { topic: "events"; kind: Kind; data: Event };

export interface GroupPage {
  items: Group[];
  metadata: { continue?: string | null };
}

/** Events that a page keeps. */
export const EVENTS_KEPT = 4096;

/** The list with the changes, in the order of `key`; the same array if nothing in it changed. */
export function merged<T>(list: T[], changes: readonly { kind: Kind; data: T }[], key: (item: T) => string): T[] {
  if (!changes.length) return list;
  const byKey = new Map(list.map((item) => [key(item), item]));
  let hasNew = false;
  for (const { kind, data } of changes) {
    if (kind === "deleted") byKey.delete(key(data));
    else {
      hasNew ||= !byKey.has(key(data));
      byKey.set(key(data), data);
    }
  }
  const items = [...byKey.values()];
  return hasNew ? items.sort((a, b) => (key(a) < key(b) ? -1 : 1)) : items;
}

/** Pages with the changes of groups that are on them; whether groups came or went, so that the pages have to be read again. */
export function mergedPages(pages: GroupPage[], changes: readonly { kind: Kind; data: Group }[]): [GroupPage[], boolean] {
  const latest = new Map(changes.map((change) => [change.data.metadata.name, change]));
  const replaced = (group: Group) => {
    const change = latest.get(group.metadata.name);
    return change && change.kind !== "deleted" ? change.data : group;
  };
  const known = new Set(pages.flatMap((page) => page.items.map((group) => group.metadata.name)));
  const isOther = [...latest].some(([name, { kind }]) => (kind === "deleted") === known.has(name));
  return [pages.map((page) => ({ ...page, items: page.items.map(replaced) })), isOther];
}

const named = (item: { metadata: { name: string } }) => item.metadata.name;
const SEVERITIES = ["critical", "warning", "info"];

/** As the controller sorts problems: roots first, the worst first, then the oldest. */
export function bySeverity(a: Problem, b: Problem): number {
  return (
    Number(b.root) - Number(a.root) ||
    SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
    a.sinceUnixNs - b.sinceUnixNs
  );
}

export function applyChanges(queries: QueryClient, changes: readonly Change[]): void {
  const groups = changes.filter((change) => change.topic === "groups");
  const nodes = changes.filter((change) => change.topic === "nodes");
  const problems = changes.filter((change) => change.topic === "problems");
  const events = changes.filter((change) => change.topic === "events");
  if (nodes.length) {
    queries.setQueryData<Node[]>(["nodes"], (list) => list && merged(list, nodes, named));
  }
  if (problems.length) {
    queries.setQueryData<Problem[]>(["problems"], (list) => list && merged(list, problems, (p) => p.id).sort(bySeverity));
  }
  if (events.length) {
    queries.setQueryData<Event[]>(["events"], (list) => list && withEvents(list, events.map((event) => event.data)));
  }
  if (groups.length) {
    let isOther = false;
    queries.setQueryData<InfiniteData<GroupPage>>(["groups"], (list) => {
      if (!list) return list;
      const [pages, other] = mergedPages(list.pages, groups);
      isOther = other;
      return { ...list, pages };
    });
    if (isOther) void queries.invalidateQueries({ queryKey: ["groups"] });
    for (const { kind, data } of groups) {
      const key = ["group", data.metadata.name];
      if (kind === "deleted") void queries.invalidateQueries({ queryKey: key });
      else queries.setQueryData(key, (old: Group | undefined) => old && data);
      void queries.invalidateQueries({ queryKey: ["members", data.metadata.name] });
    }
    void queries.invalidateQueries({ queryKey: ["drains"] });
  }
  // Nodes come and go with the topology only.
  if (nodes.some((change) => change.kind !== "modified")) {
    void queries.invalidateQueries({ queryKey: ["topology"] });
    void queries.invalidateQueries({ queryKey: ["links"] });
  }
  if (groups.length || nodes.length || problems.length) void queries.invalidateQueries({ queryKey: ["status"] });
}

/** Newest last, each once, the oldest forgotten. */
export function withEvents(list: Event[], added: readonly Event[]): Event[] {
  const last = list.at(-1)?.sequence ?? 0;
  return [...list, ...added.filter((event) => event.sequence > last)].slice(-EVENTS_KEPT);
}
