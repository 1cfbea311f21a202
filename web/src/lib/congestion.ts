// SPDX-License-Identifier: Apache-2.0
// Which ports are congested, and which sources send what leaves there.
import type { FabricMap, Flow, Link, Problem, QueueState } from "../api/types";
import { above, figures, type Point } from "./chart";
import { bytes, count, counted, digits, permille } from "./format";
import { NOT_MEASURED } from "./mapLayer";
import { byName } from "./order";

/** `over`: above K_max, or a problem is open; `marking`: above K_min; `earlier`: neither, but packets were marked or sources notified. */
export type Rank = "over" | "marking" | "earlier";

export interface Congested {
  link: Link;
  rank: Rank;
  problem: Problem | undefined;
}

/**
 * Ports that are or were congested: those with an open problem first, then by the packets that they marked. A queue comes and goes in
 * milliseconds, so what it is now has no part in the order.
 */
export function congested(links: readonly Link[], problems: readonly Problem[]): Congested[] {
  const open = new Map(problems.filter((problem) => problem.code === "LinkCongested").map((problem) => [problem.object.name, problem]));
  const found = links.flatMap((link): Congested[] => {
    const problem = open.get(link.metadata.name);
    const rank = problem ? "over" : rankOf(link);
    return rank ? [{ link, rank, problem }] : [];
  });
  const marked = ({ link }: Congested) => link.status.congestion?.marked ?? 0;
  return found.sort((a, b) => Number(b.problem !== undefined) - Number(a.problem !== undefined) || marked(b) - marked(a) || byName(a.link.metadata.name, b.link.metadata.name));
}

const RANKS: Readonly<Partial<Record<QueueState, Rank>>> = { AboveKMax: "over", AboveKMin: "marking", Marked: "earlier" };

const rankOf = ({ status: { congestion } }: Link): Rank | null => (congestion?.state && RANKS[congestion.state]) ?? null;

/** How many ports of nodes have reported their queue within a minute, by the map's layer; empty if none has. */
export function measuredPorts({ nodes, links }: FabricMap, queues: Uint8Array): string {
  let [all, measured] = [0, 0];
  links.forEach(({ a, b }, at) => {
    for (const [from, octet] of [[a, queues[2 * at]], [b, queues[2 * at + 1]]] as const) {
      if (from >= nodes.length) continue;
      all += 1;
      if (octet !== NOT_MEASURED) measured += 1;
    }
  });
  const have = all === 1 ? "has thresholds and has reported its queue" : "have thresholds and have reported their queue";
  return measured === 0 ? "" : `${count(measured)} of ${counted(all, "port")} ${have} within a minute`;
}

type Counts = Pick<Flow, "cnps" | "suppressed" | "rateLimitedFlow" | "rateLimitedPort" | "unknownSourceQp">;

/** Long-haul CNPs that were sent. */
export const sent = ({ cnps }: Counts): number => cnps.notify + cnps.rateReduce + cnps.pause + cnps.resume;
const held = (counts: Counts): number => counts.suppressed + counts.rateLimitedFlow + counts.rateLimitedPort;

/** What a port notified its sources of, in words. */
export function notified(counts: Counts): string {
  const { notify, rateReduce, pause, resume } = counts.cnps;
  const actions = ([["Notify", notify], ["Rate Reduce", rateReduce], ["Pause", pause], ["Resume", resume]] as const).filter(([, times]) => times > 0);
  const list = actions.map(([action, times]) => `${action} ${count(times)}`).join(", ");
  const total = sent(counts) === 0 ? "no Long-haul CNP" : `${counted(sent(counts), "Long-haul CNP")} (${list})`;
  return held(counts) > 0 ? `${total}, ${count(held(counts))} held back` : total;
}

/** A source of what leaves a port. */
export interface Source {
  /** Host, or the address that no host has. */
  name: string;
  address: string;
  /** Group whose data it is. Its copies are counted by flow only while the queue is above K_min. */
  group: string | undefined;
  flows: number;
  permille: number;
  rateBps: number;
  counts: Counts;
}

/** The sources of flows, the one that sends most first. */
export function sources(flows: readonly Flow[]): Source[] {
  const all = new Map<string, Source>();
  for (const flow of flows) {
    const { host, group } = flow;
    const key = `${flow.src} ${group ?? ""}`;
    const old = all.get(key);
    all.set(key, {
      name: host ?? flow.src,
      address: flow.src,
      group: group ?? undefined,
      flows: (old?.flows ?? 0) + 1,
      permille: Math.min(1000, (old?.permille ?? 0) + flow.sharePermille),
      rateBps: (old?.rateBps ?? 0) + flow.rateBps,
      counts: old ? sum(old.counts, flow) : flow,
    });
  }
  return [...all.values()].sort((a, b) => b.permille - a.permille || b.rateBps - a.rateBps || (a.name < b.name ? -1 : 1));
}

function sum(a: Counts, b: Counts): Counts {
  return {
    cnps: {
      notify: a.cnps.notify + b.cnps.notify,
      rateReduce: a.cnps.rateReduce + b.cnps.rateReduce,
      pause: a.cnps.pause + b.cnps.pause,
      resume: a.cnps.resume + b.cnps.resume,
      failed: a.cnps.failed + b.cnps.failed,
    },
    suppressed: a.suppressed + b.suppressed,
    rateLimitedFlow: a.rateLimitedFlow + b.rateLimitedFlow,
    rateLimitedPort: a.rateLimitedPort + b.rateLimitedPort,
    unknownSourceQp: a.unknownSourceQp + b.unknownSourceQp,
  };
}

/** What a source was notified of; it cannot be while its queue pair is not known. */
export function reaction(counts: Counts): string {
  if (sent(counts) === 0 && counts.unknownSourceQp > 0) return "not possible: its source QP is not known";
  return sent(counts) === 0 && held(counts) === 0 ? "not notified" : notified(counts);
}

const share = (steps: number, of: number): string => `${digits((100 * steps) / of)} %`;

interface Limits {
  kMinBytes: number;
  kMaxBytes: number;
}

/** A queue that was not above K_min in any step. */
export const isQuiet = (points: readonly Point[], { kMinBytes }: Limits): boolean => above(points, kMinBytes).steps === 0;

/** How much of the last minutes a queue was over its thresholds. */
export function overTime(points: readonly Point[], step: number, { kMinBytes, kMaxBytes }: Limits): string {
  const all = figures(points, step);
  if (!all) return "Nothing was measured in the last 5 min.";
  const [max, min] = [above(points, kMaxBytes), above(points, kMinBytes)];
  const measured = `of ${counted(max.of * step, "measured second")}`;
  const deepest = `The largest depth was ${bytes(all.max)}.`;
  if (min.steps === 0) return `Not over K_min in any ${measured}. ${deepest}`;
  if (max.steps === 0) return `Over K_min in ${share(min.steps, min.of)} ${measured}, never over K_max. ${deepest}`;
  return `Over K_max in ${share(max.steps, max.of)} ${measured}, over K_min in ${share(min.steps, min.of)}. ${deepest}`;
}

/** Which source sends most of what leaves a port, as a sentence. */
export function heaviest(found: readonly Source[]): string {
  const first = found[0];
  if (!first?.permille) return "No flow is counted there now.";
  const share = `${permille(first.permille)} of what leaves there`;
  if (!first.group) return `${first.name} sends most: ${share}.`;
  return `${first.name} sends most, for group ${first.group}: ${share}, counted only while the queue is above K_min.`;
}
