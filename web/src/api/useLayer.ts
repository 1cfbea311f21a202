// SPDX-License-Identifier: Apache-2.0
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useSyncExternalStore } from "react";
import { layer, LayerFeed, map, type LayerState } from "./map";
import type { FabricMap, MapLayerName } from "./types";

/** A layer of the map while a page shows it. `wordsOf` is a constant for a map and layer. */
export function useLayer(of: FabricMap, name: MapLayerName, wordsOf: (values: Uint8Array) => string): [LayerFeed, LayerState] {
  const queries = useQueryClient();
  const feed = useMemo(
    () => new LayerFeed((since) => layer(name, since), of.version, name === "nodes" ? of.nodes.length : 2 * of.links.length, wordsOf, () => void queries.invalidateQueries({ queryKey: map.queryKey })),
    [of, name, wordsOf, queries],
  );
  useEffect(() => feed.start(), [feed]);
  return [feed, useSyncExternalStore(feed.watch, feed.state)];
}
