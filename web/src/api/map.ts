// SPDX-License-Identifier: Apache-2.0
// The fabric's map, and the values that it shows: an octet per direction or node, read again every 2 s, changes only, and never through React's state.
import { queryOptions } from "@tanstack/react-query";
import { api, ApiError, data } from "./client";
import { repeat } from "./repeat";
import type { FabricMap, MapLayer, MapLayerName } from "./types";

const EVERY = 2000;

/** `null` as long as there is no topology. */
export const map = queryOptions({
  queryKey: ["topology", "map"],
  staleTime: 0,
  // Large in a large fabric, and another one only with another topology: then the stream reports it, or a layer does.
  structuralSharing: (before, now) => (before && now && (before as FabricMap).version === (now as FabricMap).version ? before : now),
  queryFn: async () => {
    try {
      return await data(api.GET("/api/v1/map"));
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return null;
      throw error;
    }
  },
});

/** Values of a layer, all of them or what has changed since a revision. */
export const layer = (name: MapLayerName, since?: string): Promise<MapLayer> =>
  data(api.GET("/api/v1/map/layers/{layer}", { params: { path: { layer: name }, query: since === undefined ? {} : { since } } }));

/** `words`: what the values amount to, in words. */
export interface LayerState {
  phase: "reading" | "there" | "failed";
  words: string;
  error?: unknown;
}

/** A layer of one map while a page shows it. Its state changes only if its words do. */
export class LayerFeed {
  private values: Uint8Array;
  private revision: string | undefined;
  private isThere = false;
  private current: LayerState = { phase: "reading", words: "" };
  private readonly listeners = new Set<(values: Uint8Array) => void>();
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly read: (since?: string) => Promise<MapLayer>,
    /** The map's version, and how many values a layer of it has. */
    private readonly version: string,
    length: number,
    private readonly wordsOf: (values: Uint8Array) => string,
    /** Calls for another map: these values are of that. */
    private readonly onOtherMap: () => void,
  ) {
    this.values = new Uint8Array(length);
  }

  /** Gets the values that are there, and each time that some have changed; the array stays the same. */
  readonly subscribe = (listener: (values: Uint8Array) => void): (() => void) => {
    this.listeners.add(listener);
    if (this.isThere) listener(this.values);
    return () => this.listeners.delete(listener);
  };

  /** The values that are there, if any are. */
  readonly now = (): Uint8Array | undefined => (this.isThere ? this.values : undefined);

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  readonly state = (): LayerState => this.current;

  start(): () => void {
    return repeat((isCurrent) => this.once(isCurrent), EVERY);
  }

  private async once(isCurrent: () => boolean): Promise<void> {
    try {
      const found = await this.read(this.revision);
      if (!isCurrent()) return;
      if (found.version !== this.version) {
        this.onOtherMap();
        return;
      }
      const hasChanged = this.take(found);
      this.revision = found.revision;
      if (hasChanged) for (const listener of this.listeners) listener(this.values);
      this.set({ phase: "there", words: hasChanged ? this.wordsOf(this.values) : this.current.words });
    } catch (error) {
      if (!isCurrent()) return;
      // There may be no topology any more, or another controller: what is read next is whole.
      if (error instanceof ApiError && error.status === 404) this.onOtherMap();
      this.revision = undefined;
      this.set({ phase: "failed", words: this.current.words, error });
    }
  }

  private take({ values, changes }: MapLayer): boolean {
    if (typeof values === "string") {
      const all = Uint8Array.from(atob(values), (character) => character.charCodeAt(0));
      if (all.length !== this.values.length) throw new Error(`the layer has ${all.length} values instead of ${this.values.length}`);
      this.values.set(all);
      this.isThere = true;
      return true;
    }
    for (const [at = 0, value = 0] of changes ?? []) this.values[at] = value;
    return Boolean(changes?.length);
  }

  private set(state: LayerState): void {
    const { phase, words } = this.current;
    if (state.phase === phase && state.phase !== "failed" && state.words === words) return;
    this.current = state;
    for (const watcher of this.watchers) watcher();
  }
}
