// SPDX-License-Identifier: Apache-2.0
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { ChartFeed, charts, type FeedState, type Range } from "./charts";

/** Charts of an object while a page shows them, and their state; `range` is a constant. Without `every` they are read once per step, but at most every two seconds. */
export function useCharts(object: string, range: Range): [ChartFeed, FeedState] {
  const feed = useMemo(() => new ChartFeed(() => charts(object, range), (range.every ?? Math.max(2, range.step)) * 1000), [object, range]);
  useEffect(() => feed.start(), [feed]);
  return [feed, useSyncExternalStore(feed.watch, feed.state)];
}
