// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Group } from "../api/types";
import { inWords, progress } from "./move";

type Status = Pick<Group["status"], "tree" | "nodes" | "conditions">;

const of = (inForce: string[], nodes: [string, number, number | null, number?][], reason?: "Making" | "GivenUp"): Status => ({
  tree: inForce.map((node) => ({ node, parent: null, roles: [], sid: "", upstreamPort: "", branches: [] })),
  nodes: nodes.map(([node, desiredGeneration, observedGeneration, errors = 0]) => ({ node, connected: true, desiredGeneration, observedGeneration, errors: Array(errors).fill({}) as never[] })),
  conditions: [{ type: "Moved", status: reason ? "False" : "True", reason: reason ?? "InForce", message: "" }],
});

// Catches a node that has not reported, or has refused its program, that counts as confirmed, and one that is ahead that does not.
it("counts nodes that have what is asked of them", () => {
  const found = progress(of(["n1", "n2", "n3", "n4"], [["n1", 4, 4], ["n2", 4, 9], ["n3", 4, null], ["n4", 4, 4, 1]]));
  expect(found).toEqual({ confirmed: 2, all: 4, moves: false, coming: [] });
  expect(inWords(found)).toBe("2 of 4 nodes confirmed what the group asks of them.");
});

// Catches nodes of the next tree that are taken for nodes of the one that carries the data.
it("names the nodes that only the next tree has", () => {
  const nodes: [string, number, number][] = [["n1", 4, 4], ["n2", 4, 4], ["n10", 9, 8], ["n9", 9, 9]];
  const moving = progress(of(["n1", "n2"], nodes, "Making"));
  expect(moving).toEqual({ confirmed: 3, all: 4, moves: true, coming: ["n10", "n9"] });
  expect(inWords(moving)).toBe("The tree moves: 3 of 4 nodes confirmed. n9, n10 are of the next tree only.");
  expect(inWords(progress(of(["n1"], [["n1", 4, 3]], "Making")))).toBe("The tree moves: 0 of 1 node confirmed. The next tree has no other nodes.");
  expect(inWords(progress(of(["n1", "n2"], nodes, "GivenUp")))).toBe("3 of 4 nodes confirmed. n9, n10 are of the next tree only, to which the group has not moved.");
});

it("has no words where every node has confirmed, nor without a tree", () => {
  expect(inWords(progress(of(["n1"], [["n1", 4, 4]])))).toBe("");
  expect(inWords(progress(of([], [])))).toBe("");
});
