// SPDX-License-Identifier: Apache-2.0
import type { QueryClient } from "@tanstack/react-query";
import { createRootRouteWithContext, createRoute, createRouter, lazyRouteComponent, redirect } from "@tanstack/react-router";
import { map } from "./api/map";
import * as queries from "./api/queries";
import { isOfDomain } from "./api/session";
import type { GroupPhase } from "./api/types";
import { KINDS, type EventFilter } from "./lib/event";
import { LAYERS, type Layer } from "./lib/mapLayer";
import { oneOf, range, text, seconds } from "./lib/pageSearch";
import { PHASE_ORDER } from "./lib/state";
import type { AuditSearch } from "./lib/undo";
import { Shell } from "./Shell";
import { Overview } from "./pages/Overview";
import type { ChartSearch } from "./pages/charts/OverTime";
import { NotFound, Failed } from "./pages/NotFound";

const root = createRootRouteWithContext<{ queries: QueryClient }>()({ component: Shell });

// A loader reads what the page shows before the page is shown. A failure is shown by the page, not by the router.
const read = (promise: Promise<unknown>) => promise.catch(() => undefined);

interface GroupSearch {
  q?: string | undefined;
  phase?: GroupPhase | undefined;
  /** A label selector. */
  label?: string | undefined;
  tenant?: string | undefined;
}
interface EventSearch extends EventFilter {
  /** Seconds since the Unix epoch; both, or none. */
  from?: number | undefined;
  to?: number | undefined;
}
interface MapSearch {
  links?: Layer | undefined;
  /** Name of a node, host or link. */
  picked?: string | undefined;
}

const charts: (search: Record<string, unknown>) => ChartSearch = range;

const overview = createRoute({
  getParentRoute: () => root,
  path: "/",
  // It is of the domain.
  beforeLoad: () => {
    if (!isOfDomain()) throw redirect({ to: "/groups", search: {} });
  },
  component: Overview,
  loader: ({ context }) => read(Promise.all([context.queries.ensureQueryData(queries.status), context.queries.ensureQueryData(queries.problems)])),
});
const problem = createRoute({
  getParentRoute: () => root,
  path: "/problems/$id",
  component: lazyRouteComponent(() => import("./pages/Problem"), "ProblemPage"),
  loader: ({ context }) => read(context.queries.ensureQueryData(queries.problems)),
});
const incidents = createRoute({
  getParentRoute: () => root,
  path: "/incidents",
  component: lazyRouteComponent(() => import("./pages/Incidents"), "Incidents"),
  loader: ({ context }) => read(context.queries.ensureQueryData(queries.incidents)),
});
const incident = createRoute({
  getParentRoute: () => root,
  path: "/incidents/$incident",
  component: lazyRouteComponent(() => import("./pages/Incident"), "IncidentPage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.incident(params.incident))),
});
const groups = createRoute({
  getParentRoute: () => root,
  path: "/groups",
  validateSearch: (search: Record<string, unknown>): GroupSearch => ({
    ...text(search, "q"),
    ...text(search, "label"),
    ...text(search, "tenant"),
    ...oneOf(search, "phase", PHASE_ORDER),
  }),
  component: lazyRouteComponent(() => import("./pages/Groups"), "Groups"),
  loader: ({ context }) => read(context.queries.ensureInfiniteQueryData(queries.groups)),
});
const group = createRoute({
  getParentRoute: () => root,
  path: "/groups/$group",
  validateSearch: charts,
  component: lazyRouteComponent(() => import("./pages/Group"), "GroupPage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.group(params.group))),
});
const events = createRoute({
  getParentRoute: () => root,
  path: "/events",
  validateSearch: (search: Record<string, unknown>): EventSearch => ({
    ...text(search, "q"),
    ...text(search, "code"),
    ...text(search, "node"),
    ...text(search, "group"),
    ...oneOf(search, "kind", KINDS),
    ...seconds(search),
  }),
  component: lazyRouteComponent(() => import("./pages/Events"), "Events"),
  loader: ({ context }) => read(context.queries.ensureQueryData(queries.events)),
});

const nodes = createRoute({
  getParentRoute: () => root,
  path: "/nodes",
  component: lazyRouteComponent(() => import("./pages/Nodes"), "Nodes"),
  loader: ({ context }) => read(context.queries.ensureInfiniteQueryData(queries.nodes)),
});
const node = createRoute({
  getParentRoute: () => root,
  path: "/nodes/$node",
  validateSearch: charts,
  component: lazyRouteComponent(() => import("./pages/Node"), "NodePage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.node(params.node))),
});
const hosts = createRoute({
  getParentRoute: () => root,
  path: "/hosts",
  component: lazyRouteComponent(() => import("./pages/Hosts"), "Hosts"),
  loader: ({ context }) => read(context.queries.ensureInfiniteQueryData(queries.hosts)),
});
const host = createRoute({
  getParentRoute: () => root,
  path: "/hosts/$host",
  validateSearch: charts,
  component: lazyRouteComponent(() => import("./pages/Host"), "HostPage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.host(params.host))),
});
const links = createRoute({
  getParentRoute: () => root,
  path: "/links",
  component: lazyRouteComponent(() => import("./pages/Links"), "Links"),
  loader: ({ context }) => read(context.queries.ensureInfiniteQueryData(queries.links)),
});
const link = createRoute({
  getParentRoute: () => root,
  path: "/links/$node/$port",
  validateSearch: charts,
  component: lazyRouteComponent(() => import("./pages/Link"), "LinkPage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.link(`${params.node}/${params.port}`))),
});
const topology = createRoute({
  getParentRoute: () => root,
  path: "/topology",
  validateSearch: (search: Record<string, unknown>): MapSearch => ({
    ...oneOf(search, "links", LAYERS.filter((layer) => layer !== "state")),
    ...text(search, "picked"),
  }),
  component: lazyRouteComponent(() => import("./pages/Topology"), "TopologyPage"),
  loader: ({ context }) => read(context.queries.ensureQueryData(map)),
});
const congestion = createRoute({
  getParentRoute: () => root,
  path: "/congestion",
  component: lazyRouteComponent(() => import("./pages/Congestion"), "Congestion"),
  loader: ({ context }) => read(Promise.all([context.queries.ensureQueryData(queries.linksCongested), context.queries.ensureQueryData(map)])),
});
const controller = createRoute({
  getParentRoute: () => root,
  path: "/controller",
  component: lazyRouteComponent(() => import("./pages/Controller"), "ControllerPage"),
  loader: ({ context }) => read(Promise.all([context.queries.ensureQueryData(queries.status), context.queries.ensureQueryData(queries.readiness)])),
});
const drains = createRoute({
  getParentRoute: () => root,
  path: "/drains",
  component: lazyRouteComponent(() => import("./pages/Drains"), "Drains"),
  loader: ({ context }) => read(context.queries.ensureQueryData(queries.drains)),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: (search: Record<string, unknown>): AuditSearch => ({ ...text(search, "by"), ...text(search, "kind"), ...text(search, "name"), ...text(search, "action"), ...text(search, "within"), ...text(search, "request"), hosts: search["hosts"] === true || undefined }),
  component: lazyRouteComponent(() => import("./pages/Audit"), "Audit"),
});
const changeSets = createRoute({
  getParentRoute: () => root,
  path: "/change-sets",
  component: lazyRouteComponent(() => import("./pages/ChangeSets"), "ChangeSets"),
  loader: ({ context }) => read(context.queries.ensureQueryData(queries.changeSets)),
});
const changeSet = createRoute({
  getParentRoute: () => root,
  path: "/change-sets/$set",
  component: lazyRouteComponent(() => import("./pages/ChangeSet"), "ChangeSetPage"),
  loader: ({ context, params }) => read(context.queries.ensureQueryData(queries.changeSet(params.set))),
});

export const tree = root.addChildren([overview, problem, incidents, incident, groups, group, topology, links, link, congestion, nodes, node, hosts, host, drains, controller, events, audit, changeSets, changeSet]);

export const makeRouter = (client: QueryClient) =>
  createRouter({
    routeTree: tree,
    context: { queries: client },
    defaultPreload: "intent",
    // React Query decides what is fresh.
    defaultPreloadStaleTime: 0,
    defaultNotFoundComponent: NotFound,
    defaultErrorComponent: Failed,
  });

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof makeRouter>;
  }
}
