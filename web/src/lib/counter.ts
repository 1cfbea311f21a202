// SPDX-License-Identifier: Apache-2.0
// Counters that are read again and again, as rates per second.
import type { ChartData } from "./chart";

export interface Reading {
  /** Seconds. */
  at: number;
  total: number;
}

/** How much a counter has risen per second; `null` if it fell, because what counts has begun anew, or both readings are of the same time. */
export function rise(before: Reading, now: Reading): number | null {
  return now.at > before.at && now.total >= before.total ? (now.total - before.total) / (now.at - before.at) : null;
}

/** Seconds per step of the chart, and steps. */
const STEP = 5;
const STEPS = 60;
/** Readings further apart have a gap between them; nearer ones are the same report, read twice. */
const FAR = 10;
const SAME = 0.3;

interface Part {
  sum: number;
  readings: number;
  most: number;
}

/** The last 5 minutes of a counter, as far as it was read: charts of the controller do not have it. */
export class CounterChart {
  private last: Reading | undefined;
  private newest: ChartData | undefined;
  private readonly parts = new Map<number, Part>();
  private readonly listeners = new Set<(data: ChartData) => void>();

  constructor(private readonly name: string) {}

  readonly subscribe = (listener: (data: ChartData) => void): (() => void) => {
    this.listeners.add(listener);
    if (this.newest) listener(this.newest);
    return () => this.listeners.delete(listener);
  };

  add(reading: Reading): void {
    const before = this.last;
    if (before && reading.at - before.at < SAME) return;
    this.last = reading;
    const rate = before && reading.at - before.at <= FAR ? rise(before, reading) : null;
    const step = Math.floor(reading.at / STEP);
    if (rate !== null) {
      const { sum, readings, most } = this.parts.get(step) ?? { sum: 0, readings: 0, most: 0 };
      this.parts.set(step, { sum: sum + rate, readings: readings + 1, most: Math.max(most, rate) });
    }
    const first = step - STEPS + 1;
    for (const old of this.parts.keys()) if (old < first) this.parts.delete(old);
    const points = Array.from({ length: STEPS }, (_, at) => {
      const part = this.parts.get(first + at);
      return part ? ([part.sum / part.readings, part.most] as const) : null;
    });
    this.newest = { start: first * STEP, step: STEP, series: [{ name: this.name, unit: "perSecond", points }] };
    for (const listener of this.listeners) listener(this.newest);
  }
}
