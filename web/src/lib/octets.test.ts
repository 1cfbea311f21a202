// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { extents, lines, next, where, type Octet } from "./octets";

const dump = (...fields: [string, number][]): Octet[] => fields.flatMap(([field, count]) => Array.from({ length: count }, () => ({ text: "00", isMarked: false, field })));

it("breaks a field at the end of a line, and begins it once", () => {
  const found = lines(dump(["a", 14], ["b", 20], ["", 2]));
  expect(found.map((line) => line.map((run) => [run.field, run.at, run.octets.length, run.isFirst]))).toEqual([
    [["a", 0, 14, true], ["b", 14, 2, true]],
    [["b", 16, 16, false]],
    [["b", 32, 2, false], ["", 34, 2, false]],
  ]);
});

it("has the extent of each field that is named", () => {
  const found = extents(dump(["a", 1], ["", 2], ["b", 3]));
  expect(found.map(where)).toEqual(["octet 0", "octets 3 to 5"]);
  expect(found.map(({ field }) => field)).toEqual(["a", "b"]);
});

it("goes from field to field by keys, and not past the ends", () => {
  const fields = ["a", "b", "c"];
  expect(next(fields, "", "ArrowDown")).toBe("a");
  expect(next(fields, "", "ArrowUp")).toBe("c");
  expect([next(fields, "a", "ArrowRight"), next(fields, "b", "ArrowLeft"), next(fields, "b", "Home"), next(fields, "b", "End")]).toEqual(["b", "a", "a", "c"]);
  expect([next(fields, "a", "ArrowLeft"), next(fields, "c", "ArrowDown"), next(fields, "a", "Enter"), next([], "", "ArrowDown")]).toEqual([undefined, undefined, undefined, undefined]);
});
