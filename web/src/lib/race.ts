// SPDX-License-Identifier: Apache-2.0
// Where each receiver of a group is, from two samples of its edge. Both ends of a lane are of one sample of one node: positions of nodes
// that were sampled at different moments differ by millions of packets.
import type { GroupSample } from "../api/types";
import { count } from "./format";

/** What telemetry has of the receivers, by index; `NaN` = not known. */
export class Race {
  readonly behind: Float64Array;
  readonly next: Float64Array;
  /** Bits per second of copies to the receiver, from two samples. */
  readonly rate: Float64Array;
  /** When the edge sampled, nanoseconds. */
  readonly sampledAt: Float64Array;
  private readonly index: ReadonlyMap<string, number>;
  private readonly bytes: Float64Array;

  /** `addresses` are those of the receivers' branches. */
  constructor(addresses: readonly string[]) {
    const empty = () => new Float64Array(addresses.length).fill(Number.NaN);
    [this.behind, this.next, this.rate, this.sampledAt, this.bytes] = [empty(), empty(), empty(), empty(), empty()];
    this.index = new Map(addresses.map((address, at) => [address, at]));
  }

  /** Takes the samples of all nodes. */
  update(samples: readonly GroupSample[]): void {
    for (const sample of samples) {
      for (const branch of sample.branches) {
        const at = this.index.get(branch.address);
        if (at === undefined) continue;
        const since = (sample.timeUnixNs - (this.sampledAt[at] ?? Number.NaN)) / 1e9;
        if (since > 0) this.rate[at] = ((branch.bytes - (this.bytes[at] ?? 0)) * 8) / since;
        if (since === 0) continue;
        this.sampledAt[at] = sample.timeUnixNs;
        this.bytes[at] = branch.bytes;
        this.next[at] = branch.next ?? Number.NaN;
        this.behind[at] = branch.next === null || branch.next === undefined ? Number.NaN : Math.max(0, sample.high - branch.next);
      }
    }
  }

  /** The share of the outstanding packets that a receiver acknowledged: 1 if none is outstanding. */
  share(at: number, outstanding: number): number {
    const behind = this.behind[at] ?? Number.NaN;
    if (Number.isNaN(behind)) return 0;
    return outstanding > 0 ? Math.min(1, Math.max(0, 1 - behind / outstanding)) : 1;
  }

  /** The largest distance of a receiver, packets; 0 if there is none. */
  furthest(): number {
    return this.behind.reduce((most, behind) => (behind > most ? behind : most), 0);
  }
}

/** The path of the minimum: branches from the headend to the one that its parent waits for. Empty if nothing is outstanding. */
export function waitedFor(root: string, samples: readonly GroupSample[], childOf: ReadonlyMap<string, string>): string[] {
  const byNode = new Map(samples.map((sample) => [sample.node, sample]));
  const path: string[] = [];
  let sample = byNode.get(root);
  while (sample && path.length <= samples.length) {
    let least: GroupSample["branches"][number] | undefined;
    for (const branch of sample.branches) {
      if (typeof branch.next === "number" && (!least || branch.next < (least.next ?? Infinity))) least = branch;
    }
    if (!least || (least.next ?? Infinity) >= sample.high) break;
    path.push(least.address);
    const child = childOf.get(least.address);
    sample = child ? byNode.get(child) : undefined;
  }
  return path;
}

/**
 * Who is behind, as a sentence. `receivers` are in the order of the race; `waited` is the address of the one that the headend waits for; `also`
 * has what else is known of the one that is furthest behind.
 */
export function verdict(race: Race, receivers: readonly { host: string; address: string }[], waited: string | undefined, also: (at: number) => string = () => ""): string {
  const known = race.behind.filter((behind) => !Number.isNaN(behind)).length;
  if (known === 0) return "No edge has reported positions of receivers yet.";
  const most = race.furthest();
  if (most === 0) return known === receivers.length ? "Every receiver acknowledged everything that its edge has forwarded." : `${count(known)} of ${count(receivers.length)} receivers are active; they acknowledged everything.`;
  // Of several that are equally far behind, the one that is waited for.
  const held = receivers.findIndex(({ address }) => address === waited);
  const at = race.behind[held] === most ? held : race.behind.indexOf(most);
  const behind = `${receivers[at]?.host ?? "a receiver"} is furthest behind: ${count(most)} packets that its edge forwarded are not acknowledged${also(at)}`;
  if (waited === undefined) return `${behind}.`;
  if (at === held) return `${behind}; the accent line is the path that the headend waits for.`;
  return `${behind}. The headend waits for ${receivers[held]?.host ?? "another branch"}: the accent line is the path.`;
}
