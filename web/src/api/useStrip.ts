// SPDX-License-Identifier: Apache-2.0
import { useEffect, useMemo } from "react";
import { api, data } from "./client";
import { ChartFeed } from "./charts";

/** Receivers with a strip. */
const LIMIT = 20;
const EVERY = 2000;

/** For which receivers the source of a group waited, by second, while a page shows it: a series for each receiver, by its name. */
export function useStrip(group: string): ChartFeed {
  const feed = useMemo(() => new ChartFeed(() => strip(group), EVERY), [group]);
  useEffect(() => feed.start(), [feed]);
  return feed;
}

async function strip(group: string) {
  const found = await data(api.GET("/api/v1/groups/{group}/waited-for/strip", { params: { path: { group }, query: { limit: LIMIT } } }));
  const series = found.receivers.map(({ host, sharesPpm }) => ({
    name: host,
    unit: "share" as const,
    points: sharesPpm.map((ppm): [number, number] | null => (ppm === null || ppm === undefined ? null : [ppm / 1e6, ppm / 1e6])),
  }));
  return { start: found.startUnixNs / 1e9, step: 1, series };
}
