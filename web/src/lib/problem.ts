// SPDX-License-Identifier: Apache-2.0
// Problems in the same words as `canopyctl status`.
import type { ObjectRef, Problem, ProblemRef } from "../api/types";
import { counted } from "./format";

/** An object with its kind: "link n6/eth2--n4/eth1", "receiver r3 of group demo". */
export function object(of: ObjectRef): string {
  if (of.kind === "controller") return "controller";
  const slash = of.name.indexOf("/");
  if (of.kind === "member" && slash >= 0) return `receiver ${of.name.slice(slash + 1)} of group ${of.name.slice(0, slash)}`;
  return `${of.kind} ${of.name}`;
}

/** What is wrong, as a sentence without its full stop. */
export const sentence = (problem: Problem): string => `${object(problem.object)} ${problem.title}`;

/** How many objects of which kind a problem affects: "2 groups, 1 member". */
export function affected(problems: readonly ProblemRef[]): string {
  const kinds = new Map<string, Set<string>>();
  for (const { object: of } of problems) {
    const names = kinds.get(of.kind) ?? new Set();
    kinds.set(of.kind, names.add(of.name));
  }
  return [...kinds].map(([kind, names]) => counted(names.size, kind)).join(", ");
}
