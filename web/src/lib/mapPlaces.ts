// SPDX-License-Identifier: Apache-2.0
// What is where on the map, as far as pointer and keys need it.

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A layout as the page has it; it is made in a worker. */
export interface Places {
  bounds: Box;
  /** Of nodes, then of hosts. */
  x: Float32Array;
  y: Float32Array;
  cells: Box[];
  /** Units between the places of a row. */
  step: number;
}

/** The node or host nearest to a point, if it is within `reach`; -1 if none is. */
export function nearest({ x, y }: Pick<Places, "x" | "y">, toX: number, toY: number, reach: number): number {
  let found = -1;
  let best = reach * reach;
  for (let at = 0; at < x.length; at += 1) {
    const distance = ((x[at] ?? 0) - toX) ** 2 + ((y[at] ?? 0) - toY) ** 2;
    if (distance <= best) [found, best] = [at, distance];
  }
  return found;
}

/** The cell at a point, or the nearest one, if it is within `reach`. */
export function cellAt<Cell extends Box>({ cells }: { cells: readonly Cell[] }, x: number, y: number, reach = 0): Cell | undefined {
  let found: Cell | undefined;
  let best = reach;
  for (const cell of cells) {
    const distance = Math.hypot(Math.max(cell.x - x, 0, x - cell.x - cell.width), Math.max(cell.y - y, 0, y - cell.y - cell.height));
    if (distance <= best) [found, best] = [cell, distance];
  }
  return found;
}

/** The nearest one in a direction. */
export function towards({ x, y }: Pick<Places, "x" | "y">, from: number, dx: number, dy: number): number {
  let found = -1;
  let best = Infinity;
  for (let at = 0; at < x.length; at += 1) {
    const [right, down] = [(x[at] ?? 0) - (x[from] ?? 0), (y[at] ?? 0) - (y[from] ?? 0)];
    const along = right * dx + down * dy;
    if (along <= 0) continue;
    const cost = along + 3 * Math.abs(right * dy + down * dx);
    if (cost < best) [found, best] = [at, cost];
  }
  return found;
}

/** Ends of links by the indexes of their devices. */
export interface Lines {
  a: ArrayLike<number>;
  b: ArrayLike<number>;
  /** Of each link: how far it is aside of the line between its ends, where several have the same. */
  aside: ArrayLike<number>;
}

/** Units between lines with the same ends. */
const ASIDE = 7;

/** How far links are aside of the lines between their ends, of which there are `devices`. */
export function asides(a: ArrayLike<number>, b: ArrayLike<number>, devices: number): Float32Array {
  const pair = (at: number) => Math.min(a[at] ?? 0, b[at] ?? 0) * devices + Math.max(a[at] ?? 0, b[at] ?? 0);
  const same = new Map<number, number>();
  const place = Array.from({ length: a.length }, (_, at) => {
    const before = same.get(pair(at)) ?? 0;
    same.set(pair(at), before + 1);
    return before;
  });
  // To the same side, whichever end comes first.
  return Float32Array.from(place, (of, at) => (of - ((same.get(pair(at)) ?? 1) - 1) / 2) * ASIDE * ((a[at] ?? 0) < (b[at] ?? 0) ? 1 : -1));
}

/** The link whose line is nearest to a point, if it is within `reach`; -1 if none is. `apart`: units of the layout in one of `aside`. */
export function nearestLink({ x, y }: Pick<Places, "x" | "y">, { a, b, aside }: Lines, toX: number, toY: number, reach: number, apart: number, isDrawn: (link: number) => boolean): number {
  let [found, best] = [-1, reach];
  for (let at = 0; at < a.length; at += 1) {
    const [ax, ay, bx, by] = [x[a[at] ?? 0] ?? 0, y[a[at] ?? 0] ?? 0, x[b[at] ?? 0] ?? 0, y[b[at] ?? 0] ?? 0];
    const long = Math.hypot(bx - ax, by - ay) || 1;
    const [alongX, alongY] = [(bx - ax) / long, (by - ay) / long];
    const [fromX, fromY] = [toX - ax - alongY * (aside[at] ?? 0) * apart, toY - ay + alongX * (aside[at] ?? 0) * apart];
    const part = Math.min(long, Math.max(0, fromX * alongX + fromY * alongY));
    const distance = Math.hypot(fromX - part * alongX, fromY - part * alongY);
    if (distance <= best && isDrawn(at)) [found, best] = [at, distance];
  }
  return found;
}
