// SPDX-License-Identifier: Apache-2.0
// Problems in the same words as `canopyctl status`.
import type { ObjectRef, Problem, ProblemRef, Severity } from "../api/types";
import { counted } from "./format";
import { firstOf } from "./order";

/** An object with its kind: "link n6/eth2--n4/eth1", "receiver r3 of group demo". */
export function object(of: ObjectRef): string {
  if (of.kind === "controller") return "controller";
  const slash = of.name.indexOf("/");
  if (of.kind === "member" && slash >= 0) return `receiver ${of.name.slice(slash + 1)} of group ${of.name.slice(0, slash)}`;
  return `${of.kind} ${of.name}`;
}

/** What is wrong, as a sentence without its full stop. */
export const sentence = (problem: Problem): string => `${object(problem.object)} ${problem.title}`;

/** Whether a page of an object shows a problem of another one too: a node's those of its ports and links, a group's those of its receivers. */
export function concerns(of: ObjectRef, kind: ObjectRef["kind"], name: string): boolean {
  if (of.kind === kind && of.name === name) return true;
  const isWithin = (end: string) => end.startsWith(`${name}/`);
  if (kind === "node") return of.kind === "port" ? isWithin(of.name) : of.kind === "link" && of.name.split("--").some(isWithin);
  return kind === "group" && of.kind === "member" && isWithin(of.name);
}

/** How many objects of which kind a problem affects: "2 groups, 1 member". */
export function affected(problems: readonly ProblemRef[]): string {
  const kinds = new Map<string, Set<string>>();
  for (const { object: of } of problems) {
    const names = kinds.get(of.kind) ?? new Set();
    kinds.set(of.kind, names.add(of.name));
  }
  return [...kinds].map(([kind, names]) => counted(names.size, kind)).join(", ");
}

/** Problems of one code. */
export interface Kind {
  severity: Severity;
  code: string;
  /** "600 nodes: leaf1, leaf2, leaf3, leaf4, leaf5 and 595 more". */
  objects: string;
}

/** Problems by code, in the order of the first of each. */
export function kinds(problems: readonly Problem[]): Kind[] {
  const byCode = new Map<string, Problem[]>();
  for (const problem of problems) {
    const key = `${problem.severity} ${problem.code}`;
    const of = byCode.get(key);
    if (of) of.push(problem);
    else byCode.set(key, [problem]);
  }
  return [...byCode.values()].flatMap((of) => {
    const [first] = of;
    if (!first) return [];
    return [{ severity: first.severity, code: first.code, objects: `${counted(of.length, first.object.kind)}: ${firstOf(of.map(({ object: { name } }) => name))}` }];
  });
}

/** A text, where every second part is a command that it quotes in backticks. */
export const quoted = (text: string): string[] => text.split("`");
