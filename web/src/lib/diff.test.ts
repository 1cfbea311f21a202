// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { differences } from "./diff";

// The cases are those of the controller's own differences: what the page shows of two versions is what a dry run would.
it("one link that is gone is one difference", () => {
  const link = (a: string, rateBps: number) => ({ a, b: "n9/eth1", rateBps });
  const old = { links: [link("n1/eth1", 1), link("n2/eth1", 1), link("n3/eth1", 1)] };
  const now = { links: [link("n2/eth1", 1), link("n3/eth1", 2)] };
  expect(differences(old, now)).toEqual([
    { pointer: "/links/1/rateBps", old: 1, new: 2 },
    { pointer: "/links/0", old: link("n1/eth1", 1) },
  ]);
  expect(differences(old, old)).toEqual([]);
});

it("fields, items and whole values that come and go are named", () => {
  const old = { metadata: { labels: { "a/b": "1", "x~y": "1" } }, spec: { list: [1, 2], same: [{}] } };
  const now = { metadata: { labels: { "a/b": "2" } }, spec: { list: [2, 3], same: [{}], more: null } };
  expect(differences(old, now)).toEqual([
    { pointer: "/metadata/labels/a~1b", old: "1", new: "2" },
    { pointer: "/metadata/labels/x~0y", old: "1" },
    { pointer: "/spec/list/1", new: 3 },
    { pointer: "/spec/list/0", old: 1 },
    { pointer: "/spec/more", new: null },
  ]);
  expect(differences(undefined, now)).toEqual([{ pointer: "", new: now }]);
  expect(differences(now, undefined)).toEqual([{ pointer: "", old: now }]);
});
