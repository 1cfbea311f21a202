// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { oneOf, range, seconds, text } from "./pageSearch";

// Catches a value of a URL that a page gets without a check: a parameter that is left out keeps the one of the URL.
it("names what is not valid as undefined", () => {
  expect(Object.entries(oneOf({ links: "<img>" }, "links", ["load", "queue"]))).toEqual([["links", undefined]]);
  expect(oneOf({ links: "queue" }, "links", ["load", "queue"])).toEqual({ links: "queue" });
  expect(Object.entries(text({ q: "" }, "q"))).toEqual([["q", undefined]]);
  expect([text({ q: 17 }, "q"), text({ q: true }, "q"), text({}, "q")]).toEqual([{ q: "17" }, { q: "true" }, { q: undefined }]);
  expect(Object.entries(range({ range: "2h", at: "x" }))).toEqual([["range", undefined], ["at", undefined]]);
  expect([range({ range: "1h", at: 4000 }), range({ at: 3600 }), range({ at: 4000.5 })]).toEqual([{ range: "1h", at: 4000 }, { range: undefined, at: undefined }, { range: undefined, at: undefined }]);
  expect([seconds({ from: 1, to: 2 }), seconds({ from: 1 }), seconds({ from: 1, to: "2" })]).toEqual([{ from: 1, to: 2 }, ...Array<unknown>(2).fill({ from: undefined, to: undefined })]);
});
