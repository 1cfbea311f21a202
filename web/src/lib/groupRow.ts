// SPDX-License-Identifier: Apache-2.0
// What the list has of a group beside its name: how many receivers are ready, for which it waits, since when.
import type { Group, Problem } from "../api/types";
import { byName, firstOf } from "./order";

/** Open problems by the group that they are about: of the group itself, and of its members by host. */
interface OfGroup {
  own: Problem[];
  hosts: Set<string>;
}

export function byGroup(problems: readonly Problem[]): Map<string, OfGroup> {
  const found = new Map<string, OfGroup>();
  for (const problem of problems) {
    const { kind, name } = problem.object;
    if (kind !== "group" && kind !== "member") continue;
    const [group = name, host = ""] = name.split("/");
    const of = found.get(group) ?? { own: [], hosts: new Set() };
    found.set(group, of);
    if (kind === "group") of.own.push(problem);
    else of.hosts.add(host);
  }
  return found;
}

const condition = ({ status }: Group, type: string) => status.conditions.find((one) => one.type === type);

/** Receivers that get data and of which no problem is open: none while there is no tree, or the headend takes no data. */
export function ready(group: Group, of: OfGroup | undefined): number {
  const { tree, receivers, probing } = group.status;
  const open = condition(group, "Open");
  if (tree.length === 0 || (open && open.status !== "True")) return 0;
  const troubled = new Set([...(probing ?? []), ...(of?.hosts ?? [])]);
  return Math.max(0, receivers - troubled.size);
}

const HELD = /^held up by /;

/** For what the group waits: as its condition has it, else receivers with problems; empty if for none. */
export function waitsFor(group: Group, of: OfGroup | undefined): string {
  const stalled = condition(group, "Stalled");
  if (stalled?.status === "True") return stalled.message.replace(HELD, "");
  return of && of.hosts.size ? firstOf([...of.hosts].sort(byName), 3) : "";
}

/** Since when it is in a phase that needs someone, as its delivery or its problems have it, nanoseconds since the Unix epoch. */
export function since(group: Group, of: OfGroup | undefined): number | undefined {
  const { phase, delivery } = group.status;
  if (phase === "Ready") return undefined;
  if (phase === "Stalled" && delivery?.state === "Stalled") return delivery.sinceUnixNs;
  const all = of?.own.map(({ sinceUnixNs }) => sinceUnixNs) ?? [];
  return all.length ? Math.min(...all) : undefined;
}
