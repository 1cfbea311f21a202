// SPDX-License-Identifier: Apache-2.0
// States by shape, as the legend has them.
import type { State } from "../../lib/state";

export type Context = OffscreenCanvasRenderingContext2D;

/** A state by shape: disc, ring, triangle, square; a host is a small bar. */
export function shape(context: Context, x: number, y: number, state: State | null, size: number): void {
  context.beginPath();
  switch (state) {
    case null:
      context.rect(x - size * 0.7, y - size * 0.4, size * 1.4, size * 0.8);
      break;
    case "ok":
      context.arc(x, y, size, 0, 2 * Math.PI);
      break;
    case "pending":
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.arc(x, y, size * 0.5, 0, 2 * Math.PI, true);
      break;
    case "degraded":
      context.moveTo(x, y - size * 1.2);
      context.lineTo(x + size * 1.2, y + size);
      context.lineTo(x - size * 1.2, y + size);
      break;
    case "failed":
      context.rect(x - size, y - size, size * 2, size * 2);
      break;
  }
  context.fill();
}

/** In a square, so that it is the shape of the legend. */
export function cross(context: Context, x: number, y: number, reach: number, width: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  for (const down of [1, -1]) {
    context.moveTo(x - reach, y - reach * down);
    context.lineTo(x + reach, y + reach * down);
  }
  context.stroke();
}
