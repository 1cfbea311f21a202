// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { ObjectRef, ProblemRef } from "../api/types";
import { affected, object } from "./problem";

const ref = (kind: ObjectRef["kind"], name: string): ProblemRef => ({ code: "C", id: `${kind}${name}`, object: { kind, name } });

it("names objects as canopyctl does", () => {
  expect(object({ kind: "member", name: "demo/r3" })).toBe("receiver r3 of group demo");
  expect(object({ kind: "controller", name: "" })).toBe("controller");
  expect(object({ kind: "link", name: "n6/eth2--n4/eth1" })).toBe("link n6/eth2--n4/eth1");
});

// Catches an object that is counted once per problem.
it("counts each object once", () => {
  expect(affected([ref("group", "a"), ref("group", "a"), ref("group", "b"), ref("member", "a/r1")])).toBe("2 groups, 1 member");
  expect(affected([])).toBe("");
});
