// SPDX-License-Identifier: Apache-2.0
// What pages read. What the stream has follows it: see changes.ts; the rest has no stream and is read again.
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, ApiError, data } from "./client";
import type { GroupPage } from "./changes";
import { EVENTS_KEPT } from "./changes";
import { isRefused } from "./retry";
import { isOfDomain } from "./session";
import { ownCommit, setOwnCommit } from "./tab";
import { controllerNow, note } from "../lib/clock";
import { isActive } from "../lib/changeSet";
import { own } from "../lib/metrics";
import { WITHIN, type AuditSearch } from "../lib/undo";
import type { Action, AuditItem, ChangeSet, Drain, Event, ExpectedPacket, GroupPhase, GroupSample, IntentKind, Node, Problem, Silence, VersionedKind } from "./types";

export interface AuditPage {
  items: AuditItem[];
  metadata: { continue?: string | null };
}

/** How often something without a stream is read while a page shows it. */
const REREAD = 2000;
export const PAGE = 500;
/** Up to so many hosts are read again. */
const HOSTS_REREAD = 2000;

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

/** Groups in one phase, where there are too many to read all: the controller finds them. Read again when groups change. */
export const groupsOf = (phase: GroupPhase) =>
  infiniteQueryOptions({
    queryKey: ["groupsOf", phase],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ pageParam }) =>
      data(api.GET("/api/v1/groups", { params: { query: { limit: PAGE, phase, ...(pageParam && { continue: pageParam }) } } })) as Promise<GroupPage>,
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

/** Names of the first hosts: all of a small fabric. */
export const firstHosts = queryOptions({
  queryKey: ["firstHosts"],
  enabled: isOfDomain,
  queryFn: async () => (await data(api.GET("/api/v1/hosts", { params: { query: { limit: 500 } } }))).items.map((host) => host.metadata.name),
  staleTime: 60_000,
});

export const group = (name: string) =>
  queryOptions({
    queryKey: ["group", name],
    queryFn: () => data(api.GET("/api/v1/groups/{group}", { params: { path: { group: name } } })),
  });

/** Every incident that is kept. It is read again while its page is shown: there is no stream of them. */
export const incidents = queryOptions({
  queryKey: ["incidents"],
  queryFn: async () => (await data(api.GET("/api/v1/incidents", { params: { query: { limit: 200 } } }))).items,
  refetchInterval: 10_000,
});

export const incidentsOf = (problem: string) =>
  queryOptions({
    queryKey: ["incidents", problem],
    queryFn: async () => (await data(api.GET("/api/v1/incidents", { params: { query: { problem, limit: 20 } } }))).items,
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

export const nodes = queryOptions({
  queryKey: ["nodes"],
  enabled: isOfDomain,
  queryFn: async () => ((await data(api.GET("/api/v1/nodes"))) as { items: Node[] }).items,
});

/** One node, where the list of all is not shown. */
export const node = (name: string) =>
  queryOptions({
    queryKey: ["nodes", name],
    queryFn: () => data(api.GET("/api/v1/nodes/{node}", { params: { path: { node: name } } })),
    refetchInterval: REREAD,
  });

export const nodeTelemetry = (name: string) =>
  queryOptions({
    queryKey: ["nodeTelemetry", name],
    queryFn: () => data(api.GET("/api/v1/nodes/{node}/telemetry", { params: { path: { node: name } } })),
    refetchInterval: REREAD,
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

export const links = queryOptions({
  queryKey: ["links"],
  queryFn: async () => (await data(api.GET("/api/v1/links"))).items,
  // The list has no pages: in a large fabric it is read when its page is opened, and not again by itself.
  staleTime: REREAD,
  refetchInterval: (query) => ((query.state.data?.length ?? 0) > 4000 ? false : REREAD),
});

/** One direction, by its sending port; `null` if no link leaves one of this name. The list of all is large in a large fabric. */
export const link = (name: string) =>
  queryOptions({
    queryKey: ["links", name],
    queryFn: async () => {
      const [node = "", port = ""] = name.split("/");
      const answer = api.GET("/api/v1/links/{node}/{port}", { params: { path: { node, port } } });
      try {
        return await data(answer);
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return null;
        throw error;
      }
    },
    staleTime: REREAD,
    refetchInterval: REREAD,
  });

/** Flows that leave a port, those with the highest rate first. */
export const flows = (node: string, port: string) =>
  queryOptions({
    queryKey: ["flows", node, port],
    queryFn: async () => (await data(api.GET("/api/v1/flows", { params: { query: { node, port, limit: 200 } } }))).items,
    refetchInterval: REREAD,
  });

export const topology = queryOptions({
  queryKey: ["topology"],
  // The counts of its status are not in the stream.
  staleTime: 0,
  queryFn: async () => {
    const { data: found, response, error } = await api.GET("/api/v1/topology");
    if (response.status === 404) return null;
    return data(Promise.resolve({ ...(found && { data: found }), error, response }));
  },
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
    if (!answer.ok) throw new ApiError(answer.status, undefined);
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
