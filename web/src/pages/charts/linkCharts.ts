// SPDX-License-Identifier: Apache-2.0
// What is charted of a link direction.
import type { Link } from "../../api/types";
import type { Threshold } from "../../lib/chart";
import { bytes } from "../../lib/format";
import type { Plan } from "./Charts";

type Thresholds = Link["status"]["thresholds"];

/** K_min and K_max as lines of a queue's chart. */
export function queueThresholds(thresholds: Thresholds): Threshold[] {
  if (!thresholds) return [];
  return [
    { at: thresholds.kMinBytes, label: `K_min ${bytes(thresholds.kMinBytes)}`, state: "degraded" },
    { at: thresholds.kMaxBytes, label: `K_max ${bytes(thresholds.kMaxBytes)}`, state: "failed" },
  ];
}

export const queueChart = (thresholds: Thresholds): Plan => ({ title: "Queue", term: "QD", unit: "bytes", lines: [{ series: "queue", label: "depth" }], thresholds: queueThresholds(thresholds) });

export const linkCharts = (thresholds: Thresholds): Plan[] => [
  { title: "Data", unit: "bytesPerSecond", lines: [{ series: "bytes", label: "sent" }] },
  queueChart(thresholds),
  { title: "Loss", unit: "share", lines: [{ series: "loss", label: "Echo Requests without a reply" }] },
  { title: "RTT", term: "STAMP", unit: "seconds", lines: [{ series: "rtt", label: "measured" }] },
  { title: "Marks", term: "CE", unit: "perSecond", lines: [{ series: "marks", label: "packets marked CE here" }] },
  { title: "Drops", unit: "perSecond", lines: [{ series: "drops", label: "packets the queue dropped" }] },
];
