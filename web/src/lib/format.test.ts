// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { age, bytes, clockTime, count, counted, digits, instant, perSecond, permille, rate, short, span } from "./format";

describe("numbers", () => {
  // Catches "1000 kB" for a value just below the next unit, and digits that no one reads.
  it("changes the unit where the rounded value would have four digits", () => {
    expect([0, 999, 999.6, 1000, 64_000, 999_600, 6_250_000].map(bytes)).toEqual(
      ["0 B", "999 B", "1 kB", "1 kB", "64 kB", "1 MB", "6.25 MB"],
    );
    expect([1e9, 41.23e9, 999.7e6, 2.5e15].map(rate)).toEqual(["1 Gbit/s", "41.2 Gbit/s", "1 Gbit/s", "2500 Tbit/s"]);
  });
  it("writes spans in the usual unit", () => {
    expect([21_516, 512_000, 1.5e9, 61e9].map(span)).toEqual(["21.5 µs", "512 µs", "1.5 s", "1 min"]);
    expect([-5, 59.9e9, 3600e9, 7500e9, 86_400e9, 100 * 3600e9, 4000 * 3600e9].map(age)).toEqual(
      ["0 s", "59 s", "1 h", "2 h 5 min", "1 d", "4 d 4 h", "166 d"],
    );
  });
  it("writes rates of things and short numbers", () => {
    expect([0, 12.34, 999.7, 1_250_000].map(perSecond)).toEqual(["0 /s", "12.3 /s", "1 k/s", "1.25 M/s"]);
    expect([0, 65_536, 3].map(short)).toEqual(["0", "65.5 k", "3"]);
  });
  it("groups thousands", () => {
    expect([0, 999, 1000, 1_000_000].map(count)).toEqual(["0", "999", "1\u202f000", "1\u202f000\u202f000"]);
    expect([counted(1, "group"), counted(0, "group"), counted(2, "branch", "branches")]).toEqual(
      ["1 group", "0 groups", "2 branches"],
    );
    expect([permille(1000), permille(5), digits(Number.NaN)]).toEqual(["100 %", "0.5 %", "–"]);
  });
});

describe("instants", () => {
  it("names the zone", () => {
    expect(instant(1_795_596_380_830_109_440, true)).toBe("2026-11-25 08:46:20 UTC");
    expect(instant(1_795_596_380_830_109_440, false)).toMatch(/^2026-11-2\d \d\d:\d\d:20 UTC[+-]\d\d:\d\d$/);
    expect(instant(Number.NaN, true)).toBe("–");
    expect([clockTime(1_795_596_380.9, true), clockTime(Number.NaN, true)]).toEqual(["08:46:20", "–"]);
    expect(clockTime(1_795_596_380, false)).toMatch(/^\d\d:\d\d:20$/);
  });
});
