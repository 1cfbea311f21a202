// SPDX-License-Identifier: Apache-2.0
// What a port marked and notified per second, as bars. Charts of the controller have marks; notifications are counted while the page is open.
import { useEffect, useState } from "react";
import { RANGES, type Range } from "../../api/charts";
import type { Link } from "../../api/types";
import { useCharts } from "../../api/useCharts";
import { clockDifference } from "../../lib/clock";
import { sent } from "../../lib/congestion";
import { CounterChart } from "../../lib/counter";
import { Chart } from "../../ui/Chart";

const MARKS: Range = { ...RANGES["5m"], series: "marks" };
const NOTIFIED = [{ series: "notified", label: "Long-haul CNPs sent" }] as const;
const MARKED = [{ series: "marks", label: "packets marked CE here" }] as const;

interface Props {
  name: string;
  congestion: Link["status"]["congestion"];
}

export function Notified({ name, congestion }: Props) {
  const [marks] = useCharts(`link/${name}`, MARKS);
  const [counted] = useState(() => new CounterChart("notified"));
  useEffect(() => {
    // Not by whole seconds, as ages are shown: a rate is of the time between two reports.
    if (congestion) counted.add({ at: (Date.now() * 1e6 + clockDifference() - congestion.reportedAgoNs) / 1e9, total: sent(congestion) });
  }, [counted, congestion]);
  return (
    <div className="columns">
      <Chart title="Marks" of={name} data={marks} lines={MARKED} bars unit="perSecond" cursor="page" />
      {congestion && sent(congestion) > 0 && <Chart title="Notifications since the page was opened" of={name} data={counted} lines={NOTIFIED} bars unit="perSecond" cursor={`notified ${name}`} />}
    </div>
  );
}
