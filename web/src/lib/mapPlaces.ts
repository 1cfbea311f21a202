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
