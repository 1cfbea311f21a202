// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { isLate } from "./late";

it("is late after 5 s, and one that has never come is", () => {
  expect([0, 5e9, 5.1e9, Infinity].map(isLate)).toEqual([false, false, true, true]);
});
