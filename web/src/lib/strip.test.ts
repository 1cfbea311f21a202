// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { heldFor, inWords } from "./strip";

describe("the strip of a receiver", () => {
  it("counts the seconds up to now in which the source waited for it nearly alone", () => {
    expect(heldFor([])).toBe(0);
    expect(heldFor([1, 0.2, 0.9, 1])).toBe(2);
    // The last second is not over, and a gap before it ends what is known.
    expect(heldFor([1, 1, null])).toBe(2);
    expect(heldFor([1, null, null])).toBe(0);
    expect(heldFor([1, null, 1])).toBe(1);
    expect(heldFor([1, 1, 0.89])).toBe(0);
  });

  it("has words", () => {
    expect(inWords("r3", [0, null, 1, 1])).toBe("r3: 67 % of the last 5 min, 90 % and more for 2 s");
    expect(inWords("r1", [0.5, 0.01])).toBe("r1: 26 % of the last 5 min");
    expect(inWords("r1", undefined)).toBe("r1: not among the receivers that were waited for most in the last minute");
    expect(inWords("r1", [null, null])).toBe("r1: nothing was acknowledged in the last 5 min");
  });
});
