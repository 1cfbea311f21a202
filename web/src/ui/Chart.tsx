// SPDX-License-Identifier: Apache-2.0
// One chart: a canvas, its figures as a table, and its values over time as another. Live data is written into both; React never sees a sample.
import { useEffect, useRef, useState } from "react";
import { coarser, endOf, figures, quantity, times, UNITS, type ChartData, type Moment, type Threshold } from "../lib/chart";
import { clockTime } from "../lib/format";
import type { Word } from "./glossary";
import type { Plot } from "./plot";
import { useUtc } from "./settings";
import { Term } from "./Term";

/** Data that changes: calls back with what is there, and with all that comes until the returned function is called. */
export interface Feed {
  subscribe: (listener: (data: ChartData) => void) => () => void;
}

export interface Line {
  /** Name of the series. */
  series: string;
  label: string;
  /** What the label means. */
  term?: Word;
}

interface Props {
  title: string;
  /** What the title means. */
  term?: Word | undefined;
  /** Of what, where a page has charts of the same title; part of the name that assistive technology reads. */
  of?: string | undefined;
  data: ChartData | Feed;
  /** The first is drawn with its maxima as a band. All have the same unit. */
  lines: readonly Line[];
  /** The first is drawn as bars: of what is counted per step. */
  bars?: boolean;
  unit: ChartData["series"][number]["unit"];
  thresholds?: readonly Threshold[];
  /** Moments that are marked. */
  instants?: readonly Moment[];
  /** Charts with the same one share their cursor. */
  cursor: string;
}

/** Rows of the table of values. */
const ROWS = 30;
const NO_THRESHOLDS: readonly Threshold[] = [];
const NO_INSTANTS: readonly Moment[] = [];

export function Chart({ title, term, of, data, lines, bars = false, unit, thresholds = NO_THRESHOLDS, instants = NO_INSTANTS, cursor }: Props) {
  const utc = useUtc();
  const host = useRef<HTMLDivElement>(null);
  const table = useRef<HTMLTableElement>(null);
  const newest = useRef<ChartData | null>(null);
  // Drawn anew if what they consist of changes, not if it is another array.
  const names = JSON.stringify(lines.map((line) => line.series));
  const marks = JSON.stringify(thresholds);
  const moments = JSON.stringify(instants);
  useEffect(() => {
    let drawn: Plot | undefined;
    let isEnded = false;
    let step: number | null = null;
    const series = JSON.parse(names) as string[];
    const write = () => {
      if (table.current && newest.current) writeFigures(table.current, newest.current, step, utc);
    };
    const show = (shown: ChartData) => {
      newest.current = shown;
      drawn?.setData(shown);
      write();
    };
    const stop = "subscribe" in data ? data.subscribe(show) : show(data);
    void import("./plot").then(({ plot }) => {
      if (isEnded || !host.current) return;
      const onCursor = (at: number | null) => {
        step = at;
        write();
      };
      drawn = plot(host.current, { lines: series, bars, unit, thresholds: JSON.parse(marks) as Threshold[], instants: JSON.parse(moments) as Moment[], utc, cursor, onCursor });
      if (newest.current) drawn.setData(newest.current);
    });
    return () => {
      isEnded = true;
      stop?.();
      drawn?.end();
    };
  }, [data, names, bars, unit, marks, moments, utc, cursor]);
  const { noun } = UNITS[unit];
  const name = of ? `${title} of ${of}` : title;
  return (
    <figure className="chart" aria-label={name}>
      <figcaption>
        {term ? <Term of={term}>{title}</Term> : title}
        {noun && <span className="faint">, {noun}</span>}
      </figcaption>
      <div className="canvas" ref={host} aria-hidden="true" />
      <table ref={table} className="figures" aria-label={`${name}: figures`}>
        <thead>
          <tr>
            <td />
            <th scope="col" data-cell="at">Newest</th>
            <th scope="col" className="wide">Least</th>
            <th scope="col">Mean</th>
            <th scope="col">Largest</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((line, at) => (
            <tr key={line.series} data-series={line.series}>
              <th scope="row">
                <span className={at === 0 ? "swatch" : "swatch other"} aria-hidden="true" />
                {line.term ? <Term of={line.term}>{line.label}</Term> : line.label}
              </th>
              {["newest", "min", "mean", "max"].map((cell) => <td key={cell} data-cell={cell} className={cell === "min" ? "wide" : undefined}>–</td>)}
            </tr>
          ))}
        </tbody>
      </table>
      <Values title={name} lines={lines} newest={() => newest.current} />
    </figure>
  );
}

/** The figures of each series, and what it is at the cursor. */
function writeFigures(table: HTMLElement, data: ChartData, step: number | null, utc: boolean): void {
  const set = (cell: Element | null, text: string) => {
    if (cell && cell.textContent !== text) cell.textContent = text;
  };
  const time = step === null ? undefined : times(data)[step];
  set(table.querySelector('[data-cell="at"]'), time === undefined ? "Newest" : clockTime(time, utc));
  for (const row of table.querySelectorAll<HTMLElement>("[data-series]")) {
    const series = data.series.find((one) => one.name === row.dataset["series"]);
    const all = series && figures(series.points, data.step);
    const write = (value: number | null | undefined) => (series && value !== null && value !== undefined ? quantity(value, series.unit) : "–");
    const at = step === null || time === undefined ? all?.newest : series?.points[step]?.[0];
    for (const [cell, value] of [["newest", at], ["min", all?.min], ["mean", all?.mean], ["max", all?.max]] as const) {
      set(row.querySelector(`[data-cell="${cell}"]`), write(value));
    }
  }
}

interface ValuesProps {
  title: string;
  lines: readonly Line[];
  newest: () => ChartData | null;
}

/** The values over time as of when it was opened: a table that changes while it is read is of no use. */
function Values({ title, lines, newest }: ValuesProps) {
  const [data, setData] = useState<ChartData | null>(null);
  const utc = useUtc();
  return (
    <details className="values" onToggle={(event) => setData(event.currentTarget.open ? newest() && coarser(newest() as ChartData, ROWS) : null)}>
      <summary>Values<span className="hidden"> of {title}</span></summary>
      {data && (
        <table className="plain" aria-label={`${title}: values, ${data.step} s per row, until ${clockTime(endOf(data), utc)}`}>
          <thead>
            <tr>
              <th scope="col">From</th>
              {lines.map((line) => [
                <th key={line.series} scope="col" className="right">{line.label}, mean</th>,
                <th key={`${line.series} max`} scope="col" className="right">largest</th>,
              ])}
            </tr>
          </thead>
          <tbody>
            {times(data).map((time, at) => (
              <tr key={time}>
                <th scope="row" className="num">{clockTime(time, utc)}</th>
                {lines.map((line) => <Cells key={line.series} data={data} name={line.series} at={at} />)}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

function Cells({ data, name, at }: { data: ChartData; name: string; at: number }) {
  const series = data.series.find((one) => one.name === name);
  const point = series?.points[at];
  const [mean, max] = point && series ? [quantity(point[0], series.unit), quantity(point[1], series.unit)] : ["–", "–"];
  return (
    <>
      <td className="right num">{mean}</td>
      <td className="right num">{max}</td>
    </>
  );
}
