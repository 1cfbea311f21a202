// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { ObjectRef, Problem, ProblemRef } from "../api/types";
import { affected, concerns, kinds, object, quoted } from "./problem";

const ref = (kind: ObjectRef["kind"], name: string): ProblemRef => ({ code: "C", id: `${kind}${name}`, object: { kind, name } });

it("names objects as canopyctl does", () => {
  expect(object({ kind: "member", name: "demo/r3" })).toBe("receiver r3 of group demo");
  expect(object({ kind: "controller", name: "" })).toBe("controller");
  expect(object({ kind: "link", name: "n6/eth2--n4/eth1" })).toBe("link n6/eth2--n4/eth1");
});

// Catches the page of a node that is well although every packet of one of its links is lost.
it("concerns a node by its ports and by both ends of its links, and a group by its receivers", () => {
  const on = (kind: ObjectRef["kind"], name: string) => (["n1", "n2", "n10"] as const).map((node) => concerns({ kind, name }, "node", node));
  expect(on("node", "n1")).toEqual([true, false, false]);
  expect(on("port", "n10/eth1")).toEqual([false, false, true]);
  expect(on("link", "n1/eth2--n2/eth1")).toEqual([true, true, false]);
  expect(on("member", "n1/r3")).toEqual([false, false, false]);
  expect(["demo/r3", "demo2/r3"].map((name) => concerns({ kind: "member", name }, "group", "demo"))).toEqual([true, false]);
  expect(concerns({ kind: "link", name: "n1/eth2--n2/eth1" }, "port", "n1/eth2")).toBe(false);
});

// Catches an object that is counted once per problem.
it("counts each object once", () => {
  expect(affected([ref("group", "a"), ref("group", "a"), ref("group", "b"), ref("member", "a/r1")])).toBe("2 groups, 1 member");
  expect(affected([])).toBe("");
});

// Catches an Overview on which 600 agents that are away are 600 sentences, and what else is wrong is below them.
it("counts problems of one code, and names the first", () => {
  const problem = (severity: string, code: string, kind: string, name: string) => ({ severity, code, object: { kind, name } }) as Problem;
  const nodes = [10, 9, 2, 1, 11, 12].map((at) => problem("critical", "AgentDisconnected", "node", `n${at}`));
  expect(kinds([...nodes, problem("warning", "LinkLossy", "link", "a--b")])).toEqual([
    { severity: "critical", code: "AgentDisconnected", objects: "6 nodes: n1, n2, n9, n10, n11 and 1 more" },
    { severity: "warning", code: "LinkLossy", objects: "1 link: a--b" },
  ]);
  expect(kinds([])).toEqual([]);
});

it("finds the commands in a remedy", () => {
  expect(quoted("Run `a b`, then wait.")).toEqual(["Run ", "a b", ", then wait."]);
});
