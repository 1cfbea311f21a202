// SPDX-License-Identifier: Apache-2.0
// What charts show, as plain data: steps and gaps, the units of axes, the figures of a series.
import type { ChartUnit } from "../api/types";
import { bytes, digits, perSecond, rate, short, span } from "./format";

/** Mean and maximum of one step; `null` is a gap: nothing was measured. */
export type Point = readonly [mean: number, max: number] | null;

export interface Series {
  name: string;
  unit: ChartUnit;
  /** One per step. */
  points: readonly Point[];
}

/** Series over the same time. */
export interface ChartData {
  /** Start of the first step, seconds since the Unix epoch. */
  start: number;
  /** Seconds per step. */
  step: number;
  series: readonly Series[];
}

/** A line across a chart, in the unit of its series; from there up to the next one the ground has the colour of the state. */
export interface Threshold {
  at: number;
  label: string;
  state: "degraded" | "failed";
}

/** A moment that is marked across a chart, seconds since the Unix epoch. */
export interface Moment {
  at: number;
  label: string;
  /** Its colour; without it, that of a failure. */
  state?: "pending";
}

interface Unit {
  /** What a value is multiplied by, so that its ticks are round numbers of the unit that is written. */
  factor: number;
  /** A value times `factor`, with its unit. */
  write: (value: number) => string;
  /** The top of an axis whose values are all zero. */
  least: number;
  /** What is counted, for the title. */
  noun?: string;
}

export const UNITS: Readonly<Record<ChartUnit, Unit>> = {
  bytesPerSecond: { factor: 8, write: rate, least: 1000 },
  perSecond: { factor: 1, write: perSecond, least: 1 },
  packets: { factor: 1, write: short, least: 10, noun: "packets" },
  bytes: { factor: 1, write: bytes, least: 1000 },
  seconds: { factor: 1e9, write: span, least: 1000 },
  share: { factor: 100, write: (value) => `${digits(value)} %`, least: 1 },
  count: { factor: 1, write: short, least: 2 },
};

/** A value of a series with its unit, but for the noun. */
export const quantity = (value: number, unit: ChartUnit): string => UNITS[unit].write(value * UNITS[unit].factor);

/** Start of each step, seconds since the Unix epoch. */
export function times({ start, step, series }: ChartData): number[] {
  const steps = series.reduce((most, { points }) => Math.max(most, points.length), 0);
  return Array.from({ length: steps }, (_, at) => start + at * step);
}

/** The end of the last step, seconds since the Unix epoch. */
export const endOf = (data: ChartData): number => data.start + times(data).length * data.step;

/** Means and maxima of a series, as an axis of its unit has them. */
export function columns({ points, unit }: Series): [means: (number | null)[], maxima: (number | null)[]] {
  const { factor } = UNITS[unit];
  return [points.map((point) => point && point[0] * factor), points.map((point) => point && point[1] * factor)];
}

/** Points with a gap on both sides: a line does not show them. */
export function isolated(values: readonly (number | null | undefined)[]): number[] {
  const isGap = (at: number) => values[at] === null || values[at] === undefined;
  return values.flatMap((_, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? [at] : []));
}

/** The means as an SVG path: the oldest at the left, zero at the bottom, the largest at the top; one piece between gaps. */
export function spark(points: readonly Point[], width: number, height: number): string {
  const most = points.reduce((max, point) => Math.max(max, point?.[0] ?? 0), 0) || 1;
  const across = width / Math.max(1, points.length - 1);
  const pieces = points.map((point, at) => {
    if (!point) return "";
    const [x, y] = [at * across, 1 + (height - 2) * (1 - point[0] / most)].map((value) => value.toFixed(1));
    // A piece of one step is a dot, as wide as the line's round end.
    return points[at - 1] ? `L${x} ${y}` : `M${x} ${y}L${x} ${y}`;
  });
  return pieces.join("");
}

export interface Figures {
  /** The newest mean, if it is not older than `FRESH`. */
  newest: number | null;
  min: number;
  mean: number;
  max: number;
}

/** Seconds after which the newest value is no longer that of now: samples that are further apart are a gap, too. */
const FRESH = 5;

/** The figures of a series; `null` if all of it is a gap. */
export function figures(points: readonly Point[], step: number): Figures | null {
  const known = points.filter((point) => point !== null);
  if (known.length === 0) return null;
  const means = known.map(([mean]) => mean);
  const recent = points.slice(-Math.ceil(FRESH / step) - 1).findLast((point) => point !== null);
  return {
    newest: recent ? recent[0] : null,
    min: means.reduce((a, b) => Math.min(a, b)),
    mean: means.reduce((a, b) => a + b) / means.length,
    max: known.reduce((most, [, max]) => Math.max(most, max), -Infinity),
  };
}

/** The same with at most `most` steps, each as long as several. A step is a gap if all of it is. */
export function coarser(data: ChartData, most: number): ChartData {
  const times = Math.ceil(data.series.reduce((length, { points }) => Math.max(length, points.length), 0) / most) || 1;
  const merge = (points: readonly Point[]): Point[] =>
    Array.from({ length: Math.ceil(points.length / times) }, (_, at) => {
      const all = figures(points.slice(at * times, (at + 1) * times), data.step);
      return all && [all.mean, all.max];
    });
  return { start: data.start, step: data.step * times, series: data.series.map((series) => ({ ...series, points: merge(series.points) })) };
}

/** What a rate amounts to over the measured steps, and how many seconds these are. The newest step lasts until `now`, seconds since the epoch. */
export function total({ start, step, series }: ChartData, name: string, now: number): { sum: number; seconds: number } {
  const all = { sum: 0, seconds: 0 };
  series.find((one) => one.name === name)?.points.forEach((point, at) => {
    const seconds = Math.max(0, Math.min(step, now - start - at * step));
    if (!point) return;
    all.sum += point[0] * seconds;
    all.seconds += seconds;
  });
  return all;
}

/** Of the measured steps, how many had a maximum above a value. */
export function above(points: readonly Point[], value: number): { steps: number; of: number } {
  const known = points.filter((point) => point !== null);
  return { steps: known.filter(([, max]) => max > value).length, of: known.length };
}
