// SPDX-License-Identifier: Apache-2.0
// The fleet over the last minutes as small lines, and what multicast has saved over the day.
import { useEffect, useRef } from "react";
import { RANGES, type Range } from "../../api/charts";
import { useCharts } from "../../api/useCharts";
import { figures, quantity, total, type ChartData } from "../../lib/chart";
import { controllerNow } from "../../lib/clock";
import { age, bytes } from "../../lib/format";
import { Sparkline } from "../../ui/Sparkline";

/** What the controller keeps of the fleet. */
const DAY: Range = { step: 60, seconds: 86_340, every: 10, series: "saved" };

const newest = (name: string) => (data: ChartData): string => {
  const series = data.series.find((one) => one.name === name);
  const value = series && figures(series.points, data.step)?.newest;
  return series && value !== null && value !== undefined ? quantity(value, series.unit) : "–";
};

const LINES = [
  { series: "groupsReady", name: "Groups ready", write: newest("groupsReady") },
  { series: "problems", name: "Root problems", write: newest("problems") },
  { series: "bytes", name: "Data from sources", write: newest("bytes") },
  { series: "saved", name: "Saved, compared with unicast", write: newest("saved") },
] as const;

export function Fleet() {
  const [feed, { phase }] = useCharts("fleet", RANGES["5m"]);
  if (phase === "reading" || phase === "nothing") return null;
  return (
    <section aria-label="Last 5 minutes">
      <h2>Last 5 minutes</h2>
      <dl className={phase === "failed" ? "totals stale-block" : "totals"}>
        {LINES.map(({ series, name, write }) => (
          <div key={series}>
            <dt>{name}</dt>
            <dd><Sparkline data={feed} series={series} write={write} /></dd>
          </div>
        ))}
        <Saved />
      </dl>
    </section>
  );
}

/** Octets that unicast would have sent over links more than the trees did. */
function Saved() {
  const [feed] = useCharts("fleet", DAY);
  const number = useRef<HTMLElement>(null);
  const since = useRef<HTMLElement>(null);
  useEffect(
    () =>
      feed.subscribe((data) => {
        const { sum, seconds } = total(data, "saved", controllerNow() / 1e9);
        if (number.current) number.current.textContent = seconds ? bytes(sum) : "–";
        if (since.current) since.current.textContent = seconds === 0 ? "Bytes saved" : seconds > 86_000 ? "Bytes saved in 24 h" : `Bytes saved in ${age(seconds * 1e9)}`;
      }),
    [feed],
  );
  return (
    <div>
      <dt ref={since}>Bytes saved</dt>
      <dd ref={number} className="num">–</dd>
    </div>
  );
}
