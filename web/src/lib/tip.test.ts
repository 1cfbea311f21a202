// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { below } from "./tip";

const screen = { width: 390, height: 800 };
const box = { width: 300, height: 60 };

it("stands below its word, within the screen", () => {
  expect(below({ left: 20, top: 100, width: 40, height: 20 }, box, screen)).toEqual([20, 124]);
  expect(below({ left: 350, top: 100, width: 40, height: 20 }, box, screen)).toEqual([82, 124]);
  expect(below({ left: 350, top: 100, width: 40, height: 20 }, { width: 500, height: 60 }, screen)[0]).toBe(8);
});

it("stands above where there is no room below, and below where there is none at all", () => {
  expect(below({ left: 20, top: 740, width: 40, height: 20 }, box, screen)).toEqual([20, 676]);
  expect(below({ left: 20, top: 732, width: 40, height: 20 }, { width: 300, height: 36 }, screen)).toEqual([20, 756]);
  expect(below({ left: 20, top: 40, width: 40, height: 20 }, box, { width: 390, height: 100 })).toEqual([20, 64]);
});
