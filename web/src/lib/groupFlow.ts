// SPDX-License-Identifier: Apache-2.0
// What telemetry has of one tree of a group now: the samples of its nodes, for all parts of the page that draw them.
import type { GroupSample, TreeNode } from "../api/types";
import { rise } from "./counter";
import { perSecond } from "./format";
import { lanes } from "./lanes";
import { isLate } from "./late";
import { inWords, SentTimes, type Waiting } from "./oldest";
import { Race, waitedFor } from "./race";
import { firstOver, portsTo } from "./treeLinks";

export interface Receiver {
  host: string;
  /** Of its branch. */
  address: string;
  edge: string;
}

interface Naks {
  count: number;
  at: number;
  /** Per second, from two samples. */
  rate: number;
  /** When the sample came here, on the controller's clock. */
  came: number;
}

export class GroupFlow {
  /** The receivers of the tree, in its order; their places are those of `race`. */
  readonly receivers: readonly Receiver[];
  readonly race: Race;
  /** Addresses of the branches that are waited for, from the headend on. */
  path: readonly string[] = [];
  /** The controller's time of the last samples, nanoseconds. */
  now = Number.NaN;
  /** Receivers that have a lane, by their places. The same array as long as they are the same. */
  lanes: readonly number[];
  /** Ports over a threshold: links have no telemetry of their own here. */
  over: ReadonlyMap<string, string> = new Map();
  private readonly all: Race;
  private readonly places: ReadonlyMap<string, number>;
  /** When the sample of each branch came here, on the controller's clock: that of its node may differ. */
  private readonly came: Float64Array;
  private readonly root: string | undefined;
  private readonly childOf: ReadonlyMap<string, string>;
  /** By edge: of other nodes, no receiver's packets are known. */
  private readonly sent: ReadonlyMap<string, SentTimes>;
  private readonly naks = new Map<string, Naks>();
  private readonly listeners = new Set<() => void>();

  constructor(private readonly tree: readonly TreeNode[]) {
    const branches = tree.flatMap(({ node, branches }) => branches.map((branch) => ({ ...branch, edge: node })));
    this.receivers = branches.filter(({ kind }) => kind === "receiver").map(({ name, address, edge }) => ({ host: name, address, edge }));
    this.race = new Race(this.receivers.map(({ address }) => address));
    this.lanes = lanes([], this.race.behind);
    this.sent = new Map(this.receivers.map(({ edge }) => [edge, new SentTimes()]));
    const addresses = branches.map(({ address }) => address);
    this.all = new Race(addresses);
    this.came = new Float64Array(addresses.length).fill(Number.NaN);
    this.places = new Map(addresses.map((address, at) => [address, at]));
    this.root = tree.find(({ parent }) => !parent)?.node;
    this.childOf = new Map(branches.filter(({ kind }) => kind === "node").map(({ address, name }) => [address, name]));
  }

  /** Takes the samples of all nodes; none if they could not be read. */
  readonly update = (samples: readonly GroupSample[], now: number): void => {
    const isFirst = this.race.behind.every((behind) => Number.isNaN(behind));
    this.race.update(samples);
    const before = this.all.sampledAt.slice();
    this.all.update(samples);
    this.all.sampledAt.forEach((sampled, at) => {
      if (sampled !== before[at] && !Number.isNaN(sampled)) this.came[at] = now;
    });
    for (const sample of samples) this.note(sample, now);
    this.lanes = lanes(isFirst && samples.length > 0 ? [] : this.lanes, this.race.behind);
    this.path = this.root ? waitedFor(this.root, samples, this.childOf) : [];
    this.now = now;
    for (const listener of this.listeners) listener();
  };

  /** Bits per second of copies to these branches together; `NaN` if none of them has a rate of the last seconds. */
  rate(addresses: readonly string[]): number {
    const known = addresses.map((address) => this.rateOf(address)).filter((rate) => !Number.isNaN(rate));
    return known.length ? known.reduce((sum, rate) => sum + rate, 0) : Number.NaN;
  }

  /** For how long the oldest packet is under way that a receiver has not acknowledged; `undefined` while its place is not known. */
  oldest(at: number): Waiting | null | undefined {
    const next = this.race.next[at] ?? Number.NaN;
    const sent = this.sent.get(this.receivers[at]?.edge ?? "");
    return Number.isNaN(next) || !sent ? undefined : sent.since(next);
  }

  /** What else is known of a receiver that is behind: ", the oldest for 12 s; NAKs 4 /s at n2; port n2/eth2 over K_min". */
  about(at: number): string {
    const { edge = "", address = "" } = this.receivers[at] ?? {};
    const oldest = inWords(this.oldest(at) ?? null);
    const naks = this.naksOf(edge);
    const port = firstOver(portsTo(this.tree, edge, address), this.over);
    return [/\d/.test(oldest) ? `, the oldest for ${oldest}` : "", naks > 0 ? `; NAKs ${perSecond(naks)} at ${edge}` : "", port && `; ${port}`].join("");
  }

  /** Calls back after samples; returns what ends that. */
  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** NAKs per second that a node gets from its branches. */
  private naksOf(node: string): number {
    const of = this.naks.get(node);
    return !of || isLate(this.now - of.came) ? Number.NaN : of.rate;
  }

  private note({ node, timeUnixNs, naksIn, high }: GroupSample, now: number): void {
    this.sent.get(node)?.note(high, timeUnixNs);
    const last = this.naks.get(node);
    // A sample that was read again has nothing new.
    if (last?.at === timeUnixNs) return;
    const rate = last ? (rise({ at: last.at / 1e9, total: last.count }, { at: timeUnixNs / 1e9, total: naksIn }) ?? Number.NaN) : Number.NaN;
    this.naks.set(node, { count: naksIn, at: timeUnixNs, rate, came: now });
  }

  private rateOf(address: string): number {
    const at = this.places.get(address) ?? -1;
    return isLate(this.now - (this.came[at] ?? Number.NaN)) ? Number.NaN : (this.all.rate[at] ?? Number.NaN);
  }
}
