// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { distance, psn, wrap } from "./psn";

// Catches a comparison of PSNs as plain numbers: a receiver behind the wrap would be shown 16 million packets ahead.
it("compares PSNs across the wrap", () => {
  expect(distance(0xfffffe, 1)).toBe(3);
  expect(distance(1, 0xfffffe)).toBe(-3);
  expect(distance(7, 7)).toBe(0);
  expect(distance(0, 0x7fffff)).toBe(0x7fffff);
  expect(distance(0, 0x800000)).toBe(-0x800000);
});

it("wraps to 24 bits", () => {
  expect([wrap(1 << 24), wrap(-1), wrap(18_379_660)]).toEqual([0, 0xffffff, 0x18738c]);
  expect(psn(18_379_660)).toBe("0x18738c");
});
