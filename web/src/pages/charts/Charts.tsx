// SPDX-License-Identifier: Apache-2.0
// The charts of an object, and their states: being read, not there, older than the page, and there.
import { RANGES } from "../../api/charts";
import { useCharts } from "../../api/useCharts";
import type { ChartUnit } from "../../api/types";
import type { Threshold } from "../../lib/chart";
import { Chart, type Line } from "../../ui/Chart";
import type { Word } from "../../ui/glossary";
import { ErrorNote } from "../../ui/Page";
import type { ChartTime } from "./OverTime";

export interface Plan {
  title: string;
  /** What the title means. */
  term?: Word;
  unit: ChartUnit;
  lines: readonly Line[];
  thresholds?: readonly Threshold[];
}

interface Props {
  object: string;
  time: ChartTime;
  plans: readonly Plan[];
  /** Of what, where a page has charts of several objects. */
  of?: string;
  className?: string;
}

export function Charts({ object, time, plans, of, className = "charts" }: Props) {
  const [feed, { phase, names, error }] = useCharts(object, RANGES[time.range ?? "5m"], time.at);
  const shown = plans.filter(({ lines }) => lines.some(({ series }) => names.includes(series)));
  return (
    <>
      {phase === "failed" && <ErrorNote error={error} />}
      {phase === "reading" && <p className="faint" role="status">Reading…</p>}
      {phase === "nothing" && <p className="faint">Nothing was measured of it yet, or it was idle and made room for others{time.at === undefined ? "" : "; charts are kept for an hour, those of incidents longer"}.</p>}
      <div className={phase === "failed" ? `${className} stale-block` : className}>
        {shown.map((plan) => (
          <Chart key={plan.title} of={of} data={feed} instants={time.instants} cursor="page" {...plan} />
        ))}
      </div>
    </>
  );
}
