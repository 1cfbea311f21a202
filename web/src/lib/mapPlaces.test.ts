// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { asides, nearestLink } from "./mapPlaces";

/** Three devices: two links between the first two, at y = 0 and 100 units apart, and one from the first to the third, upwards. */
const places = { x: Float32Array.of(0, 100, 0), y: Float32Array.of(0, 0, -100) };
const [a, b] = [[0, 1, 0], [1, 0, 2]];
const lines = { a, b, aside: asides(a, b, 3) };
const at = (x: number, y: number, reach = 5, isDrawn: (link: number) => boolean = () => true) => nearestLink(places, lines, x, y, reach, 1, isDrawn);

it("finds the line at a point, and the right one of two with the same ends", () => {
  expect([at(50, -4), at(50, 4)].sort()).toEqual([0, 1]);
  expect(at(50, -4)).not.toBe(at(50, 4));
  expect(at(2, -50)).toBe(2);
});

// Catches a line that continues behind its ends, one that is picked from afar, and one that is not in the picture.
it("finds none beyond the ends, out of reach, or that is not drawn", () => {
  expect(at(120, 0)).toBe(-1);
  expect(at(0, 20)).toBe(-1);
  expect(at(50, 30)).toBe(-1);
  expect(at(2, -50, 5, (link) => link !== 2)).toBe(-1);
});

// The side is that of the drawing: Picture.ends adds (dy, -dx) of the line, times aside.
it("has each line on the side where it is drawn", () => {
  const [first = 0] = lines.aside;
  expect(at(50, -first)).toBe(0);
});
