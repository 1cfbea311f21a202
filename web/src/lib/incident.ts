// SPDX-License-Identifier: Apache-2.0
// Incidents: problems that opened, and what was measured around that time.
import type { Incident, IncidentItem, IncidentProblem, ObjectRef } from "../api/types";
import type { ChartData } from "./chart";
import { counted, span } from "./format";
import { object } from "./problem";

/** Titles of series. */
const TITLES: Readonly<Record<string, string>> = {
  bytes: "Data",
  goodput: "Goodput",
  saved: "Saved against unicast",
  packets: "Data packets",
  retransmissions: "Retransmissions",
  naks: "NAKs",
  cnps: "CNPs",
  outstanding: "Outstanding",
  lag: "Behind the source",
  marks: "CE marks",
  loss: "Loss",
  rtt: "Round-trip time",
  queue: "Queue",
  drops: "Drops",
  groupsReady: "Groups ready",
  problems: "Problems",
};

/** The title of a chart; a series of a later version has its name. */
export const title = (series: string): string => TITLES[series] ?? series;

/** The object of a problem, for links and words. Of a kind of a later version it is shown by its name. */
export const objectOf = (of: IncidentProblem): ObjectRef => ({ kind: of.kind as ObjectRef["kind"], name: of.name });

/** Incidents that the controller keeps, and those of one problem that its page reads. */
export const KEPT = 200;
export const OF_PROBLEM = 20;

/** How many are listed, and whether that is because no more are kept. */
export const keptWords = (listed: number): string => `${counted(listed, "incident")}, the newest first${listed >= KEPT ? "; the controller keeps no more, so that earlier ones are not here" : ""}`;

/** What was wrong, as a sentence without its full stop. */
export const sentenceOf = (incident: IncidentItem): string => `${object(objectOf(incident.of))} ${incident.title}`;

/** How long it lasted; `null` while it is open, or if that is not known. */
export const lasted = (incident: IncidentItem): string | null =>
  incident.closedUnixNs === undefined || incident.closedUnixNs === null ? null : span(Math.max(0, incident.closedUnixNs - incident.openedUnixNs));

/** What has charts: "link n1/eth1", "branch to 2001:db8::1 at n2 of group demo". */
export function chartObject(text: string): string {
  const [kind, ...names] = text.split("/");
  if (kind === "branch") return `branch to ${names[2] ?? ""} at ${names[1] ?? ""} of group ${names[0] ?? ""}`;
  return [kind, names.join("/")].filter(Boolean).join(" ");
}

/** Charts of one object. */
export interface Charted {
  object: string;
  data: ChartData;
}

/** The charts by object, in the order of the answer. */
export function charted({ startUnixNs, stepSeconds, series }: Incident): Charted[] {
  const objects = [...new Set(series.map((one) => one.object))];
  return objects.map((of) => ({
    object: of,
    data: {
      start: startUnixNs / 1e9,
      step: stepSeconds,
      series: series.filter((one) => one.object === of).map(({ series: name, unit, points }) => ({ name, unit, points: points as ([number, number] | null)[] })),
    },
  }));
}
