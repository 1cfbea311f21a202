// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { forgetFilter, saveFilter, savedAs, savedFilters } from "./savedFilters";

function store(text: string | null = null) {
  let kept = text;
  return { getItem: () => kept, setItem: (_: string, value: string) => void (kept = value) };
}

it("keeps filters by name, and forgets them", () => {
  const of = store();
  expect(savedFilters(of)).toEqual([]);
  saveFilter(" mine ", { phase: "Stalled", q: "" }, of);
  saveFilter("job10", { label: "job=10" }, of);
  saveFilter("job9", { label: "job=9", tenant: "a" }, of);
  saveFilter("mine", { phase: "Failed" }, of);
  saveFilter("  ", { phase: "Failed" }, of);
  expect(savedFilters(of)).toEqual([{ name: "job9", filter: { label: "job=9", tenant: "a" } }, { name: "job10", filter: { label: "job=10" } }, { name: "mine", filter: { phase: "Failed" } }]);
  expect([savedAs({ phase: "Failed", q: undefined }, savedFilters(of))?.name, savedAs({ label: "job=9" }, savedFilters(of))]).toEqual(["mine", undefined]);
  forgetFilter("mine", of);
  expect(savedFilters(of).map(({ name }) => name)).toEqual(["job9", "job10"]);
});

// Catches a page of groups that does not open any more because of what another version, or a person, has put into the store.
it("reads what is no filter as none", () => {
  expect(savedFilters(store("not JSON"))).toEqual([]);
  expect(savedFilters(store("3"))).toEqual([]);
  expect(savedFilters(store('{"a":null,"b":{"phase":7,"other":"x","q":"r1"}}'))).toEqual([{ name: "a", filter: {} }, { name: "b", filter: { q: "r1" } }]);
});
