// SPDX-License-Identifier: Apache-2.0
// Events as marks in the charts of an object: which concern it, and few enough to be read.
import type { Event } from "../api/types";
import type { Moment } from "./chart";

/** What the charts of a page are of. A link is named whole: "n1/eth1--n2/eth1". */
export interface Charted {
  kind: "group" | "node" | "link";
  name: string;
}

/** Marks of a chart whose names can be read beside each other. */
const READABLE = 8;

/** Whether an event is about it. Those of a link name it, or one of its ends. */
export function concerns(event: Event, { kind, name }: Charted): boolean {
  if (kind !== "link") return event[kind] === name;
  const words = event.detail.split(/[\s,;:()"]+/);
  return [name, ...name.split("--")].some((one) => words.includes(one));
}

/** Events of a time, seconds since the Unix epoch, the newest last. */
export const within = (events: readonly Event[], from: number, to: number): Event[] => events.filter(({ timeUnixNs }) => timeUnixNs >= from * 1e9 && timeUnixNs <= to * 1e9);

/** Events as marks: those that are too near to each other for their names are one. The same ones stay together while time goes by. */
export function marks(events: readonly Event[], span: number): Moment[] {
  const apart = span / READABLE;
  const byPart = new Map<number, Event[]>();
  for (const event of events) {
    const part = Math.floor(event.timeUnixNs / 1e9 / apart);
    byPart.set(part, [...(byPart.get(part) ?? []), event]);
  }
  return [...byPart.values()].map((all): Moment => {
    const [first] = all;
    const codes = new Set(all.map(({ code }) => code));
    const label = all.length === 1 ? (first?.code ?? "") : codes.size === 1 ? `${all.length} ${first?.code}` : `${all.length} events`;
    return { at: (first?.timeUnixNs ?? 0) / 1e9, label, state: "pending" };
  });
}
