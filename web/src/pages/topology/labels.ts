// SPDX-License-Identifier: Apache-2.0
// Where in a picture there is room for text: what comes first is written, what would cover it is not.

/** Pixels of a square of the grid. */
const GRID = 4;

export class Room {
  private readonly columns: number;
  private readonly taken: Uint8Array;

  constructor(
    private readonly width: number,
    private readonly height: number,
  ) {
    this.columns = Math.ceil(width / GRID) + 1;
    this.taken = new Uint8Array(this.columns * (Math.ceil(height / GRID) + 1));
  }

  /** Takes the box, if nothing has taken a part of it; what is outside of the picture has no room. */
  take(x: number, y: number, width: number, height: number): boolean {
    if (x < 0 || y < 0 || x + width > this.width || y + height > this.height) return false;
    if (this.each(x, y, width, height, (at) => this.taken[at] === 1)) return false;
    this.block(x, y, width, height);
    return true;
  }

  /** Takes the box, whatever is there. */
  block(x: number, y: number, width: number, height: number): void {
    this.each(x, y, width, height, (at) => {
      this.taken[at] = 1;
      return false;
    });
  }

  /** Whether one of the squares of a box fits. */
  private each(x: number, y: number, width: number, height: number, fits: (at: number) => boolean): boolean {
    const [left, right] = [Math.max(0, Math.floor(x / GRID)), Math.min(this.columns - 1, Math.floor((x + width) / GRID))];
    const [top, bottom] = [Math.max(0, Math.floor(y / GRID)), Math.min(this.taken.length / this.columns - 1, Math.floor((y + height) / GRID))];
    for (let row = top; row <= bottom; row += 1) for (let column = left; column <= right; column += 1) if (fits(row * this.columns + column)) return true;
    return false;
  }
}
