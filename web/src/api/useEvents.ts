// SPDX-License-Identifier: Apache-2.0
import { useInfiniteQuery, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { joined } from "../lib/event";
import { EVENTS_KEPT } from "./changes";
import * as queries from "./queries";
import type { Event } from "./types";

/** So many events are held while older ones are shown; a page that has been open for longer begins with the newest again. */
const HELD = 20_000;

export interface Events {
  query: UseQueryResult<Event[]>;
  /** What was read so far, the newest last. */
  all: readonly Event[];
  /** There may be older ones. */
  hasMore: boolean;
  /** Those before are being read. */
  isReading: boolean;
  error: unknown;
  /** Reads those before what was read, page by page. Of a node, group or code, pages have those of it only. */
  more: () => void;
}

/** The events that the page follows, and older ones once they are wanted. */
export function useEvents(of: queries.OlderEvents): Events {
  const query = useQuery(queries.events);
  // From when older ones are wanted on, the list that is followed forgets none: they are before its first one.
  const [held, setHeld] = useState<readonly Event[] | null>(null);
  if (held && query.data) {
    const next = joined(held, query.data);
    if (next !== held) setHeld(next.length > HELD ? null : next);
  }
  const list = held ?? query.data;
  const before = held?.[0]?.sequence;
  const older = useInfiniteQuery(queries.eventsBefore(before, of));
  const { hasNextPage, isFetching, fetchNextPage, data, error } = older;
  // Without a page yet, a full list is one that was cut.
  const hasMore = before === undefined ? (query.data?.length ?? 0) >= EVENTS_KEPT : hasNextPage || (isFetching && !data);
  const more = useCallback(() => {
    if (before === undefined) setHeld((now) => now ?? (query.data?.length ? query.data : null));
    else if (hasNextPage && !isFetching) void fetchNextPage();
  }, [before, query.data, hasNextPage, isFetching, fetchNextPage]);
  const all = useMemo(() => [...(data?.pages.toReversed().flat() ?? []), ...(list ?? [])], [data, list]);
  return { query, all, hasMore, isReading: isFetching, error, more };
}
