// SPDX-License-Identifier: Apache-2.0
// What a controller with many objects would answer, for pictures and measurements of the UI. It is no test of the API: those use the real controller.
import { bySeverity } from "../src/api/changes";
import type { AuditItem, Capture, CaptureHop, CaptureItem, ChangeSet, ChangeSetPhase, ChartUnit, Event, FabricMap, Flow, Group, GroupPhase, GroupSample, Host, IncidentItem, Link, MapLayer, MapLayerName, Member, Node, Problem, QueueState, Topology, TreeNode, WaitedFor, WaitedStrip } from "../src/api/types";
export const API = { apiVersion: "canopy/v1" } as const;
export const T0 = 1_795_596_380e9;
const PHASES: readonly GroupPhase[] = ["Ready", "Ready", "Ready", "Programming", "Degraded", "Stalled", "Pending", "Failed", "Unknown"];

export interface Sizes {
  nodes: number;
  groups: number;
  events: number;
  problems: number;
}

export const metadata = (name: string) => ({ name, tenant: "default", labels: { team: name.length % 2 ? "storage" : "training" }, generation: 3 });

/** From so many problems on there are more incidents than are kept. */
const MANY = 60;

/** From so many nodes on a fabric has three tiers and three sites. */
const LARGE = 1000;
const SITES = ["east", "north", "west"] as const;

/** A leaf or spine of a large fabric: a pod has 64 leaves and 14 spines. */
const podOf = (kind: string, at: number): number => Math.floor((at - 1) / (kind === "leaf" ? 64 : 14));

/** A Clos of `nodes` nodes: one host below each leaf, four leaves per spine at least; a large one has pods in three sites, and cores above them. */
export function topology(nodes: number): Topology {
  const isLarge = nodes >= LARGE;
  const upper = nodes < 3 ? 0 : Math.max(1, Math.floor(nodes / 5));
  const leaves = nodes - upper;
  const pods = isLarge ? Math.ceil(leaves / 64) : 1;
  const cores = isLarge ? upper - 14 * pods : 0;
  const spines = upper - cores;
  const links = [];
  for (let leaf = 1; leaf <= leaves; leaf += 1) {
    links.push({ a: `leaf${leaf}/eth1`, b: `host${leaf}/eth0`, rateBps: 400e9 });
    const of = isLarge ? 14 : spines;
    for (let up = 0; up < Math.min(spines, 4); up += 1) {
      const spine = (isLarge ? podOf("leaf", leaf) * 14 : 0) + ((leaf * 4 + up) % of) + 1;
      links.push({ a: `leaf${leaf}/eth${up + 2}`, b: `spine${spine}/eth${leaf}`, rateBps: 400e9, drained: leaf === 7 && up === 1 });
    }
  }
  for (let spine = 1; spine <= (cores ? spines : 0); spine += 1) {
    const site = podOf("spine", spine) % 3;
    for (let up = 0; up < 4; up += 1) {
      const core = ((((spine * 4 + up) * 3 + site) % (cores - (cores % 3))) + 1);
      links.push({ a: `spine${spine}/eth${9001 + up}`, b: `core${core}/eth${spine}`, rateBps: 400e9 });
    }
  }
  // Sites are connected by some of their cores.
  for (let core = 1; core <= Math.min(24, cores - 1); core += 1) links.push({ a: `core${core}/eth9001`, b: `core${core + 1}/eth9002`, rateBps: 400e9 });
  const named = (kind: string, count: number) => Array.from({ length: count }, (_, at) => `${kind}${at + 1}`);
  const siteOf = (name: string) => {
    const [, kind = "", number = "1"] = /^([a-z]+)(\d+)$/.exec(name) ?? [];
    return SITES[(kind === "core" ? Number(number) - 1 : podOf(kind, Number(number))) % 3];
  };
  return {
    ...API,
    kind: "Topology",
    metadata: metadata("default"),
    spec: {
      nodes: [...named("spine", spines), ...named("leaf", leaves), ...named("core", cores)].map((name, at) => ({ name, id: at + 1, ...(isLarge && { site: siteOf(name) }) })),
      hosts: named("host", leaves).map((name, at) => ({ name, prefix: `2001:db8:${(at + 1).toString(16)}::/64`, address: `2001:db8:${(at + 1).toString(16)}::1` })),
      links,
    },
    status: { nodes, connectedNodes: nodes, syncedNodes: nodes, hosts: leaves, links: links.length, conditions: [] },
  };
}

/** The host below leaf `at + 1`. */
export function host(name: string, address: string, prefix: string, at: number): Host {
  const port = at === 6 ? "Down" : at === 11 ? "Unknown" : "Up";
  const reason = port === "Up" ? "" : port === "Down" ? "interface eth1 has no carrier" : "the agent of leaf12 is not connected";
  return {
    ...API,
    kind: "Host",
    metadata: metadata(name),
    spec: { node: `leaf${at + 1}`, port: "eth1", prefix, address, mtu: 9000 },
    status: { port, reason, agent: at % 5 === 4 ? "NotConnected" : at % 5 === 3 ? "Connected" : "OfNode", sources: at % 3 ? 0 : 2, receivers: (at * 5) % 17, groups: Array.from({ length: (at % 3 ? 0 : 2) + ((at * 5) % 17) }, (_, of) => ({ name: `group-${String(of + 1).padStart(5, "0")}`, role: of < 2 && at % 3 === 0 ? "source" : "receiver", ended: of === 7 })) },
  };
}

function tree(leaves: number): TreeNode[] {
  const address = (name: string) => `fcff::${name}`;
  const branch = (name: string, kind: "node" | "receiver", port: string) => ({ name, kind, port, address: address(name), qpn: kind === "receiver" ? 17 : null });
  const edges = Array.from({ length: Math.max(1, Math.ceil(leaves / 2)) }, (_, at) => `leaf${at + 2}`);
  const receivers = Array.from({ length: leaves }, (_, at) => `host${at + 2}`);
  return [
    { node: "leaf1", parent: null, roles: ["headend"], sid: "5f00::1", upstreamPort: "eth1", branches: [branch("spine1", "node", "eth2")] },
    { node: "spine1", parent: "leaf1", roles: ["transit"], sid: "5f00::2", upstreamPort: "eth1", branches: edges.map((edge, at) => branch(edge, "node", `eth${at + 2}`)) },
    ...edges.map((edge, at): TreeNode => ({ node: edge, parent: "spine1", roles: ["edge"], sid: `5f00::${at + 3}`, upstreamPort: "eth2", branches: receivers.slice(at * 2, at * 2 + 2).map((host, port) => branch(host, "receiver", `eth${port + 8}`)) })),
  ];
}

/** A tree over the cores, five hops from the headend to its receivers: below a core a spine per 16 edges, below an edge 8 receivers. */
function deepTree(receivers: number): TreeNode[] {
  const branch = (name: string, kind: "node" | "receiver", at: number) => ({ name, kind, port: `eth${at + 2}`, address: `fcff::${name}`, qpn: kind === "receiver" ? 17 : null });
  const named = (kind: string, count: number, from: number) => Array.from({ length: count }, (_, at) => `${kind}${at + from}`);
  const hosts = named("host", receivers, 2);
  const edges = named("leaf", Math.ceil(receivers / 8), 2);
  const spines = named("spine", Math.ceil(edges.length / 16), 2);
  const node = (name: string, parent: string | null, role: TreeNode["roles"][number], branches: TreeNode["branches"]): TreeNode => ({ node: name, parent, roles: [role], sid: `5f00::${name}`, upstreamPort: "eth1", branches });
  return [
    node("leaf1", null, "headend", [branch("spine1", "node", 0)]),
    node("spine1", "leaf1", "transit", [branch("core1", "node", 0)]),
    node("core1", "spine1", "transit", spines.map((name, at) => branch(name, "node", at))),
    ...spines.map((name, of) => node(name, "core1", "transit", edges.slice(16 * of, 16 * of + 16).map((edge, at) => branch(edge, "node", at)))),
    ...edges.map((name, of) => node(name, spines[Math.floor(of / 16)] ?? "", "edge", hosts.slice(8 * of, 8 * of + 8).map((host, at) => branch(host, "receiver", at)))),
  ];
}

/** Receivers of groups with a tree over the cores, by their places. */
const DEEP: Readonly<Record<number, number>> = { 7: 64, 8: 1000, 9: 200 };

export function group(at: number): Group {
  const phase = PHASES[(at * 7) % PHASES.length] ?? "Ready";
  const deep = DEEP[at];
  const receivers = phase === "Pending" ? 0 : (deep ?? [5, 1, 12, 40, 90][at % 5] ?? 5);
  const nodes = receivers === 0 ? [] : deep ? deepTree(deep) : tree(receivers);
  const moves = phase === "Programming" && !deep;
  const progress = (node: string, i: number) => ({ node, connected: true, desiredGeneration: 9, observedGeneration: phase === "Programming" && i > 2 && i % 3 === 0 ? 8 : 9, errors: [] });
  return {
    ...API,
    kind: "Group",
    metadata: { ...metadata(`group-${String(at + 1).padStart(5, "0")}`), ...(at % 25 === 9 && { tenant: "vision" }) },
    spec: { encoding: "auto", replication: "srv6", pathMtu: 4096, startPsn: null, stallPolicy: "wait", stallAfterMs: 200, cnpWindowUs: 1000, maxFlight: 65536, minReceivers: 1 },
    status: {
      phase,
      reason: phase === "Ready" ? "" : phase === "Programming" ? "node leaf4 has not confirmed its program; the tree in force carries the data until the next one is made" : phase === "Pending" ? "no receiver has joined" : "receiver host4 at leaf3/eth8 acknowledges nothing",
      delivery: { state: phase === "Stalled" ? "Stalled" : at % 3 ? "Flowing" : "Idle", sinceUnixNs: T0 - at * 61e9, outstandingPackets: phase === "Stalled" ? 65536 : at % 900 },
      conditions: [
        { type: "Planned", status: "True", reason: "TreeComputed", message: `the tree has ${nodes.length} nodes` },
        { type: "Programmed", status: phase === "Programming" ? "False" : "True", reason: "Confirmed", message: "every node confirmed its program" },
        { type: "Moved", status: moves ? "False" : "True", reason: moves ? "Making" : "InForce", message: moves ? "node leaf4 has not confirmed its program; the tree in force carries the data until the next one is made" : "the tree in force is the one over the present topology" },
        { type: "Stalled", status: phase === "Stalled" ? "True" : "False", reason: "NoStall", message: phase === "Stalled" ? "held up by receiver host4 at node leaf3" : "no branch holds the group up" },
      ],
      observedGeneration: 3,
      groupId: at + 1,
      treeId: 3115474814,
      epoch: 7,
      connection: { session: 0, proxyAddress: "fcfe::9de5:7644:f299:d77e", designatedQpn: 9021637, startPsn: 1586060, pathMtu: 4096, writeBaseVa: 0, writeRkey: 1, writeLength: 0 },
      source: "host1",
      receivers,
      evicted: [],
      encoding: { mode: "inBand", reason: "the lists of all edges fit: the SRH has 216 bytes of at most 2048", srhBytes: 216, overheadBytes: 256, segments: [], inBandEdges: [], provisionedEdges: [] },
      tree: nodes,
      // During a move, nodes that only the next tree has follow.
      nodes: [...nodes.map(({ node }, i) => progress(node, i)), ...(moves ? ["spine2", "leaf70", "leaf71"].map((node, i) => progress(node, i + 2)) : [])],
    },
  };
}

export function members(of: Group): Member[] {
  const hosts = ["host1", ...Array.from({ length: of.status.receivers }, (_, at) => `host${at + 2}`)];
  return hosts.map((host, at) => ({
    ...API,
    kind: "Member",
    metadata: { group: of.metadata.name, name: host, tenant: "default", generation: 1 },
    spec: { host, role: at ? "receiver" : "source", qpn: 17 + at },
    status: { address: `2001:db8:${(at + 1).toString(16)}::1`, node: `leaf${Math.ceil(at / 2) + 1}`, port: "eth8", encoding: at ? "inBand" : null, ended: false, late: at === 3, start: null },
  }));
}

const STARTED = Date.now() / 1000;

export function samples(of: Group): GroupSample[] {
  const second = Date.now() / 1000;
  // Of a group that is stalled nothing moves on.
  const high = Math.floor(((of.status.phase === "Stalled" ? STARTED : second) % 1e6) * 90_000);
  return of.status.tree.map((node) => ({
    node: node.node,
    group: of.metadata.name,
    timeUnixNs: Date.now() * 1e6,
    groupId: 1,
    epoch: 7,
    high,
    minNext: high - 900,
    acksIn: 1,
    acksOut: 1,
    naksIn: of.status.phase === "Stalled" ? Math.floor(second * 4) : 0,
    naksOut: 0,
    cnpsIn: 0,
    cnpsOut: 0,
    dataPackets: high,
    dataBytes: high * 4352,
    freshPackets: high,
    drops: [],
    branches: node.branches.map((b, at) => {
      const behind = of.status.phase === "Stalled" && (b.name === "host4" || b.name === "leaf3" || b.name === "spine1") ? 60_000 : (at * 331 + b.name.length * 97) % 900;
      return { address: b.address, next: high - behind, unconfirmed: false, ackPsn: (high - behind - 1) & 0xffffff, epsn: null, ccount: 0, lastFeedbackNs: 2e6, packets: high, bytes: high * 4352 };
    }),
  }));
}

/** The packet at each place on its way to the first receivers, as far as pictures need it. */
export function packet(of: Group): unknown {
  const part = (name: string, at: number, octets: string, value: string, why = "") => ({ field: name, at, octets, value, why });
  const dots = (octets: number) => "..".repeat(octets);
  const inner = (at: number, source: string, destination: string, hops: number, qpn: string, why: readonly string[]) => [
    part("trafficClass", at, "6...", "from the packet"), part("flowLabel", at + 2, "....", "from the packet"), part("payloadLength", at + 4, "....", "from the packet"), part("nextHeader", at + 6, "11", "17"), part("hopLimit", at + 7, "..", hops ? `${hops} less than sent` : "from the packet", hops ? why[3] : ""),
    part("source", at + 8, "20010db8000100000000000000000001", source, why[0]), part("destination", at + 24, "fcfe0000000000009de57644f299d77e", destination, why[1]), part("udpSourcePort", at + 40, "....", "from the packet"), part("udpDestinationPort", at + 42, "12b7", "4791"),
    part("udpLength", at + 44, dots(2), "from the packet"), part("udpChecksum", at + 46, dots(2), "from the packet"), part("opcode", at + 48, "..", "from the packet"), part("bthFlags", at + 49, "..", "from the packet"), part("pKey", at + 50, dots(2), "from the packet"), part("bthReserved", at + 52, "..", "from the packet"),
    part("destQp", at + 53, qpn, `0x${qpn}`, why[2]), part("ackRequest", at + 56, "..", "from the packet"), part("psn", at + 57, dots(3), "from the packet"),
  ];
  const outer = (sid: string, hops: number, why: readonly [string, string]) => [
    part("outerTrafficClass", 14, "6...", "from the packet", why[0]), part("outerFlowLabel", 16, "a8e5", "0x9a8e5", why[0]), part("outerPayloadLength", 18, dots(2), "from the packet", why[0]), part("outerNextHeader", 20, "2b", "43", why[0]), part("outerHopLimit", 21, (64 - hops).toString(16), String(64 - hops), why[0] || why[1] && "forwarding: one hop less"),
    part("outerSource", 22, "fcff000000000001" + "0".repeat(15) + "1", "fcff:0:0:1::1", why[0]), part("outerDestination", 38, "5f00000000000001" + "0".repeat(16), sid, why[0] || why[1]), part("srh", 54, "290a040101000000" + "00".repeat(80), "88 octets: segments fcfe::9de5:7644:f299:d77e, 5f00::1; receivers in End.MT TLVs: 2", why[0]),
  ];
  const [proxy, headend] = ["fcfe::9de5:7644:f299:d77e", "headend: outer IPv6 header and SRH of the group (RFC 8754)"];
  const sent = inner(14, "2001:db8:1::1", proxy, 0, "89a8e5", []);
  const carried = (isNew: boolean) => inner(142, "2001:db8:1::1", proxy, 1, "89a8e5", isNew ? ["", "", "", "forwarding: one hop less"] : []);
  const hop = (node: string, port: string, direction: "in" | "out", peer: string, fields: unknown) => ({ node, port, direction, peer, fields });
  const places = of.status.tree.flatMap((node) => {
    const [first] = node.roles;
    if (first === "headend") return [hop(node.node, "eth1", "in", "host1", sent), ...node.branches.map((b) => hop(node.node, b.port, "out", b.name, [...outer("5f00::2", 0, [headend, ""]), ...carried(true)]))];
    const arrives = hop(node.node, node.upstreamPort, "in", node.parent ?? "", [...outer(first === "transit" ? "5f00::2" : node.sid, first === "transit" ? 0 : 1, ["", ""]), ...carried(false)]);
    return [arrives, ...node.branches.map((b) => (b.kind === "node" ? hop(node.node, b.port, "out", b.name, [...outer("5f00::3", 1, ["", `End.Replicate: SID of ${b.name} (RFC 9524)`]), ...carried(false)]) : hop(node.node, b.port, "out", b.name, inner(14, proxy, b.address, 2, "000011", ["End.MT: the group's Proxy Address", `End.MT: TLV entry 1, ${b.name}`, `End.MT: QPN of ${b.name}`, "forwarding: one hop less"]))))];
  });
  return { ...API, kind: "ExpectedPacket", group: of.metadata.name, hops: places, left: 0 };
}

/** The first receiver is waited for since a minute. */
export function waitedStrip(of: Group): WaitedStrip {
  const { receivers, left } = waitedFor(of);
  const shares = (rank: number) => Array.from({ length: 300 }, (_, at) => (at === 120 ? null : at > 240 ? (rank === 0 ? 970_000 : 1500) : Math.round((((at * 7919 + rank * 104_729) % 100) * 10_000) / (rank + 1))));
  return { ...API, kind: "WaitedStrip", group: of.metadata.name, startUnixNs: T0 - 300e9, receivers: receivers.map(({ host, node }, rank) => ({ host, node, minutePpm: rank === 0 ? 970_000 : 1500, sharesPpm: shares(rank) })), left };
}

export function waitedFor(of: Group): WaitedFor {
  const hosts = of.status.tree.flatMap((node) => node.branches.filter((b) => b.kind === "receiver").map((b) => ({ host: b.name, node: node.node })));
  const receivers = hosts.slice(0, 20).map((at, rank) => ({ ...at, sharePpm: Math.floor(500_000 / 2 ** rank), waitNs: 2e6 + rank * 3e5 }));
  return { apiVersion: "canopy/v1", kind: "WaitedFor", group: of.metadata.name, coversNs: 9.8e9, psns: hosts.length ? 881_000 : 0, unknownPpm: 0, receivers, left: Math.max(0, hosts.length - 20) };
}

/** Nodes whose agent has never connected, by their place in the topology. */
const isSilent = (at: number): boolean => at % (at < LARGE ? 97 : 1601) === 96;

export function node(name: string, at: number, ports: Link[]): Node {
  const [connected, behind] = [at % (at < LARGE ? 61 : 1187) !== 60 && !isSilent(at), at % (at < LARGE ? 37 : 907) === 36 ? 2 : 0];
  return {
    ...API,
    kind: "Node",
    metadata: { ...metadata(name), labels: { rack: `r${(at % 40) + 1}` } },
    spec: {
      id: at + 1,
      nodeAddress: `fcff:0:0:${(at + 1).toString(16)}::1`,
      un: `5f00:0:${(at + 1).toString(16)}::/48`,
      endMt: `5f00:0:${(at + 1).toString(16)}:f001::`,
      term: 1,
      generation: 40 + (at % 9),
      groups: (at * 13) % 400,
      routes: 900,
      portCount: ports.length,
      ports: ports.slice(0, 24).map((link, index) => ({ index: index + 1, name: link.metadata.name.split("/")[1] ?? "", peer: link.spec.to, mtu: 9000, linkLocal: "fe80::1", thresholds: { kMinBytes: 32000, kMaxBytes: 64000, rttNs: 45_187, portRateBps: 400e9, vEcn: 500, vGrowthBytesPerMs: 0 } })),
    },
    status: {
      state: !connected ? "NotConnected" : behind ? "Behind" : "InSync",
      connected,
      observedTerm: isSilent(at) ? null : 1,
      observedGeneration: isSilent(at) ? null : 40 + (at % 9) - behind,
      observedDigest: "",
      contract: "1.2",
      errors: [],
      agentVersion: "0.1.0",
      kernel: "6.12.48",
      conditions: [{ type: "Connected", status: connected ? "True" : "False", reason: connected ? "AgentConnected" : "AgentNotConnected", message: connected ? "the agent is connected" : "the agent is not connected" }],
    },
  };
}

/** Directions with queues above the thresholds now and then. */
const isBusy = (at: number): boolean => at % (at < LARGE ? 29 : 1811) === 28;

export function links(of: Topology): Link[] {
  const silent = new Set(of.spec.nodes.filter((_, at) => isSilent(at)).map(({ name }) => name));
  return measuredLinks(of).map((link): Link => {
    const [node = ""] = link.metadata.name.split("/");
    if (!silent.has(node)) return { ...link, status: { ...link.status, ...(link.spec.drained && { state: "Drained" as const }) } };
    const reason = `no round-trip time yet: the agents of ${node} and ${link.spec.to.split("/")[0] ?? ""} measure it when both run, or set rttUs of the link`;
    return { ...link, status: { state: "NotReported", problem: null, rtt: { samples: 0, lost: 0, refused: 0 }, thresholds: null, reason, pushes: 0, congestion: null, loss: null } };
  });
}

function queueOf(at: number): QueueState {
  const deepest = Math.max((at * 977) % (isBusy(at) ? 64_000 : 9000), (at * 1973) % (isBusy(at) ? 90_000 : 20_000));
  if (deepest > 64_000) return "AboveKMax";
  if (deepest > 32_000) return "AboveKMin";
  return isBusy(at) && at % 11 > 0 ? "Marked" : "Quiet";
}

function measuredLinks(of: Topology): Link[] {
  const both = of.spec.links.flatMap((link) => [[link.a, link.b], [link.b, link.a]].map(([from, to]) => ({ from: from ?? "", to: to ?? "", link })));
  return both
    .filter(({ from }) => !from.startsWith("host"))
    .map(({ from, to, link }, at) => ({
      ...API,
      kind: "Link",
      metadata: metadata(from),
      spec: { link: `${link.a}--${link.b}`, to, drained: link.drained ?? false, rateBps: 400e9, bufferBytes: 6250000, alpha: 1000, kBaseBytes: 64000, vEcn: 500, vGrowthBytesPerMs: null, rttUs: null },
      status: {
        state: "InService" as const,
        problem: null,
        rtt: { configuredNs: null, measuredNs: 39490, filteredNs: 21516, estimateNs: 20_000 + at * 7, samples: 557, lost: 0, refused: 0, reportedAgoNs: 9e8 },
        thresholds: { kMaxBytes: 64000, kMinBytes: 32000, bound: { by: "base" } },
        reason: "",
        pushes: 1,
        pushedAgoNs: 5e11,
        pushedRttNs: 14155,
        congestion: { state: queueOf(at), queueBytes: (at * 977) % (isBusy(at) ? 64_000 : 9000), peakQueueBytes: (at * 1973) % (isBusy(at) ? 90_000 : 20_000), depthSource: "kernel", level: 0, peakLevel: 0, emrPermille: 0, qgrBytesPerMs: 0, packets: at * 91, bytes: at * 72581, marked: isBusy(at) ? at % 11 : 0, ce: 0, notEct: 0, cnps: { notify: isBusy(at) ? at % 9 : 0, pause: 0, rateReduce: 0, resume: 0, failed: 0 }, suppressed: 0, rateLimitedFlow: 0, rateLimitedPort: 0, unknownSourceQp: 0, reportedAgoNs: at % 19 === 18 ? 42e9 : 9e8 },
        loss: { requests: 11139, lost: at % (at < LARGE ? 230 : 2309) === 22 ? 12 : 0, queueDrops: 0, dataPackets: 0, dataLost: 0, permille: at % (at < LARGE ? 230 : 2309) === 22 ? 4 : null },
      },
    }));
}

/** The links with the problems that are open. */
export function withProblems(all: readonly Link[], open: readonly Problem[]): Link[] {
  const of = new Map(open.map((problem) => [problem.object.name, problem]));
  return all.map((link) => {
    const problem = of.get(link.spec.link) ?? of.get(link.metadata.name);
    if (!problem) return link;
    const loss = !link.status.loss ? null : { ...link.status.loss, ...(problem.severity === "critical" ? { lost: 11_139, permille: 1000 } : { lost: 134, permille: 12 }) };
    return { ...link, status: { ...link.status, state: "Problem", problem: { code: problem.code, severity: problem.severity }, loss } };
  });
}

/** Whether a field selector of `!=` lets the item pass. */
export function passes(item: Node | Link, fieldSelector: string): boolean {
  const queue = "congestion" in item.status ? (item.status.congestion?.state ?? "Unknown") : "";
  const values: Record<string, string | undefined> = { state: item.status.state, queue };
  return fieldSelector === "" || fieldSelector.split(",").every((one) => values[one.split("!=")[0] ?? ""] !== one.split("!=")[1]);
}

/** The map of a topology; the tier of a node is the hops to its hosts. */
export function mapOf(of: Topology): FabricMap {
  const tiers: Record<string, number> = { leaf: 1, spine: 2, core: 3 };
  const nodes = of.spec.nodes.map((node) => ({ name: node.name, id: node.id, tier: tiers[node.name.replace(/\d+$/, "")] ?? 1, ...("site" in node && { site: String(node.site) }) }));
  const index = new Map([...nodes, ...(of.spec.hosts ?? [])].map(({ name }, at) => [name, at]));
  const links = of.spec.links.map(({ a, b }) => {
    const [[one = "", aPort = ""], [other = "", bPort = ""]] = [a.split("/"), b.split("/")];
    return { a: index.get(one) ?? 0, aPort, b: index.get(other) ?? 0, bPort };
  });
  const below = new Map(links.filter((link) => link.b >= nodes.length).map((link) => [link.b, link.a]));
  return { ...API, kind: "Map", version: `fixture.${of.metadata.generation}`, nodes, hosts: (of.spec.hosts ?? []).map(({ name }, at) => ({ name, node: below.get(nodes.length + at) ?? 0 })), links };
}

/** The values of a layer of the map. */
export function mapLayer(layer: MapLayerName, map: FabricMap, nodes: readonly Node[], links: readonly Link[], open: readonly Problem[]): MapLayer {
  const values = layer === "nodes" ? nodeOctets(map, nodes) : linkOctets(layer, map, nodes, links, open);
  return { ...API, kind: "MapLayer", layer, version: map.version, revision: "r1", values: Buffer.from(values).toString("base64") };
}

function nodeOctets(map: FabricMap, nodes: readonly Node[]): Uint8Array {
  const byName = new Map(nodes.map((one) => [one.metadata.name, one]));
  return Uint8Array.from(map.nodes, ({ name }) => {
    const { spec, status } = byName.get(name) ?? {};
    return !status?.connected ? 3 : status.errors.length ? 2 : (status.observedGeneration ?? 0) < (spec?.generation ?? 0) ? 1 : 0;
  });
}

function linkOctets(layer: MapLayerName, map: FabricMap, nodes: readonly Node[], links: readonly Link[], open: readonly Problem[]): Uint8Array {
  const byPort = new Map(links.map((link) => [link.metadata.name, link]));
  const silent = new Set(nodes.filter(({ status }) => status.observedTerm === null).map(({ metadata: { name } }) => name));
  const problems = new Map(open.map((problem) => [problem.object.name, { info: 1, warning: 2, critical: 3 }[problem.severity]]));
  const isLarge = map.nodes.length >= LARGE;
  const name = (at: number) => map.nodes[at]?.name ?? map.hosts[at - map.nodes.length]?.name ?? "";
  const octet = (from: string, link: string, drained: boolean, at: number): number => {
    const { congestion, loss, thresholds } = byPort.get(from)?.status ?? {};
    const [sender = ""] = from.split("/");
    switch (layer) {
      case "state":
        return problems.get(link) ?? (drained || silent.has(sender) ? 1 : 0);
      case "loss":
        return loss ? (loss.permille ?? 0) : 255;
      case "queue": {
        if (!congestion || !thresholds) return 255;
        const [deepest, min, max] = [Math.max(congestion.queueBytes, congestion.peakQueueBytes), thresholds.kMinBytes, thresholds.kMaxBytes];
        return deepest >= max ? 200 : deepest >= min ? 100 + Math.floor((100 * (deepest - min)) / (max - min)) : Math.floor((100 * deepest) / min);
      }
      default:
        // Some ports are busy in one direction.
        return congestion ? (at % (isLarge ? 3001 : 61) === 60 ? 97 : at % (isLarge ? 701 : 23) === 22 ? 78 : (at * 7) % 66) : 255;
    }
  };
  return Uint8Array.from(
    map.links.flatMap(({ a, aPort, b, bPort }, at) => {
      const [one, other] = [`${name(a)}/${aPort}`, `${name(b)}/${bPort}`];
      const drained = byPort.get(one)?.spec.drained ?? false;
      return [octet(one, `${one}--${other}`, drained, 2 * at), octet(other, `${one}--${other}`, drained, 2 * at + 1)];
    }),
  );
}

/** In the order of the controller. */
export function problems(count: number, of: Topology, names: readonly string[]): Problem[] {
  const all = Array.from({ length: count }, (_, at): Problem => {
    const link = of.spec.links[(at * 5 + 1) % Math.max(1, of.spec.links.length)];
    const name = link ? `${link.a}--${link.b}` : "leaf1/eth1--host1/eth0";
    const critical = at % 3 === 0;
    return {
      id: (0x9a3f00 + at).toString(16).padStart(16, "0"),
      code: critical ? "LinkBlackHole" : "LinkLossy",
      severity: critical ? "critical" : at % 3 === 1 ? "warning" : "info",
      object: { kind: "link", name },
      title: critical ? "loses every packet, or every packet of data, although its carrier is up" : "loses packets although its carrier is up",
      sinceUnixNs: T0 - (at + 1) * 95e9,
      count: at % 4 === 3 ? 3 : 1,
      closing: at % 5 === 4,
      root: at % 2 === 0 || at === 1,
      evidence: [`${critical ? "1000" : "12"} of 1000 STAMP packets in the last 10 s got no answer`, `${critical ? "1000" : "4"} of 1000 packets of data did not arrive at the other end`],
      ...(!name.includes("--host") && { drainLink: name }),
      causes: [],
      affects: names.slice(0, (at * 3) % 9).map((group) => ({ id: "0000000000000abc", code: "GroupDegraded", object: { kind: "group", name: group } })),
      remedy: "Check optics, cables and counters at both ends. Drain the link to move its trees away.",
    };
  });
  // A group that is held up by one receiver: cause and effect.
  const [held] = names.slice(2);
  if (count > 1 && held) {
    const [silent, stalled] = [{ id: "00000000009b0001", code: "BranchSilent", object: { kind: "member", name: `${held}/host4` } }, { id: "00000000009b0002", code: "GroupStalled", object: { kind: "group", name: held } }] as const;
    const open = { severity: "critical", sinceUnixNs: T0 - 120e9, count: 1, closing: false } as const;
    all.push({ ...silent, ...open, title: "acknowledges nothing", root: true, evidence: ["AckPSN has not advanced for 2 min; data was forwarded to it meanwhile"], causes: [], affects: [stalled], remedy: "See whether its application runs. Evict the receiver to let the others continue." });
    all.push({ ...stalled, ...open, title: "does not advance", root: false, evidence: ["65536 packets are not acknowledged"], causes: [silent], affects: [], remedy: "Mend the cause." });
  }
  // A receiver of many, which the tree does not draw one by one.
  const [, , , , , , , , many] = names;
  if (many) all.push({ id: "00000000009b0003", code: "BranchSilent", object: { kind: "member", name: `${many}/host10` }, severity: "warning", sinceUnixNs: T0 - 60e9, count: 1, closing: false, title: "acknowledges nothing", root: false, evidence: [], causes: [], affects: [], remedy: "See whether its application runs." });
  return all.sort(bySeverity);
}

const CHARTED: Record<string, readonly [string, ChartUnit, number][]> = {
  fleet: [["bytes", "bytesPerSecond", 4.1e9], ["saved", "bytesPerSecond", 9.7e9], ["groupsReady", "count", 100], ["problems", "count", 3]],
  group: [["bytes", "bytesPerSecond", 4.1e8], ["packets", "perSecond", 1e5], ["goodput", "bytesPerSecond", 3.9e8], ["naks", "perSecond", 12], ["cnps", "perSecond", 40], ["retransmissions", "perSecond", 90], ["outstanding", "packets", 900]],
  link: [["bytes", "bytesPerSecond", 4.1e9], ["queue", "bytes", 48_000], ["loss", "share", 0.002], ["rtt", "seconds", 2.1e-5], ["marks", "perSecond", 300], ["drops", "perSecond", 0]],
  node: [["drops", "perSecond", 2]],
};

/** An incident of each problem; where there are many, as many as the controller keeps. */
export function incidents(open: readonly Problem[]): IncidentItem[] {
  const severe = open.filter((problem) => problem.severity !== "info");
  const all = open.length < MANY ? severe : Array.from({ length: 200 }, (_, at) => severe[at % severe.length] as Problem);
  return all.map((problem, at) => ({
    id: `${1764170000 - at * 900}-${problem.id}`, problem: problem.id, of: { code: problem.code, kind: problem.object.kind, name: problem.object.name }, severity: problem.severity, title: problem.title,
    evidence: problem.evidence, openedUnixNs: T0 - (at + 1) * 180e9, ...(at % 3 && { closedUnixNs: T0 - (at + 1) * 180e9 + at * 31e9 }), reopened: at % 4, causes: [],
    affects: problem.affects.map(({ code, object }) => ({ code, kind: object.kind, name: object.name })),
  }));
}

/** The first one, with charts of both ends of its link and of a group. */
export function incidentOf(open: readonly Problem[]): unknown {
  const [incident] = incidents(open);
  if (!incident) return undefined;
  const ends = incident.of.kind === "link" ? incident.of.name.split("--").map((end) => `link/${end}`) : [];
  const objects = [...ends, "group/group-00001", "group/group-00002"];
  const all = objects.map((object) => charts(new URLSearchParams({ object })) as { startUnixNs: number; series: unknown[] });
  return { ...API, kind: "Incident", incident, startUnixNs: all[0]?.startUnixNs, stepSeconds: 1, series: all.flatMap(({ series }) => series) };
}

/** Charts that wave, with a gap; `null` if nothing is kept of the object. */
export function charts(query: URLSearchParams): unknown {
  const object = query.get("object") ?? "";
  const [step, now] = [Number(query.get("step") ?? 1), Math.floor(T0 / 1e9)];
  const from = Math.floor(Number(query.get("from") ?? now - 300) / step);
  const steps = Math.floor(now / step) - from + 1;
  const all = CHARTED[object.split("/")[0] ?? ""];
  if (!all || object === "group/group-00003") return undefined;
  const points = (high: number, series: number, of: ChartUnit) =>
    Array.from({ length: steps }, (_, at) => {
      const wave = 0.6 + 0.3 * Math.sin((from + at) / 17 + series) + 0.1 * Math.sin((from + at) * 1.7);
      if (of === "count") return [Math.round(high * wave), Math.round(high * wave)];
      return (from + at) % 120 < 9 ? null : [high * wave, high * wave * (1.1 + 0.5 * Math.abs(Math.sin((from + at) / 5)))];
    });
  const series = all.filter(([name]) => !query.has("series") || query.get("series") === name);
  return { ...API, kind: "Charts", startUnixNs: from * step * 1e9, stepSeconds: step, series: series.map(([name, unit, high], at) => ({ object, series: name, unit, points: points(high, at, unit) })) };
}

const DROPS: readonly (readonly [number, string, string | null, number])[] = [[1, "parse", null, 5], [14, "boundary", "eth1", 0.4], [21, "branch_unknown", null, 0]];

/** The last sample of a node; some of its counters rise. */
export function nodeSample(of: Node | undefined): unknown {
  const seconds = Date.now() / 1000;
  const [node, count] = [of?.metadata.name ?? "", of?.spec.groups ?? 0];
  const drops = DROPS.map(([reason, name, port, perSecond]) => ({ reason, name, port, packets: Math.floor((seconds % 1e6) * perSecond) + 12 }));
  const groups = Array.from({ length: count }, (_, at) => ({ node, group: `group-${String(at + 1).padStart(5, "0")}`, timeUnixNs: seconds * 1e9, branches: [], drops: [] }));
  return { ...API, kind: "NodeTelemetry", node, drops: of?.metadata.name === "leaf1" ? drops : [], groups, timeUnixNs: of?.status.connected ? seconds * 1e9 : null };
}

export function flows(node: string, port: string): Flow[] {
  const cnps = (notify: number) => ({ cnps: { notify, pause: 0, rateReduce: notify * 2, resume: 0, failed: 0 }, suppressed: notify / 2, rateLimitedFlow: 0, rateLimitedPort: 0, unknownSourceQp: 0 });
  return [2, 3, 4, 5].map((host, at): Flow => ({
    node, port, host: host === 4 ? null : `host${host}`, group: at ? null : "group0", src: host === 4 ? "2001:db8:ffff::9" : `2001:db8:${host}::1`, dst: at ? "2001:db8:9::1" : "fcfe::9de5:7644:f299:d77e", dstQp: 17, srcQp: host === 4 ? null : 18, origin: "learned", packets: 91_000, bytes: 91_000 * 4352, ce: 40,
    rateBps: 4e9 / 2 ** at, sharePermille: Math.floor(640 / 2 ** at), ...cnps(host === 4 ? 0 : 8 - at * 2), unknownSourceQp: host === 4 ? 12 : 0, reportedAgoNs: 8e8,
  }));
}


export function events(count: number): Event[] {
  return Array.from({ length: count }, (_, at) => event(at + 1, T0 - (count - at) * 3.7e9));
}

export function event(sequence: number, at: number): Event {
  const ofNode = sequence % 4 === 2;
  const details = ["the first data of the group", "Programming: waiting for leaf2, leaf3 and 4 more to confirm their programs", "the node's agent connected", "link leaf1/eth2--spine5/eth1 loses packets although its carrier is up: 12 of 1000 STAMP packets in the last 10 s got no answer (LinkLossy, problem 00000000009a3f00)"];
  return { sequence, timeUnixNs: at, code: ["FirstData", "GroupPhase", "AgentConnected", "ProblemOpened"][sequence % 4] ?? "", node: ofNode ? "leaf1" : null, group: ofNode || sequence % 4 === 3 ? null : `group-${String((sequence % 90) + 1).padStart(5, "0")}`, branch: null, detail: details[sequence % 4] ?? "" };
}

const ALICE = { kind: "operator", name: "alice", uid: 1000 } as const;

/** Entry `sequence` of the audit of operators, or of hosts. */
export function entry(sequence: number, ofHosts: boolean): AuditItem {
  const at = { sequence, timeUnixNs: T0 - (4096 - sequence) * 41e9 };
  const group = `group-${String((sequence % 90) + 1).padStart(5, "0")}`;
  if (ofHosts) return { ...at, action: sequence % 3 ? "join" : "leave", by: { kind: "host", name: `host${(sequence % 80) + 1}`, uid: 1000 }, kind: "Member", name: `${group}/host${(sequence % 80) + 1}`, ...(sequence % 2 && { count: 12, lastUnixNs: at.timeUnixNs + 44e9 }) };
  return { ...at, action: ["create", "update", "update", "delete"][sequence % 4] ?? "", by: ALICE, kind: "Group", name: group, uid: "00000000000004d2", generation: (sequence % 9) + 1, fields: sequence % 4 === 1 ? ["/spec/pathMtu", "/metadata/labels/team"] : [], requestId: "4bf92f3577b34da6a3ce929d0e0e4736" };
}

const SETS: readonly ChangeSetPhase[] = ["Applying", "Stopped", "Applied", "Undone", "Applied"];

/** As many as the controller keeps, 16 at most. */
export function changeSets(count: number): ChangeSet[] {
  return Array.from({ length: Math.min(count, 16) }, (_, at): ChangeSet => {
    const phase = SETS[at % SETS.length] ?? "Applied";
    const items = [100, 2400, 31, 10_000, 400][at % 5] ?? 31;
    const done = phase === "Applying" || phase === "Stopped" ? Math.floor(items / 3) : items;
    const refused = phase === "Stopped" || phase === "Undone" ? [{ kind: "Group", name: "group-00012", detail: "it was written since it was read: it has generation 7" }] : [];
    return {
      ...API, kind: "ChangeSet", id: `8d0c5b61f2a94e${at.toString(16).padStart(2, "0")}`, phase, by: ALICE, begunUnixNs: T0 - at * 3600e9, requestId: "4bf92f3577b34da6a3ce929d0e0e4736",
      items, done, created: Math.floor(done / 2), updated: done - Math.floor(done / 2), putBack: phase === "Undone" ? done - 1 : 0, refused,
      ...(phase === "Applying" ? { waitsFor: "a commit is pending" } : { endedUnixNs: T0 - at * 3600e9 + 9e9 }), ...(phase === "Undone" && { undoneBy: ALICE, undoneUnixNs: T0 - at * 3000e9 }),
    };
  });
}

interface Part { field: string; at: number; octets: string; value: string; why: string }
type Place = Pick<CaptureHop, "node" | "port" | "direction" | "peer"> & { fields: Part[] };

/** The packet of [`packet`] as it was seen, with one octet that is not as expected. */
export function capture(of: Group): Capture {
  const { hops } = packet(of) as { hops: Place[] };
  const seen = hops.map(({ fields, ...place }, at): CaptureHop => {
    if (at === 3) return place;
    const whole = `02000000000102000000000286dd${fields.map(({ octets }) => octets.replaceAll(".", "2")).join("")}80001267`;
    const head = whole.slice(0, 384);
    const innerAt = fields.find(({ field }) => field === "trafficClass")?.at ?? 14;
    const changes = fields.filter(({ why }) => why).map(({ field, at: from, octets, why }) => ({ field, at: from, before: "", after: octets.replaceAll(".", "2"), why }));
    const unexpected = at === 2 ? [{ field: "hopLimit", at: innerAt + 7, expected: "62" }] : [];
    return { ...place, frame: { timeUnixNs: T0, lengthBytes: 4210, head, inner: whole.slice(2 * innerAt, 2 * innerAt + 120), innerAt, changes, unexpected, source: "2001:db8:1::1", destination: "fcfe::9de5:7644:f299:d77e", hopLimit: 63, trafficClass: 2, opcode: 4, destQp: 17, psn: 1586061, outer: innerAt > 14 ? { source: "fcff:0:0:1::1", destination: "5f00::2", hopLimit: 64, trafficClass: 2, segmentsLeft: 1 } : null } };
  });
  return { ...API, kind: "Capture", id: "00000000000000c1", group: of.metadata.name, armedUnixNs: T0 - 44e9, by: "alice", psn: 1586061, state: "complete", withinNs: 5e9, sent: 1586070, left: 0, unable: [], hops: seen };
}

export const captureItem = ({ id, armedUnixNs, by, psn, state, hops }: Capture): CaptureItem => ({ id, armedUnixNs, by, psn, state, places: hops.length, seen: hops.filter(({ frame }) => frame).length });
