// SPDX-License-Identifier: Apache-2.0
// A server that answers like a controller with the objects of the fixture, and sends changes on request.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join } from "node:path";
import type { DomainStatus, Group, Link, MapLayerName, Node } from "../src/api/types";
import { API, capture, captureItem, changeSets, charts, entry, events, flows, group, host, incidentOf, incidents, links, mapLayer, mapOf, members, metadata, node, nodeSample, packet, passes, problems, samples, T0, topology, waitedFor, waitedStrip, withProblems, type Sizes } from "./fixture";

export interface Served {
  url: string;
  /** Signs in, any number of times. */
  code: string;
  server: Server;
  /** Sends a message to every stream of changes: "groups.modified" and the group. */
  push: (event: string, data: unknown) => void;
  /** Streams of changes that are open. */
  streams: () => number;
  /** Answers so far, by path without names. */
  answered: Map<string, number>;
  /** Requests without an answer yet, but for streams. */
  waiting: () => number;
}

/** Events that only the journal has. */
const JOURNAL = 1200;

/** What the controller allows its pages. */
const [, policy = "default-src 'none'"] = /^const POLICY: &str = "([^;]*;[^"]*)"/m.exec(readFileSync("../controller/rest/src/ui.rs", "utf8").replaceAll("\\\n", "")) ?? [];

/** Whether a query of groups lets one pass; of a label selector, `key=value` alone. */
function selects({ metadata: { name, labels, tenant }, status: { phase } }: Group, query: URLSearchParams): boolean {
  const [key = "", value] = (query.get("labelSelector") ?? "").split("=");
  const isOfTenant = (query.get("fieldSelector") ?? `tenant=${tenant}`) === `tenant=${tenant}`;
  return name.startsWith(query.get("namePrefix") ?? "") && phase === (query.get("phase") ?? phase) && (value === undefined || labels?.[key] === value) && isOfTenant;
}

/** Serves `dist` and the answers; the API only to those who have signed in with `code`, which works any number of times. */
export function serve(dist: string, sizes: Sizes): Promise<Served> {
  const [code, bearer] = [randomBytes(16).toString("base64url"), randomBytes(32).toString("base64url")];
  const fabric = topology(sizes.nodes);
  const [out] = fabric.spec.links.flatMap(({ a, b, drained }) => (drained ? [`${a}--${b}`] : []));
  const groups = Array.from({ length: sizes.groups }, (_, at) => group(at));
  const open = problems(sizes.problems, fabric, groups.map((g) => g.metadata.name));
  const byText = (a: { metadata: { name: string } }, b: { metadata: { name: string } }) => (a.metadata.name < b.metadata.name ? -1 : 1);
  const all = withProblems(links(fabric), open).sort(byText);
  const byNode = new Map<string, Link[]>();
  for (const link of all) {
    const [name = ""] = link.metadata.name.split("/");
    byNode.set(name, [...(byNode.get(name) ?? []), link]);
  }
  const nodes = fabric.spec.nodes.map(({ name }, at) => node(name, at, byNode.get(name) ?? [])).sort(byText);
  const fabricMap = mapOf(fabric);
  const phases: Record<string, number> = {};
  for (const g of groups) phases[g.status.phase] = (phases[g.status.phase] ?? 0) + 1;
  const status: DomainStatus = { ...API, kind: "DomainStatus", version: "0.1.0", term: 1, timeUnixNs: T0, nodes: sizes.nodes, connectedNodes: nodes.filter((of) => of.status.connected).length, syncedNodes: nodes.filter((of) => of.status.state === "InSync").length, hosts: fabric.spec.hosts?.length ?? 0, links: fabric.spec.links.length, groups: phases, roots: {}, problems: [], leftOut: 0 };
  const list = (items: unknown[], next?: string) => ({ ...API, kind: "List", metadata: next ? { continue: next } : {}, items });
  const page = (items: readonly unknown[], { searchParams: query }: URL) => {
    const from = Number(query.get("continue") ?? 0);
    const to = from + Number(query.get("limit") ?? 100);
    return list(items.slice(from, to), to < items.length ? String(to) : undefined);
  };
  const hosts = (fabric.spec.hosts ?? []).map((of, at) => host(of.name, of.address, of.prefix, at));
  const sets = changeSets(sizes.groups);
  const streams = new Set<ServerResponse>();
  const answered = new Map<string, number>();
  let waiting = 0;
  const push = (event: string, data: unknown) => {
    for (const stream of streams) stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  const some = <T extends Node | Link>(items: readonly T[], { searchParams: query }: URL) => items.filter((of) => passes(of, query.get("fieldSelector") ?? "") && of.metadata.name.includes(query.get("nameContains") ?? ""));
  const answers: Record<string, (url: URL) => unknown> = {
    "/api/v1/status": () => status,
    "/api/v1/problems": () => list(open),
    "/api/v1/incidents": ({ searchParams: query }) => list(incidents(open).filter((one) => !query.has("problem") || one.problem === query.get("problem"))),
    "/api/v1/incidents/1764170000-00000000009a3f00": () => incidentOf(open),
    "/api/v1/problem-codes": () => list(["LinkBlackHole", "LinkLossy"].map((code) => ({ code, severity: "warning", object: "link", title: "loses packets although its carrier is up", meaning: "Packets that one end sent did not arrive at the other.", remedy: "Check optics.", opensAfterMs: 0, closesAfterMs: 0 }))),
    "/api/v1/controllers": () => list([{ ...API, kind: "Controller", metadata: metadata("controller"), status: { version: "0.1.0", term: 1, uptimeNs: 93_784e9, store: { engine: "sled", octets: 6_291_456, revision: 4711, backupRevision: 4698, backupUnixNs: T0 - 1860e9, measuredCommits: 1024, commitP50Ns: 1_140_000, commitP99Ns: 8_420_000 } } }]),
    "/api/v1/nodes": (url) => page(some(nodes, url).map((of) => (url.searchParams.has("summary") ? { ...of, spec: { ...of.spec, ports: [] } } : of)), url),
    "/api/v1/links": (url) => page(some(all, url), url),
    "/api/v1/hosts": (url) => page(hosts.filter(({ metadata: { name }, status: { port } }) => (port !== "Up" || url.searchParams.get("fieldSelector") !== "port!=Up") && name.includes(url.searchParams.get("nameContains") ?? "")), url),
    "/api/v1/authority": () => ({ ...API, kind: "Authority", authority: "9f".repeat(32), listedSinceUnixNs: T0 - 9e15, agents: nodes.map((of) => ({ subject: `node/${of.metadata.name}`, authority: "9f".repeat(32), connected: of.status.connected, enrolled: true, notAfterUnixNs: T0 + 2.3e15, ready: true, trusts: true })) }),
    "/api/v1/change-sets": () => list(sets),
    "/api/v1/versions": () => list([]),
    "/api/v1/silences": () => list([]),
    "/api/v1/audit": (url) => page(Array.from({ length: sizes.events }, (_, at) => entry(sizes.events - at, url.searchParams.get("hosts") === "true")), url),
    "/api/v1/topology": () => (sizes.nodes ? fabric : undefined),
    "/api/v1/map": () => (sizes.nodes ? fabricMap : undefined),
    "/api/v1/drains": () => list(out ? [{ ...API, kind: "Drain", metadata: metadata("leaf7-eth3"), spec: { link: out, reason: "optics" }, status: { groups: 3, hosts: [], links: [out] } }] : []),
    // What putting the link back would do.
    "/api/v1/drains/leaf7-eth3": () => (out ? { ...API, kind: "DryRun", outcome: "deleted", summary: "deleted; 1 tree would move", plan: "b6f0", effects: [{ type: "treeMoves", object: "Group", name: "group-00001", from: "leaf1/eth2", to: "leaf1/eth3", lossless: true }] } : undefined),
    "/api/v1/events": ({ searchParams: query }) => {
      const before = Number(query.get("before") ?? Infinity);
      // In the largest fixture there are others in the journal.
      const kept = events(sizes.events).map((one) => ({ ...one, sequence: one.sequence + JOURNAL }));
      const older = sizes.events >= 4096 ? events(JOURNAL).map((one) => ({ ...one, timeUnixNs: one.timeUnixNs - sizes.events * 3.7e9 })) : [];
      return list([...older, ...kept].filter((one) => one.sequence < before && (!query.has("node") || one.node === query.get("node")) && (!query.has("code") || one.code === query.get("code"))).slice(-Number(query.get("limit") ?? 200)));
    },
    "/api/v1/flows": (url) => list(flows(url.searchParams.get("node") ?? "", url.searchParams.get("port") ?? "")),
    "/api/v1/charts": (url) => charts(url.searchParams),
    "/api/v1/groups": (url) => page(groups.filter((of) => selects(of, url.searchParams)), url),
    "/metrics": () => "canopy_charts_series 4200\ncanopy_charts_bytes 31200000\ncanopy_intent_unconfirmed_changes 3\ncanopy_intent_to_kernel_seconds_bucket{le=\"0.01\"} 900\ncanopy_intent_to_kernel_seconds_bucket{le=\"+Inf\"} 901\n",
    "/readyz": () => "[+] commands: executed\n[+] store: revision 16\nready\n",
  };
  const layers = new Map<MapLayerName, ReturnType<typeof mapLayer>>();
  const layerOf = (name: MapLayerName, { searchParams: query }: URL) => {
    const { values, ...of } = layers.get(name) ?? mapLayer(name, fabricMap, nodes, all, open);
    layers.set(name, { ...of, ...(values !== undefined && { values }) });
    return query.get("since") === of.revision ? { ...of, changes: [] } : { ...of, values };
  };
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "/", "http://fixture");
    if (url.pathname === "/api/v1/sign-in") {
      let body = "";
      for await (const chunk of request) body += String(chunk);
      if ((JSON.parse(body) as { code?: string }).code === code) {
        response.writeHead(200, { "content-type": "application/json" });
        response.end(JSON.stringify({ bearer, expiresInSeconds: 43_200, by: { kind: "operator", name: "alice", uid: 1000, via: "ui" } }));
        return;
      }
    }
    if (url.pathname.startsWith("/api/") && request.headers.authorization !== `Bearer ${bearer}`) {
      response.writeHead(401, { "content-type": "application/problem+json" });
      response.end(JSON.stringify({ title: "Unauthorized", status: 401, code: "SignInRequired", detail: "a browser has to sign in first" }));
      return;
    }
    if (url.pathname === "/api/v1/watch") {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("event: synced\ndata: {}\n\n");
      const beat = setInterval(() => response.write(`event: heartbeat\ndata: {"timeUnixNs":${T0}}\n\n`), 5000);
      streams.add(response);
      response.on("close", () => {
        clearInterval(beat);
        streams.delete(response);
      });
      return;
    }
    waiting += 1;
    response.on("close", () => (waiting -= 1));
    const kind = url.pathname.replace(/^(\/api\/v1\/[^/]+).*?(\/[a-z-]+)?$/, "$1$2");
    answered.set(kind, (answered.get(kind) ?? 0) + 1);
    const [, hostName] = /^\/api\/v1\/hosts\/([^/]+)$/.exec(url.pathname) ?? [];
    const aHost = hostName ? hosts.find((of) => of.metadata.name === hostName) : undefined;
    const [, ofPort] = /^\/api\/v1\/links\/([^/]+\/[^/]+)$/.exec(url.pathname) ?? [];
    const aLink = ofPort ? byNode.get(ofPort.split("/")[0] ?? "")?.find((of) => of.metadata.name === ofPort) : undefined;
    const [, aNode] = /^\/api\/v1\/nodes\/([^/]+)$/.exec(url.pathname) ?? [];
    const [, layer] = /^\/api\/v1\/map\/layers\/([a-z]+)$/.exec(url.pathname) ?? [];
    const [, set] = /^\/api\/v1\/change-sets\/([^/]+)$/.exec(url.pathname) ?? [];
    const [, name, part] = /^\/api\/v1\/groups\/([^/]+)(?:\/(.+))?$/.exec(url.pathname) ?? [];
    const one = groups.find((g) => g.metadata.name === name);
    const found = aHost ?? aLink ?? (aNode ? nodes.find((of) => of.metadata.name === aNode) : undefined) ?? (layer && sizes.nodes ? layerOf(layer as MapLayerName, url) : undefined) ?? (set ? sets.find(({ id }) => id === set) : undefined) ?? (one ? (part === "members" ? list(members(one)) : part === "telemetry" ? list(samples(one)) : part === "waited-for" ? waitedFor(one) : part === "waited-for/strip" ? waitedStrip(one) : part === "packet" ? packet(one) : part === "captures" ? list([captureItem(capture(one))]) : part?.startsWith("captures/") ? capture(one) : one) : /\/nodes\/[^/]+\/telemetry$/.test(url.pathname) ? nodeSample(nodes.find((of) => url.pathname.includes(`/${of.metadata.name}/`))) : answers[url.pathname]?.(url));
    if (found !== undefined) {
      response.writeHead(200, { "content-type": typeof found === "string" ? "text/plain" : "application/json" });
      response.end(typeof found === "string" ? found : JSON.stringify(found));
    } else if (url.pathname.startsWith("/api/")) {
      response.writeHead(404, { "content-type": "application/problem+json" });
      response.end(JSON.stringify({ title: "Not Found", status: 404, code: "NotFound", detail: `nothing at ${url.pathname}` }));
    } else {
      const types: Record<string, string> = { ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
      const type = types[extname(url.pathname)];
      response.writeHead(200, { "content-type": type ?? "text/html", "content-security-policy": policy });
      response.end(await readFile(join(dist, type ? url.pathname : "index.html")));
    }
  };
  const server = createServer((request, response) => void answer(request, response));
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve({ server, code, push, answered, streams: () => streams.size, waiting: () => waiting, url: `http://127.0.0.1:${typeof address === "object" && address ? address.port : 0}` });
    });
  });
}
