// SPDX-License-Identifier: Apache-2.0
// Charts that a page shows. There is no stream of them: they are read again every few seconds while the tab is visible.
import type { ChartData } from "../lib/chart";
import { controllerNow } from "../lib/clock";
import { api, ApiError, data } from "./client";
import { repeat } from "./repeat";
import type { operations } from "./schema";

/** What is read of an object. */
export interface Range {
  /** Seconds per step. */
  step: number;
  /** How far back, by the controller's clock; if absent, it is 5 minutes, whatever this browser knows of that clock. */
  seconds?: number;
  /** Seconds between two reads, if they are not those of a step. */
  every?: number;
  /** Only this series. */
  series?: SeriesName;
}
export type SeriesName = NonNullable<operations["getCharts"]["parameters"]["query"]["series"]>;

/** What the controller keeps of every object. The oldest step of an hour is about to go. */
export const RANGES = { "5m": { step: 1 }, "1h": { seconds: 3590, step: 10 } } as const satisfies Record<string, Range>;
export type RangeName = keyof typeof RANGES;

/** The time that is read, up to an instant in seconds since the Unix epoch; without one, up to now. */
export function timeOf({ seconds, step }: Range, at?: number): { step?: number; from?: number; to?: number } {
  // What was measured in steps of a second is kept for five minutes: then the controller chooses what it has.
  if (at !== undefined) return { from: at - (seconds ?? 300), to: at, ...(step > 1 && { step }) };
  return { step, ...(seconds && { from: Math.max(0, Math.floor(controllerNow() / 1e9) - seconds) }) };
}

/** Charts of an object; `null` if nothing is kept of it. */
export async function charts(object: string, range: Range, at?: number): Promise<ChartData | null> {
  const only = range.series;
  try {
    const found = await data(api.GET("/api/v1/charts", { params: { query: { object, ...timeOf(range, at), ...(only && { series: only }) } } }));
    const series = found.series.map(({ series: name, unit, points }) => ({ name, unit, points: points as [number, number][] }));
    return { start: found.startUnixNs / 1e9, step: found.stepSeconds, series };
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

/** `reading`: nothing is known yet; `nothing`: nothing is kept of the object; `failed`: the last read failed, and what is there is older. */
export interface FeedState {
  phase: "reading" | "there" | "nothing" | "failed";
  /** Series that are there. */
  names: readonly string[];
  error?: unknown;
}

/** Data that is read again and again, past React: its state changes only if what is shown has other parts. */
export class ChartFeed {
  private newest: ChartData | null = null;
  private current: FeedState = { phase: "reading", names: [] };
  private readonly listeners = new Set<(data: ChartData) => void>();
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly read: () => Promise<ChartData | null>,
    /** Milliseconds between two reads; `null`: what is read does not change. */
    private readonly every: number | null,
  ) {}

  readonly subscribe = (listener: (data: ChartData) => void): (() => void) => {
    this.listeners.add(listener);
    if (this.newest) listener(this.newest);
    return () => this.listeners.delete(listener);
  };

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly state = (): FeedState => this.current;

  /** Reads until the returned function is called; a hidden tab reads nothing, and one that is shown again at once. */
  start(): () => void {
    return repeat((isCurrent) => this.once(isCurrent), this.every, () => this.every !== null || this.current.phase !== "there");
  }

  private async once(isCurrent: () => boolean): Promise<void> {
    try {
      const found = await this.read();
      if (!isCurrent()) return;
      this.newest = found;
      this.set(found ? { phase: "there", names: found.series.map((series) => series.name) } : { phase: "nothing", names: [] });
      if (found) for (const listener of this.listeners) listener(found);
    } catch (error) {
      if (isCurrent()) this.set({ phase: "failed", names: this.current.names, error });
    }
  }

  private set(state: FeedState): void {
    const { phase, names } = this.current;
    if (state.phase === phase && state.phase !== "failed" && state.names.join() === names.join()) return;
    this.current = state;
    for (const watcher of this.watchers) watcher();
  }
}
