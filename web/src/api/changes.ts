// SPDX-License-Identifier: Apache-2.0
// What changes of resources do to the lists and resources that are in the query cache.
import type { InfiniteData, Query, QueryClient, QueryKey } from "@tanstack/react-query";
import type { AuditItem, Commit, Drain, Event, Group, Node, Problem, Topology } from "./types";

type Kind = "added" | "modified" | "deleted";
export type Change =
  | { topic: "groups"; kind: Kind; data: Group }
  | { topic: "nodes"; kind: Kind; data: Node }
  | { topic: "problems"; kind: Kind; data: Problem }
  | { topic: "events"; kind: Kind; data: Event }
  | { topic: "topology"; kind: Kind; data: Topology }
  | { topic: "drains"; kind: Kind; data: Drain }
  | { topic: "commits"; kind: Kind; data: Commit }
  | { topic: "audit"; kind: Kind; data: AuditItem };

interface PageOf<T> {
  items: T[];
  metadata: { continue?: string | null };
}
export type GroupPage = PageOf<Group>;
export type NodePage = PageOf<Node>;

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

/** Pages with the changes of what is on them; whether something of these pages came or went, so that they have to be read again. */
export function mergedPages<T extends Named>(pages: PageOf<T>[], changes: readonly { kind: Kind; data: T }[]): [PageOf<T>[], boolean] {
  const latest = new Map(changes.map((change) => [change.data.metadata.name, change]));
  const replaced = (item: T) => {
    const change = latest.get(item.metadata.name);
    return change && change.kind !== "deleted" ? change.data : item;
  };
  const known = new Set(pages.flatMap((page) => page.items.map((item) => item.metadata.name)));
  const end = pages.at(-1);
  const last = end?.metadata.continue ? (end.items.at(-1)?.metadata.name ?? "") : undefined;
  const isOther = [...latest].some(([name, { kind }]) =>
    kind === "deleted" ? known.has(name) : kind === "added" && !known.has(name) && (last === undefined || name <= last),
  );
  return [pages.map((page) => ({ ...page, items: page.items.map(replaced) })), isOther];
}

interface Named {
  metadata: { name: string };
}

const named = (item: Named) => item.metadata.name;
const SEVERITIES = ["critical", "warning", "info"];

/** As the controller sorts problems: roots first, the worst first, then the oldest. */
export function bySeverity(a: Problem, b: Problem): number {
  return (
    Number(b.root) - Number(a.root) ||
    SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
    a.sinceUnixNs - b.sinceUnixNs
  );
}

/** Changes that came while something was read, by what was read. */
const held = new WeakMap<Query, Change[]>();

/** Applies changes again once what is being read has been read: the answer may be older than they are. */
function applyAfterRead(queries: QueryClient, queryKey: QueryKey, changes: readonly Change[]): void {
  const cache = queries.getQueryCache();
  const query = cache.find({ queryKey, exact: true });
  if (!query || !changes.length || query.state.fetchStatus !== "fetching") return;
  const waiting = held.get(query);
  if (waiting) {
    waiting.push(...changes);
    return;
  }
  const kept = [...changes];
  held.set(query, kept);
  const stop = cache.subscribe(() => {
    if (query.state.fetchStatus === "fetching") return;
    stop();
    held.delete(query);
    applyChanges(queries, kept);
  });
}

/** How often something is read again because something else changed. */
const AGAIN_EVERY = 2000;
const again = new WeakMap<QueryClient, Map<string, "quiet" | "wanted">>();

/** Reads it again: at once, and then at most every two seconds. A read that is under way is not begun anew. */
function readAgain(queries: QueryClient, queryKey: QueryKey): void {
  const key = JSON.stringify(queryKey);
  const pauses = again.get(queries) ?? new Map<string, "quiet" | "wanted">();
  again.set(queries, pauses);
  if (pauses.has(key)) {
    pauses.set(key, "wanted");
    return;
  }
  pauses.set(key, "quiet");
  void queries.invalidateQueries({ queryKey }, { cancelRefetch: false });
  setTimeout(() => {
    const wanted = pauses.get(key) === "wanted";
    pauses.delete(key);
    if (wanted) readAgain(queries, queryKey);
  }, AGAIN_EVERY);
}

export function applyChanges(queries: QueryClient, changes: readonly Change[]): void {
  const groups = changes.filter((change) => change.topic === "groups");
  const nodes = changes.filter((change) => change.topic === "nodes");
  const problems = changes.filter((change) => change.topic === "problems");
  const events = changes.filter((change) => change.topic === "events");
  const drains = changes.filter((change) => change.topic === "drains");
  const commits = changes.filter((change) => change.topic === "commits");
  applyAfterRead(queries, ["nodes"], nodes);
  applyAfterRead(queries, ["problems"], problems);
  applyAfterRead(queries, ["events"], events);
  applyAfterRead(queries, ["groups"], groups);
  applyAfterRead(queries, ["drains"], drains);
  applyAfterRead(queries, ["commit"], commits);
  if (nodes.length) {
    mergePages(queries, ["nodes"], nodes);
    readAgain(queries, ["nodesNotInSync"]);
    for (const { kind, data } of nodes) queries.setQueryData(["node", data.metadata.name], (old: Node | null | undefined) => (old === undefined ? old : kind === "deleted" ? null : data));
  }
  if (problems.length) {
    queries.setQueryData<Problem[]>(["problems"], (list) => list && merged(list, problems, (p) => p.id).sort(bySeverity));
  }
  if (events.length) {
    queries.setQueryData<Event[]>(["events"], (list) => list && withEvents(list, events.map((event) => event.data)));
  }
  if (drains.length) {
    queries.setQueryData<Drain[]>(["drains"], (list) => list && merged(list, drains, named));
  }
  const commit = commits.at(-1)?.data;
  if (commit) {
    // Also if none was read yet: the strip of every page shows it.
    queries.setQueryData<Commit>(["commit"], commit);
    readAgain(queries, ["status"]);
  }
  if (changes.some((change) => change.topic === "topology")) {
    void queries.invalidateQueries({ queryKey: ["topology"] });
    linksAgain(queries);
  }
  // Each page has a filter of its own.
  if (changes.some((change) => change.topic === "audit")) readAgain(queries, ["audit"]);
  if (groups.length) {
    mergePages(queries, ["groups"], groups);
    readAgain(queries, ["groupsOf"]);
    for (const change of groups) {
      const { kind, data } = change;
      const key = ["group", data.metadata.name];
      applyAfterRead(queries, key, [change]);
      if (kind === "deleted") void queries.invalidateQueries({ queryKey: key });
      else queries.setQueryData(key, (old: Group | undefined) => old && data);
      void queries.invalidateQueries({ queryKey: ["members", data.metadata.name] });
    }
  }
  // Nodes come and go with the topology only.
  if (nodes.some((change) => change.kind !== "modified")) {
    void queries.invalidateQueries({ queryKey: ["topology"] });
    linksAgain(queries);
  }
  if (groups.length || nodes.length || problems.length) readAgain(queries, ["status"]);
}

/** Puts changes into the pages of a list; what came or went has them read again. */
function mergePages<T extends Named>(queries: QueryClient, queryKey: QueryKey, changes: readonly { kind: Kind; data: T }[]): void {
  let isOther = false;
  queries.setQueryData<InfiniteData<PageOf<T>>>(queryKey, (list) => {
    if (!list) return list;
    const [pages, other] = mergedPages(list.pages, changes);
    isOther = other;
    return { ...list, pages };
  });
  if (isOther) readAgain(queries, queryKey);
}

/** Links are those of the topology. */
function linksAgain(queries: QueryClient): void {
  for (const key of ["links", "link", "linksNotInService", "linksCongested"]) void queries.invalidateQueries({ queryKey: [key] });
}

/** Newest last, each once, the oldest forgotten. */
export function withEvents(list: Event[], added: readonly Event[]): Event[] {
  const last = list.at(-1)?.sequence ?? 0;
  return [...list, ...added.filter((event) => event.sequence > last)].slice(-EVENTS_KEPT);
}
