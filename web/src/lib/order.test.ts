// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { count } from "./format";
import { byName, byValue, distinct, firstOf, wordsOf } from "./order";


describe("order", () => {
  test("names with numbers are in the order of the numbers", () => {
    const names = ["leaf10/eth2", "spine1", "leaf2/eth10", "leaf2/eth2", "leaf1"];
    expect([...names].sort(byName)).toEqual(["leaf1", "leaf2/eth2", "leaf2/eth10", "leaf10/eth2", "spine1"]);
  });

  test("names that only differ in leading zeros have an order", () => {
    expect(byName("n01", "n1")).not.toBe(0);
    expect(Math.sign(byName("n01", "n1"))).toBe(-Math.sign(byName("n1", "n01")));
    expect(byName("n1", "n1")).toBe(0);
  });

  test("numbers are by size", () => {
    expect([10, 9, -1].sort(byValue)).toEqual([-1, 9, 10]);
  });

  test("of many names the first are named and the others counted", () => {
    expect(firstOf(["n10", "n2"])).toBe("n2, n10");
    expect(firstOf(["n10", "n2", "n3"], 2)).toBe("n2, n3 and 1 more");
    expect(firstOf(Array.from({ length: 1235 }, () => "n1"), 1)).toBe(`n1 and ${count(1234)} more`);
    expect(firstOf([])).toBe("");
  });

  test("names are listed by their words, in the order of the words", () => {
    expect(wordsOf([["failed", "n10"], ["late", "n1"], ["failed", "n2"]])).toBe("failed: n2, n10; late: n1");
    expect(wordsOf([["late", "n1"], ["late", "n2"], ["late", "n3"]], 2)).toBe("late: n1, n2 and 1 more");
    expect(wordsOf([])).toBe("");
  });
});

// Catches an item that is there twice, and one that loses its place among those that need someone.
test("puts lists one behind the other, each item once", () => {
  expect(distinct([["c", "a"], undefined, ["a", "b"]], (item) => item)).toEqual(["c", "a", "b"]);
});
