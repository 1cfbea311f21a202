// SPDX-License-Identifier: Apache-2.0
import { useInfiniteQuery, type InfiniteData, type QueryKey, type UseInfiniteQueryOptions, type UseInfiniteQueryResult } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";

interface Page {
  items: unknown[];
  metadata: { continue?: string | null };
}

export interface Pages<P extends Page> {
  query: UseInfiniteQueryResult<InfiniteData<P>>;
  /** What was read so far. */
  items: P["items"][number][];
  /** There is more. */
  hasMore: boolean;
  /** Reads the next page, if there is one. */
  more: () => void;
}

/** A list that the controller sends page by page. Up to `whole` of `total` are read at once, so that filters and sorting are of all; more as the page wants them. */
export function usePages<P extends Page, K extends QueryKey>(
  of: UseInfiniteQueryOptions<P, Error, InfiniteData<P>, K, string | undefined>,
  total: number | undefined,
  whole: number,
): Pages<P> {
  const query = useInfiniteQuery(of);
  const items = useMemo(() => query.data?.pages.flatMap((page): P["items"] => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetching, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  useEffect(() => {
    if (total !== undefined && total <= whole) more();
  }, [total, whole, more]);
  return { query, items, hasMore: hasNextPage, more };
}
