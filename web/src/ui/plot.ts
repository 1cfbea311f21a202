// SPDX-License-Identifier: Apache-2.0
// A chart's canvas, drawn by uPlot. Loaded when the first chart is shown.
import uPlot, { type Options } from "uplot";
import "uplot/dist/uPlot.min.css";
import type { ChartUnit } from "../api/types";
import { columns, endOf, isolated, times, UNITS, type ChartData, type Moment, type Threshold } from "../lib/chart";
import { clockTime } from "../lib/format";
import { colours, onTheme } from "./tokens";

export interface PlotOptions {
  /** Names of the series, all of one unit. The first is the accent, with its maxima as a band; others are dashed lines. */
  lines: readonly string[];
  /** The first series as bars instead of a line. */
  bars: boolean;
  unit: ChartUnit;
  thresholds: readonly Threshold[];
  instants: readonly Moment[];
  utc: boolean;
  /** Charts with the same one have the same cursor. */
  cursor: string;
  /** The step under the cursor. */
  onCursor: (step: number | null) => void;
}

export interface Plot {
  setData: (data: ChartData) => void;
  end: () => void;
}

const HEIGHT = 132;
const AXIS = 76;
/** Pixels between ticks, at least; on a phone the minutes of five are close to each other. */
const SPACE = { x: 56, narrow: 44, y: 26 };
const NARROW = 330;
/** Part of an axis above the largest value. */
const HEADROOM = 1.08;
const WHOLE = new Set<ChartUnit>(["packets", "count"]);

/** Draws into an element, as wide as it is. */
export function plot(host: HTMLElement, { lines, bars, unit, thresholds, instants, utc, cursor, onCursor }: PlotOptions): Plot {
  const { factor, write, least } = UNITS[unit];
  let colour = colours();
  let range: [number, number] = [0, 1];
  const marks = thresholds.map((threshold) => ({ ...threshold, at: threshold.at * factor }));
  const highest = marks.reduce((most, { at }) => Math.max(most, at), 0);

  const series = lines.flatMap((_, at) => lineAndMaximum(at === 0, bars, (token) => colour(token)));
  const options: Options = {
    width: Math.max(1, host.clientWidth),
    height: HEIGHT,
    tzDate: (seconds) => (utc ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000)),
    legend: { show: false },
    padding: [6, 8, 0, 0],
    cursor: {
      y: false,
      drag: { x: false, y: false },
      sync: { key: cursor, setSeries: false },
      // A gap has no point that the cursor could jump to.
      points: { size: 6 },
    },
    scales: {
      x: { range: () => range },
      y: { range: (_, __, max) => [0, Math.max(max || 0, highest, least) * (max > 0 || highest > 0 ? HEADROOM : 1)] },
    },
    axes: [
      { ...axis((token) => colour(token)), space: (_, __, ___, ____, width) => (width < NARROW ? SPACE.narrow : SPACE.x), size: 26, values: (_, ticks) => timeLabels(ticks, utc) },
      { ...axis((token) => colour(token)), space: SPACE.y, size: AXIS, values: (_, ticks) => ticks.map(write), ...(WHOLE.has(unit) && { incrs: whole() }) },
    ],
    series: [{}, ...series],
    bands: bars ? [] : [{ series: [2, 1], fill: () => faded(colour("--accent"), 0.28) }],
    hooks: {
      drawClear: [(u) => ground(u, marks, colour)],
      draw: [(u) => labels(u, marks, colour), (u) => moments(u, instants, colour)],
      setCursor: [(u) => onCursor(u.cursor.idx ?? null)],
    },
  };
  const empty: uPlot.AlignedData = [[], ...series.map(() => [])];
  const drawn = new uPlot(options, empty, host);
  const sizes = new ResizeObserver(() => drawn.setSize({ width: Math.max(1, host.clientWidth), height: HEIGHT }));
  sizes.observe(host);
  const endTheme = onTheme(() => {
    colour = colours();
    drawn.redraw(false);
  });

  return {
    setData: (data) => {
      const xs = times(data);
      range = [data.start, endOf(data)];
      const none = xs.map(() => null);
      const values = lines.flatMap((name) => {
        const found = data.series.find((one) => one.name === name);
        return found ? columns(found) : [none, none];
      });
      drawn.setData([xs, ...values]);
    },
    end: () => {
      sizes.disconnect();
      endTheme();
      drawn.destroy();
    },
  };
}

/** The mean as a line, and the maximum: with a thin edge for the first one, whose band it is, else not drawn. */
function lineAndMaximum(isFirst: boolean, bars: boolean, colour: (token: string) => string): uPlot.Series[] {
  const stroke = () => colour(isFirst ? "--accent" : "--faint");
  const alone = { show: false, size: 3, fill: stroke, filter: (u: uPlot, at: number) => isolated(u.data[at] as (number | null)[]) };
  const paths = bars && isFirst ? uPlot.paths.bars?.({ size: [0.8, 12] }) : undefined;
  // Of bars the mean alone is drawn; the maximum is in the figures.
  if (paths) return [{ stroke, width: 0, fill: stroke, points: { show: false }, paths }, { stroke, width: 0, points: { show: false } }];
  return [
    { stroke, width: 1.5, points: alone, ...(!isFirst && { dash: [5, 4] }) },
    { stroke: () => faded(colour("--accent"), isFirst ? 0.45 : 0), width: isFirst ? 0.75 : 0, points: { ...alone, show: false, filter: () => null } },
  ];
}

function axis(colour: (token: string) => string): uPlot.Axis {
  const line = { stroke: () => colour("--line"), width: 1 };
  return { stroke: () => colour("--faint"), font: "11px system-ui, sans-serif", grid: line, ticks: { ...line, size: 4 }, gap: 4 };
}

/** Times of day; without seconds if all are whole minutes. */
function timeLabels(ticks: readonly number[], utc: boolean): string[] {
  const isWhole = ticks.every((tick) => tick % 60 === 0);
  return ticks.map((tick) => (isWhole ? clockTime(tick, utc).slice(0, 5) : clockTime(tick, utc)));
}

/** Steps of an axis of things that have no halves. */
const whole = () => Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();

type Colour = (token: string) => string;
type Marks = readonly Threshold[];

/** The ground above each threshold, up to the next one. */
function ground({ ctx, bbox, valToPos }: uPlot, marks: Marks, colour: Colour): void {
  ctx.save();
  marks.forEach(({ at, state }, index) => {
    const above = marks[index + 1]?.at;
    const from = Math.max(bbox.top, valToPos(at, "y", true));
    const to = above === undefined ? bbox.top : Math.max(bbox.top, valToPos(above, "y", true));
    ctx.fillStyle = colour(`--${state}-ground`);
    ctx.fillRect(bbox.left, to, bbox.width, from - to);
  });
  ctx.restore();
}

/** The thresholds' lines and names, over the data. */
function labels({ ctx, bbox, valToPos }: uPlot, marks: Marks, colour: Colour): void {
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  for (const { at, label, state } of marks) {
    const y = Math.round(valToPos(at, "y", true)) + 0.5;
    ctx.lineWidth = ratio;
    ctx.strokeStyle = colour(`--${state}`);
    ctx.setLineDash(state === "failed" ? [] : [4 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    // Its name stays readable over the data, and its underscore above the line.
    ctx.setLineDash([]);
    ctx.lineWidth = 3 * ratio;
    ctx.strokeStyle = colour(`--${state}-ground`);
    ctx.strokeText(label, bbox.left + 4 * ratio, y - 8 * ratio);
    ctx.fillStyle = colour(`--${state}`);
    ctx.fillText(label, bbox.left + 4 * ratio, y - 8 * ratio);
  }
  ctx.restore();
}

/** Moments, as lines from top to bottom with their names. */
function moments({ ctx, bbox, scales, valToPos }: uPlot, instants: readonly Moment[], colour: Colour): void {
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.font = `${11 * ratio}px system-ui, sans-serif`;
  // Where the last name ends: one that would be written over it is left out, its line is there.
  let free = bbox.left;
  for (const { at, label, state = "failed" } of instants) {
    if (at < (scales["x"]?.min ?? Infinity) || at > (scales["x"]?.max ?? -Infinity)) continue;
    const x = Math.round(valToPos(at, "x", true)) + 0.5;
    ctx.lineWidth = ratio;
    ctx.strokeStyle = colour(`--${state}`);
    ctx.setLineDash(state === "failed" ? [] : [2 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    // At the end of the chart its name is on the other side.
    const width = ctx.measureText(label).width;
    const isLast = x + 4 * ratio + width > bbox.left + bbox.width;
    const from = isLast ? x - 4 * ratio - width : x + 4 * ratio;
    if (from < free) continue;
    free = from + width + 8 * ratio;
    ctx.textAlign = "left";
    // Readable over the data.
    ctx.setLineDash([]);
    ctx.lineWidth = 3 * ratio;
    ctx.strokeStyle = colour("--ground");
    ctx.strokeText(label, from, bbox.top + 11 * ratio);
    ctx.fillStyle = colour(`--${state}`);
    ctx.fillText(label, from, bbox.top + 11 * ratio);
  }
  ctx.restore();
}

/** A colour `#rrggbb` with an opacity. */
function faded(colour: string, opacity: number): string {
  return `${colour}${Math.round(opacity * 255).toString(16).padStart(2, "0")}`;
}
