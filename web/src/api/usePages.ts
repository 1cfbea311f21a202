// SPDX-License-Identifier: Apache-2.0
import { useInfiniteQuery, type UseInfiniteQueryResult, type InfiniteData } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo } from "react";
import type { links, nodes, hosts } from "./queries";

type PagesOf<T> = InfiniteData<{ items: T[]; metadata: { continue?: string | null } }, string | undefined>;

export interface Pages<T> {
  query: UseInfiniteQueryResult<PagesOf<T>>;
  /** What was read so far. */
  items: T[];
  /** There is more. */
  hasMore: boolean;
  /** Reads the next page, if there is one. */
  more: () => void;
}

/** A list that the controller sends page by page. Up to `whole` of `total` are read at once, so that filters and sorting are of all; more as the page wants them. */
export function usePages<T>(of: typeof nodes | typeof links | typeof hosts, total: number | undefined, whole: number): Pages<T> {
  const query = useInfiniteQuery(of as unknown as Parameters<typeof useInfiniteQuery>[0]) as unknown as UseInfiniteQueryResult<PagesOf<T>>;
  const items = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetching, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  useEffect(() => {
    if (total !== undefined && total <= whole) more();
  }, [total, whole, more]);
  return { query, items, hasMore: hasNextPage, more };
}
