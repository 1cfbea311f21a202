// SPDX-License-Identifier: Apache-2.0
// What the page and the worker of the map send each other.
import type { PackedMap } from "../../lib/mapPacked";
import type { Box, Places } from "../../lib/mapPlaces";
import type { MapLayout } from "../../lib/map";
import type { Values, View, Wanted } from "./scene";

/** A map is laid out when it arrives; values and pictures that are sent after it are of it. `viewer`: who gets the picture. */
export type ToWorker = { map: PackedMap } | { values: Values } | { draw: Wanted; viewer: number };

export interface LaidOut {
  version: string;
  places: PackedPlaces;
}

export interface Drawn {
  bitmap: ImageBitmap;
  view: View;
  viewer: number;
}

export type FromWorker = LaidOut | Drawn;

/** [`Places`] as a few arrays, which are moved and not copied. */
export interface PackedPlaces {
  bounds: Box;
  x: Float32Array;
  y: Float32Array;
  /** Left, top, width and height of each cell. */
  cells: Float64Array;
  step: number;
}

/** Copies: the worker keeps its own to draw. */
export function packedPlaces({ bounds, x, y, cells, step }: MapLayout): PackedPlaces {
  return { bounds, x: x.slice(), y: y.slice(), cells: Float64Array.from(cells.flatMap((cell) => [cell.x, cell.y, cell.width, cell.height])), step };
}

export function placesOf({ cells, ...rest }: PackedPlaces): Places {
  const boxes = Array.from({ length: cells.length / 4 }, (_, at): Box => {
    const [x = 0, y = 0, width = 0, height = 0] = cells.subarray(4 * at, 4 * at + 4);
    return { x, y, width, height };
  });
  return { ...rest, cells: boxes };
}
