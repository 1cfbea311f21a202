// SPDX-License-Identifier: Apache-2.0
// Which ports are congested, and which sources send what leaves there.
import type { Flow, Group, Link, Problem, Topology } from "../api/types";
import { above, figures, type Point } from "./chart";
import { bytes, count, counted, digits, permille } from "./format";
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

function rankOf({ status: { congestion, thresholds } }: Link): Rank | null {
  if (!congestion || !thresholds) return null;
  const deepest = Math.max(congestion.queueBytes, congestion.peakQueueBytes);
  if (deepest > thresholds.kMaxBytes) return "over";
  if (deepest > thresholds.kMinBytes) return "marking";
  return congestion.marked > 0 || sent(congestion) > 0 ? "earlier" : null;
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

/** Host and group behind a flow: data of a group goes to its Proxy Address, and copies at an edge come from it. */
export function finder(topology: Topology | null | undefined, groups: readonly Group[]): (flow: Pick<Flow, "src" | "dst">) => { name: string; group: string | undefined } {
  const hosts = new Map((topology?.spec.hosts ?? []).map((host) => [host.address, host.name]));
  const byProxy = new Map(groups.map((group) => [group.status.connection.proxyAddress, group]));
  return ({ src, dst }) => {
    const copies = byProxy.get(src);
    return { name: copies?.status.source ?? hosts.get(src) ?? src, group: (copies ?? byProxy.get(dst))?.metadata.name };
  };
}

/** The sources of flows, the one that sends most first. */
export function sources(flows: readonly Flow[], find: ReturnType<typeof finder>): Source[] {
  const all = new Map<string, Source>();
  for (const flow of flows) {
    const { name, group } = find(flow);
    const key = `${flow.src} ${group ?? ""}`;
    const old = all.get(key);
    all.set(key, {
      name,
      address: flow.src,
      group,
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
