// SPDX-License-Identifier: Apache-2.0
// How long the oldest packet that is not acknowledged has been under way: from what a node had sent, sample by sample. A node has a sample a
// second, so that is to a second.
import { age } from "./format";

/** Samples of a node that are kept. */
const KEPT = 120;

export interface Waiting {
  /** It was sent at least so long before the last sample, nanoseconds; at most a sample earlier. */
  ns: number;
  /** It was sent before the first sample that is known: it may be far older. */
  isOlder: boolean;
}

/** What one node had sent, and when. */
export class SentTimes {
  private readonly samples: { high: number; at: number }[] = [];

  /** `high`: the highest PSN that was sent + 1; `at`: the node's time of the sample, nanoseconds. */
  note(high: number, at: number): void {
    const last = this.samples.at(-1);
    if (last && at <= last.at) return;
    // Another session of the source begins anew.
    if (last && high < last.high) this.samples.length = 0;
    this.samples.push({ high, at });
    if (this.samples.length > KEPT) this.samples.shift();
  }

  /** For how long packet `next` is under way; `null` if it was not sent. */
  since(next: number): Waiting | null {
    const last = this.samples.at(-1);
    const first = this.samples.findIndex(({ high }) => high > next);
    const sent = this.samples[first];
    return last && sent ? { ns: last.at - sent.at, isOlder: first === 0 } : null;
  }
}

/** The same in words; "none": nothing is outstanding. A first sample has nothing before it to compare with. */
export function inWords(waiting: Waiting | null): string {
  if (!waiting) return "none";
  if (waiting.isOlder) return waiting.ns > 0 ? `> ${age(waiting.ns)}` : "–";
  return waiting.ns < 1e9 ? "< 1 s" : age(waiting.ns);
}
