// SPDX-License-Identifier: Apache-2.0
// What telemetry has of one tree of a group now: the samples of its nodes, for all parts of the page that draw them.
import type { GroupSample, TreeNode } from "../api/types";
import { Race, waitedFor } from "./race";

/** What has not been reported again for longer, nanoseconds, is of the past: nothing moves by it. */
export const OLD = 5e9;

export interface Receiver {
  host: string;
  /** Of its branch. */
  address: string;
  edge: string;
}

export class GroupFlow {
  /** The receivers of the tree, in its order; their places are those of `race`. */
  readonly receivers: readonly Receiver[];
  readonly race: Race;
  /** Addresses of the branches that are waited for, from the headend on. */
  path: readonly string[] = [];
  /** The controller's time of the last samples, nanoseconds. */
  now = Number.NaN;
  private readonly all: Race;
  private readonly places: ReadonlyMap<string, number>;
  /** When the sample of each branch came here, on the controller's clock: that of its node may differ. */
  private readonly came: Float64Array;
  private readonly root: string | undefined;
  private readonly childOf: ReadonlyMap<string, string>;
  private readonly listeners = new Set<() => void>();

  constructor(tree: readonly TreeNode[]) {
    const branches = tree.flatMap(({ node, branches }) => branches.map((branch) => ({ ...branch, edge: node })));
    this.receivers = branches.filter(({ kind }) => kind === "receiver").map(({ name, address, edge }) => ({ host: name, address, edge }));
    this.race = new Race(this.receivers.map(({ address }) => address));
    const addresses = branches.map(({ address }) => address);
    this.all = new Race(addresses);
    this.came = new Float64Array(addresses.length).fill(Number.NaN);
    this.places = new Map(addresses.map((address, at) => [address, at]));
    this.root = tree.find(({ parent }) => !parent)?.node;
    this.childOf = new Map(branches.filter(({ kind }) => kind === "node").map(({ address, name }) => [address, name]));
  }

  /** Takes the samples of all nodes; none if they could not be read. */
  readonly update = (samples: readonly GroupSample[], now: number): void => {
    this.race.update(samples);
    const before = this.all.sampledAt.slice();
    this.all.update(samples);
    this.all.sampledAt.forEach((sampled, at) => {
      if (sampled !== before[at] && !Number.isNaN(sampled)) this.came[at] = now;
    });
    this.path = this.root ? waitedFor(this.root, samples, this.childOf) : [];
    this.now = now;
    for (const listener of this.listeners) listener();
  };

  /** Bits per second of copies to these branches together; `NaN` if none of them has a rate of the last seconds. */
  rate(addresses: readonly string[]): number {
    const known = addresses.map((address) => this.rateOf(address)).filter((rate) => !Number.isNaN(rate));
    return known.length ? known.reduce((sum, rate) => sum + rate, 0) : Number.NaN;
  }

  /** Calls back after samples; returns what ends that. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  private rateOf(address: string): number {
    const at = this.places.get(address) ?? -1;
    return this.now - (this.came[at] ?? Number.NaN) > OLD ? Number.NaN : (this.all.rate[at] ?? Number.NaN);
  }
}
