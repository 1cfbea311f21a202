// SPDX-License-Identifier: Apache-2.0
// Events as marks in the charts of an object: which concern it, and few enough to be read.
import type { Event } from "../api/types";
import type { Moment } from "./chart";

/** What charts or events are of. A link is named whole: "n1/eth1--n2/eth1". */
export interface Charted {
  kind: "group" | "node" | "link" | "host";
  name: string;
}

/** Marks of a chart whose names can be read beside each other. */
const READABLE = 8;

/** Whether an event is about it. Those of a link name it, one of its ends, or a port of the node that they are of; those of a host name it. */
export function concerns(event: Event, { kind, name }: Charted): boolean {
  if (kind === "node" || kind === "group") return event[kind] === name;
  const names = [name, ...name.split("--")];
  const words = event.detail.split(/[\s,;:()"]+/);
  return words.some((word) => names.includes(word) || (event.node && kind === "link" && names.includes(`${event.node}/${word}`)));
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
