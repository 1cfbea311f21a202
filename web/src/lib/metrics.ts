// SPDX-License-Identifier: Apache-2.0
// What the controller exports about itself, from the text of its metrics (Prometheus text format 0.0.4).
import { span } from "./format";

/** Buckets of a histogram: upper bound in seconds, and how many values are at most that. */
export type Buckets = readonly (readonly [bound: number, values: number])[];

export interface Own {
  /** Values of families without labels. */
  values: ReadonlyMap<string, number>;
  /** Time from a change until all nodes have it. */
  times: Buckets;
}

const TIMES = "canopy_intent_to_kernel_seconds_bucket";

/** Series without labels, and the histogram of changes; those of nodes, links and problems are not read. */
export function own(text: string): Own {
  const values = new Map<string, number>();
  const times: [number, number][] = [];
  for (const line of text.split("\n")) {
    const labels = line.indexOf("{");
    const [name = "", value] = labels < 0 ? line.split(" ") : [line.slice(0, labels), line.slice(line.lastIndexOf(" ") + 1)];
    if (name === "" || name === "#" || value === undefined) continue;
    if (labels < 0) values.set(name, Number(value));
    const bound = name === TIMES && /\{le="([^"]+)"\}/.exec(line)?.[1];
    if (bound) times.push([bound === "+Inf" ? Infinity : Number(bound), Number(value)]);
  }
  return { values, times };
}

/** [`within`] in words: "half within 10 ms", "half in more than a minute". */
export function inWords(share: string, seconds: number | null): string {
  return seconds === null ? `${share} –` : seconds === Infinity ? `${share} in more than a minute` : `${share} within ${span(seconds * 1e9)}`;
}

/** The smallest bound that a share of the values does not exceed, seconds; `null` without a value. */
export function within(buckets: Buckets, share: number): number | null {
  const all = buckets.at(-1)?.[1] ?? 0;
  if (all === 0) return null;
  return buckets.find(([, values]) => values >= all * share)?.[0] ?? Infinity;
}
