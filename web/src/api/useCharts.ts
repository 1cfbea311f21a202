// SPDX-License-Identifier: Apache-2.0
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ChartFeed, charts, type FeedState, type Range } from "./charts";

/** Charts of an object while a page shows them, and their state; `range` is a constant. Without `every` they are read once per step, but at most every two seconds. Up to an instant `at` they are read once. */
export function useCharts(object: string, range: Range, at?: number): [ChartFeed, FeedState] {
  const feed = useMemo(() => new ChartFeed(() => charts(object, range, at), at === undefined ? (range.every ?? Math.max(2, range.step)) * 1000 : null), [object, range, at]);
  useEffect(() => feed.start(), [feed]);
  return [feed, useSyncExternalStore(feed.watch, feed.state)];
}
