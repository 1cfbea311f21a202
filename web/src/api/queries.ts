// SPDX-License-Identifier: Apache-2.0
// What pages read. What the stream has follows it: see changes.ts; the rest has no stream and is read again.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, ApiError, data } from "./client";
import type { GroupPage, NodePage } from "./changes";
import { EVENTS_KEPT } from "./changes";
import { isRefused } from "./retry";
import { isOfDomain } from "./session";
import { ownCommit, setOwnCommit } from "./tab";
import { controllerNow, note } from "../lib/clock";
import { isActive } from "../lib/changeSet";
import { progress } from "../lib/checked";
import { KEPT, OF_PROBLEM } from "../lib/incident";
import { own } from "../lib/metrics";
import { WITHIN, type AuditSearch } from "../lib/undo";
import type { Action, AuditItem, AuthorityAgent, ChangeSet, Drain, Event, ExpectedPacket, GroupPhase, GroupSample, IntentKind, Link, Problem, Silence, VersionedKind } from "./types";

export interface AuditPage {
  items: AuditItem[];
  metadata: { continue?: string | null };
}

interface List {
  items: { metadata: { name: string } }[];
}

const names = ({ items }: List): string[] => items.map((item) => item.metadata.name);

/** What is read, or `null` if it is not there. */
async function orNone<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** How often something without a stream is read while a page shows it. */
const REREAD = 2000;
/** The tree of a large group has hundreds of nodes. */
const GROUP_REREAD = 5000;
export const PAGE = 500;
/** Up to so many hosts are read again. */
const HOSTS_REREAD = 2000;
/** Up to so many directions of links. */
const LINKS_REREAD = 4000;

export const status = queryOptions({
  queryKey: ["status"],
  enabled: isOfDomain,
  queryFn: async () => {
    const own = ownCommit();
    const domain = await data(api.GET("/api/v1/status"));
    // It has ended. One that was begun since is not in this answer yet.
    if (own && own === ownCommit() && domain.pendingCommit?.id !== own) setOwnCommit(null);
    note(domain.timeUnixNs);
    return domain;
  },
});

export const groups = infiniteQueryOptions({
  queryKey: ["groups"],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) =>
    data(api.GET("/api/v1/groups", { params: { query: { limit: PAGE, ...(pageParam && { continue: pageParam }) } } })) as Promise<GroupPage>,
  getNextPageParam: (last) => last.metadata.continue ?? undefined,
});

interface GroupSelection {
  phase?: GroupPhase | undefined;
  labelSelector?: string | undefined;
  tenant?: string | undefined;
}

/** Up to so many groups are read to count those whose data progresses: each comes with its tree. */
export const PROGRESS = 100;

/** In how many groups data progresses, in words; empty where there are more than are read. The list itself, which changes often, is not kept. */
export const groupsProgress = queryOptions({
  queryKey: ["groupsProgress"],
  queryFn: async () => {
    const page = (await data(api.GET("/api/v1/groups", { params: { query: { limit: PROGRESS } } }))) as GroupPage;
    return page.metadata.continue ? "" : progress(page.items);
  },
  refetchInterval: 10_000,
});

/** Groups that the controller finds: those of a phase or tenant where there are too many to read all, and those of a label selector. Read again when groups change. */
export const groupsOf = ({ phase, labelSelector, tenant }: GroupSelection) =>
  infiniteQueryOptions({
    queryKey: ["groupsOf", phase ?? "", labelSelector ?? "", tenant ?? ""],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) => {
      const query = { limit: PAGE, ...(phase && { phase }), ...(labelSelector && { labelSelector }), ...(tenant && { fieldSelector: `tenant=${tenant}` }), ...(pageParam && { continue: pageParam }) };
      return data(api.GET("/api/v1/groups", { params: { query } })) as Promise<GroupPage>;
    },
    getNextPageParam: (last) => last.metadata.continue ?? undefined,
  });

/** Names of groups that begin with this text, the first ones. */
export const groupsLike = (prefix: string) =>
  queryOptions({
    queryKey: ["groupsLike", prefix],
    queryFn: async () => {
      const page = (await data(api.GET("/api/v1/groups", { params: { query: { limit: 6, namePrefix: prefix.toLowerCase() } } }))) as GroupPage;
      return page.items.map((group) => group.metadata.name);
    },
    staleTime: 5000,
  });

/** The first hosts whose port is not up, where there are too many hosts to read all. */
export const hostsNotUp = queryOptions({
  queryKey: ["hostsNotUp"],
  queryFn: () => data(api.GET("/api/v1/hosts", { params: { query: { limit: PAGE, fieldSelector: "port!=Up" } } })),
  staleTime: REREAD,
  refetchInterval: 10_000,
});

/** Names of nodes or hosts that have this text within, those that begin with it first; the controller finds them. */
const LIKE = 50;
export const nodesLike = (text: string) =>
  queryOptions({
    queryKey: ["nodesLike", text],
    queryFn: async () => names((await data(api.GET("/api/v1/nodes", { params: { query: { limit: LIKE, nameContains: text, summary: true } } }))) as List),
    staleTime: 5000,
  });
export const hostsLike = (text: string) =>
  queryOptions({
    queryKey: ["hostsLike", text],
    queryFn: async () => names(await data(api.GET("/api/v1/hosts", { params: { query: { limit: LIKE, nameContains: text } } }))),
    staleTime: 5000,
  });

/** Read again while its page is shown: no event has that data flows or has come to rest, nor how much is not acknowledged. */
export const group = (name: string) =>
  queryOptions({
    queryKey: ["group", name],
    queryFn: () => data(api.GET("/api/v1/groups/{group}", { params: { path: { group: name } } })),
    refetchInterval: GROUP_REREAD,
  });

/** Every incident that is kept. It is read again while its page is shown: there is no stream of them. */
export const incidents = queryOptions({
  queryKey: ["incidents"],
  queryFn: async () => (await data(api.GET("/api/v1/incidents", { params: { query: { limit: KEPT } } }))).items,
  refetchInterval: 10_000,
});

export const incidentsOf = (problem: string) =>
  queryOptions({
    queryKey: ["incidents", problem],
    queryFn: async () => (await data(api.GET("/api/v1/incidents", { params: { query: { problem, limit: OF_PROBLEM } } }))).items,
  });

/** Its charts grow for 5 minutes after it opened. */
export const incident = (id: string) =>
  queryOptions({
    queryKey: ["incident", id],
    queryFn: () => data(api.GET("/api/v1/incidents/{incident}", { params: { path: { incident: id } } })),
    refetchInterval: (query) => {
      const opened = query.state.data?.incident.openedUnixNs;
      return opened !== undefined && controllerNow() < opened + 310e9 ? 5000 : false;
    },
  });

export const members = (name: string) =>
  queryOptions({
    queryKey: ["members", name],
    queryFn: async () => (await data(api.GET("/api/v1/groups/{group}/members", { params: { path: { group: name } } }))).items,
  });

/** The packet of a group as the programs of an epoch have it; that of the epoch before until it is read, so that what is chosen stays. */
export const expectedPacket = (name: string, epoch: number) =>
  queryOptions({
    queryKey: ["expectedPacket", name, epoch],
    placeholderData: (before: ExpectedPacket | undefined, of) => (of?.queryKey[1] === name ? before : undefined),
    queryFn: () => data(api.GET("/api/v1/groups/{group}/packet", { params: { path: { group: name } } })),
    staleTime: 10_000,
  });

/** Captures of a group that are kept, the newest first. */
export const captures = (name: string) =>
  queryOptions({
    queryKey: ["captures", name],
    queryFn: async () => (await data(api.GET("/api/v1/groups/{group}/captures", { params: { path: { group: name } } }))).items,
  });

export const waitedFor = (name: string) =>
  queryOptions({
    queryKey: ["waitedFor", name],
    queryFn: () => data(api.GET("/api/v1/groups/{group}/waited-for", { params: { path: { group: name } } })),
    refetchInterval: REREAD,
  });

/** Read directly, never through React's state. */
export async function groupTelemetry(name: string): Promise<GroupSample[]> {
  return (await data(api.GET("/api/v1/groups/{group}/telemetry", { params: { path: { group: name } } }))).items;
}

/** The first nodes, or hosts, with this text in their names, where there are too many to read all. */
export const nodesNamed = (text: string) => queryOptions({ queryKey: ["nodesNamed", text], queryFn: async () => (await nodePage({ nameContains: text })).items, staleTime: REREAD });
export const hostsNamed = (text: string) =>
  queryOptions({
    queryKey: ["hostsNamed", text],
    queryFn: async () => (await data(api.GET("/api/v1/hosts", { params: { query: { limit: PAGE, nameContains: text } } }))).items,
    staleTime: REREAD,
  });

/** Nodes without their ports. */
export const nodes = infiniteQueryOptions({
  queryKey: ["nodes"],
  enabled: isOfDomain,
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => nodePage({ ...(pageParam && { continue: pageParam }) }),
  getNextPageParam: (last) => last.metadata.continue ?? undefined,
});

/** The first nodes that are not in sync: the controller finds them. Read again when nodes change. */
export const nodesNotInSync = queryOptions({
  queryKey: ["nodesNotInSync"],
  enabled: isOfDomain,
  queryFn: () => nodePage({ fieldSelector: "state!=InSync" }),
});

const nodePage = async (query: { continue?: string; fieldSelector?: string; nameContains?: string }) =>
  (await data(api.GET("/api/v1/nodes", { params: { query: { limit: PAGE, summary: true, ...query } } }))) as NodePage;

/** One node with its ports; `null` if there is none of this name. */
export const node = (name: string) =>
  queryOptions({
    queryKey: ["node", name],
    queryFn: () => orNone(data(api.GET("/api/v1/nodes/{node}", { params: { path: { node: name } } }))),
    refetchInterval: REREAD,
  });

export const nodeTelemetry = (name: string) =>
  queryOptions({
    queryKey: ["nodeTelemetry", name],
    queryFn: () => data(api.GET("/api/v1/nodes/{node}/telemetry", { params: { path: { node: name } } })),
    refetchInterval: REREAD,
  });

/** The certificate of an agent, "node/n1"; `null` if the controller lists none. */
export const certificate = (subject: string) =>
  queryOptions({
    queryKey: ["certificate", subject],
    queryFn: async () => ((await data(api.GET("/api/v1/authority"))).agents as AuthorityAgent[]).find((agent) => agent.subject === subject) ?? null,
    staleTime: 60_000,
  });

export const hosts = infiniteQueryOptions({
  queryKey: ["hosts"],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => data(api.GET("/api/v1/hosts", { params: { query: { limit: PAGE, ...(pageParam && { continue: pageParam }) } } })),
  getNextPageParam: (last) => last.metadata.continue ?? undefined,
  staleTime: REREAD,
  // In a large fabric they are read page by page, and those whose port is not up again.
  refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) * PAGE > HOSTS_REREAD ? false : REREAD),
});

export const host = (name: string) =>
  queryOptions({
    queryKey: ["host", name],
    queryFn: () => data(api.GET("/api/v1/hosts/{host}", { params: { path: { host: name } } })),
    // One that is not there is not asked for again and again.
    refetchInterval: ({ state }) => (state.data === undefined && isRefused(state.error) ? false : REREAD),
  });

export const links = infiniteQueryOptions({
  queryKey: ["links"],
  initialPageParam: undefined as string | undefined,
  queryFn: ({ pageParam }) => data(api.GET("/api/v1/links", { params: { query: { limit: PAGE, ...(pageParam && { continue: pageParam }) } } })),
  getNextPageParam: (last) => last.metadata.continue ?? undefined,
  staleTime: REREAD,
  // In a large fabric they are read page by page, and those that are not in service again.
  refetchInterval: (query) => ((query.state.data?.pages.length ?? 0) * PAGE > LINKS_REREAD ? false : REREAD),
});

/** The first direction, for why there are no thresholds where no port has any. */
export const firstLink = queryOptions({
  queryKey: ["firstLink"],
  queryFn: async () => (await data(api.GET("/api/v1/links", { params: { query: { limit: 1 } } }))).items[0] ?? null,
});

/** The first directions that are not in service, where there are too many to read all. */
export const linksNotInService = queryOptions({
  queryKey: ["linksNotInService"],
  queryFn: ({ signal }) => someLinks("state!=InService", signal),
  staleTime: REREAD,
  refetchInterval: ({ state }) => 10_000 * (state.data?.reads ?? 1),
});

/** The first ports that are congested, or were since their agents started. */
export const linksCongested = queryOptions({
  queryKey: ["linksCongested"],
  enabled: isOfDomain,
  queryFn: ({ signal }) => someLinks("queue!=Quiet,queue!=Unknown", signal),
  staleTime: REREAD,
  // The larger the fabric, the longer one search of it is good for.
  refetchInterval: ({ state }) => REREAD * (state.data?.reads ?? 1),
});

interface SomeLinks {
  items: Link[];
  /** There are others. */
  more: boolean;
  /** How many answers it took. */
  reads: number;
}

/** Up to a page of the directions that a filter lets pass. Of those that it leaves out, the controller examines many in each of its pages. */
async function someLinks(fieldSelector: string, signal: AbortSignal): Promise<SomeLinks> {
  const items: Link[] = [];
  let next: string | null | undefined;
  let reads = 0;
  do {
    reads += 1;
    const query = { limit: PAGE, fieldSelector, ...(next && { continue: next }) };
    const page = await data(api.GET("/api/v1/links", { params: { query }, signal }));
    items.push(...page.items);
    next = page.metadata.continue;
  } while (next && items.length < PAGE);
  return { items, more: Boolean(next), reads };
}

/** One direction, by its sending port; `null` if no link leaves one of this name. The list of all is large in a large fabric. */
export const link = (name: string) =>
  queryOptions({
    queryKey: ["link", name],
    queryFn: () => {
      const [node = "", port = ""] = name.split("/");
      return orNone(data(api.GET("/api/v1/links/{node}/{port}", { params: { path: { node, port } } })));
    },
    staleTime: REREAD,
    // One that is not there comes with another topology.
    refetchInterval: ({ state }) => (state.data === null ? false : REREAD),
  });

/** Flows that leave a port, those with the highest rate first. */
export const flows = (node: string, port: string) =>
  queryOptions({
    queryKey: ["flows", node, port],
    queryFn: async () => (await data(api.GET("/api/v1/flows", { params: { query: { node, port, limit: 200 } } }))).items,
    refetchInterval: REREAD,
  });

export const drains = queryOptions({
  queryKey: ["drains"],
  queryFn: async () => ((await data(api.GET("/api/v1/drains"))) as { items: Drain[] }).items,
});

/** Silences have no stream: they are read again when a page of an object is opened, and after a write. */
export const silences = queryOptions({
  queryKey: ["silences"],
  queryFn: async () => ((await data(api.GET("/api/v1/silences"))) as { items: Silence[] }).items,
  staleTime: REREAD,
});

/** The pending commit, or the last one. To be read only where there was one. */
export const commit = queryOptions({
  queryKey: ["commit"],
  queryFn: () => data(api.GET("/api/v1/commit")),
});

/** The last change sets, the newest first. One that is under way is read again until it has ended. */
export const changeSets = queryOptions({
  queryKey: ["audit", "changeSets"],
  queryFn: async () => (await data(api.GET("/api/v1/change-sets"))).items as ChangeSet[],
  refetchInterval: (query) => (query.state.data?.some(isActive) ? REREAD : false),
});

export const changeSet = (id: string) =>
  queryOptions({
    queryKey: ["audit", "changeSet", id],
    queryFn: async () => (await data(api.GET("/api/v1/change-sets/{set}", { params: { path: { set: id } } }))) as ChangeSet,
    refetchInterval: (query) => (query.state.data && isActive(query.state.data) ? REREAD : false),
  });

/** Entries of the audit that pass a filter, the newest first. */
export const audit = (search: AuditSearch) =>
  infiniteQueryOptions({
    queryKey: ["audit", search],
    // The stream has what operators write, and not the joins and leaves of hosts.
    refetchInterval: search.hosts ? 10_000 : false,
    initialPageParam: undefined as string | undefined,
    queryFn: async ({ pageParam }) => {
      const { by, kind, name, action, within, request, hosts } = search;
      const withinSeconds = WITHIN[within ?? ""]?.[0];
      const query = { limit: 200, ...(pageParam && { continue: pageParam }), ...(by && { by }), ...(kind && { kind: kind as IntentKind }), ...(name && { name }), ...(action && { action: action as Action }), ...(withinSeconds && { withinSeconds }), ...(request && { request }), ...(hosts && { hosts }) };
      return data(api.GET("/api/v1/audit", { params: { query } })) as Promise<AuditPage>;
    },
    getNextPageParam: (last) => last.metadata.continue ?? undefined,
  });

export const versions = (kind: string, name: string) =>
  queryOptions({
    queryKey: ["versions", kind, name],
    queryFn: async () => (await data(api.GET("/api/v1/versions", { params: { query: { kind: kind as VersionedKind, name } } }))).items,
    staleTime: 0,
    gcTime: 0,
  });

export const problems = queryOptions({
  queryKey: ["problems"],
  queryFn: async () => ((await data(api.GET("/api/v1/problems", { params: { query: { limit: 5000 } } }))) as { items: Problem[] }).items,
});

export const problemCodes = queryOptions({
  queryKey: ["problemCodes"],
  queryFn: async () => (await data(api.GET("/api/v1/problem-codes"))).items,
  staleTime: Infinity,
});

export const events = queryOptions({
  queryKey: ["events"],
  queryFn: async () => ((await data(api.GET("/api/v1/events", { params: { query: { limit: EVENTS_KEPT } } }))) as { items: Event[] }).items,
});

export interface OlderEvents {
  node?: string | undefined;
  group?: string | undefined;
  code?: string | undefined;
}

/** Pages of the events before one of this number, each with the newest last; the controller reads its journal for them. */
export const eventsBefore = (before: number | undefined, { node, group, code }: OlderEvents) =>
  infiniteQueryOptions({
    queryKey: ["eventsBefore", before, node, group, code],
    enabled: before !== undefined,
    initialPageParam: before ?? 0,
    queryFn: async ({ pageParam }) => ((await data(api.GET("/api/v1/events", { params: { query: { limit: PAGE, before: String(pageParam), ...(node && { node }), ...(group && { group }), ...(code && { code }) } } }))) as { items: Event[] }).items,
    getNextPageParam: (last) => (last.length < PAGE ? undefined : last[0]?.sequence),
    staleTime: Infinity,
    gcTime: 60_000,
  });

/** The controller that answers, with its store. */
export const controller = queryOptions({
  queryKey: ["controller"],
  enabled: isOfDomain,
  queryFn: async () => {
    const [first] = (await data(api.GET("/api/v1/controllers"))).items;
    if (!first) throw new Error("the answer names no controller");
    return first.status;
  },
  refetchInterval: 10_000,
});

/** What the controller exports about itself. The text has a line per series, at most 50,000: it is read as seldom as Prometheus reads it. */
export const metrics = queryOptions({
  queryKey: ["metrics"],
  queryFn: async () => {
    const answer = await fetch("/metrics", { headers: { accept: "text/plain" } });
    if (!answer.ok) throw new ApiError(answer.status, undefined, answer.headers);
    return own(await answer.text());
  },
  staleTime: 15_000,
  refetchInterval: 15_000,
});

/** The lines of /readyz. */
export const readiness = queryOptions({
  queryKey: ["readiness"],
  queryFn: async () => {
    const answer = await fetch("/readyz?verbose");
    return (await answer.text()).split("\n").filter((line) => line.startsWith("["));
  },
  refetchInterval: 10_000,
});
