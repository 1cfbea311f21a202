// SPDX-License-Identifier: Apache-2.0
// What an event is about. The API names node and group; links, ports, hosts and problems are in the text for operators, in words that do not change.
import type { Event } from "../api/types";

/** Kinds of objects that events are filtered by. `domain`: the event is about none of the others. */
export const KINDS = ["group", "node", "link", "host", "domain"] as const;
export type Kind = (typeof KINDS)[number];

export interface About {
  /** Name of a link, "n1/eth1--n2/eth1", or of a port, "n1/eth1". */
  links: string[];
  hosts: string[];
  /** Id of the problem that opened or closed. */
  problem: string | undefined;
}

const NAME = String.raw`[^\s,;:()"]+`;
const LINK = new RegExp(`(?:^|\\s)(${NAME}/${NAME}--${NAME}/${NAME})`, "g");
const PORT = new RegExp(`\\bport (${NAME}/${NAME})`, "g");
const HOST = new RegExp(`\\b(?:receiver|source|host) (${NAME})(?= (?:of group|at|joins|left|was)\\b|$|:)`, "g");
/** Ports of the event's node that carry nothing, or do again: "eth1, eth4 is avoided ...". */
const OWN_PORTS = new RegExp(`^(${NAME}(?:, ${NAME})*) (?:is avoided by trees|has been whole)`);

const all = (text: string, of: RegExp): string[] => [...new Set([...text.matchAll(of)].map(([, name = ""]) => name))];

/** The objects that an event names, beyond its node and group. */
export function about({ node, detail }: Pick<Event, "node" | "detail">): About {
  const own = node ? (OWN_PORTS.exec(detail)?.[1]?.split(", ").map((port) => `${node}/${port}`) ?? []) : [];
  const links = all(detail, LINK);
  const ports = all(detail, PORT).filter((port) => !port.includes("--") && !links.some((link) => link.split("--").includes(port)));
  return { links: [...links, ...ports, ...own], hosts: all(detail, HOST), problem: /\bproblem ([0-9a-f]{16})\b/.exec(detail)?.[1] };
}

/** Whether an event is about an object of a kind. */
export function isOf(event: Event, kind: Kind): boolean {
  switch (kind) {
    case "group":
      return Boolean(event.group);
    case "node":
      return Boolean(event.node);
    case "link":
      return about(event).links.length > 0;
    case "host":
      return about(event).hosts.length > 0;
    case "domain": {
      if (event.group || event.node) return false;
      const { links, hosts } = about(event);
      return links.length === 0 && hosts.length === 0;
    }
  }
}

/** What a list of events is filtered by; all of it has to hold. */
export interface EventFilter {
  q?: string | undefined;
  code?: string | undefined;
  kind?: Kind | undefined;
  node?: string | undefined;
  group?: string | undefined;
}

/** Events that pass, in the order of the list. */
export function passing(events: readonly Event[], { q, code, kind, node, group }: EventFilter): Event[] {
  const text = q?.toLowerCase() ?? "";
  return events.filter(
    (e) =>
      (!node || e.node === node) &&
      (!group || e.group === group) &&
      (!code || e.code === code) &&
      (!kind || isOf(e, kind)) &&
      (!text || `${e.code}\n${e.node ?? ""}\n${e.group ?? ""}\n${e.detail}`.toLowerCase().includes(text)),
  );
}

/** Those of a range of time. */
export const during = (events: readonly Event[], { from, to }: { from?: number | undefined; to?: number | undefined }): readonly Event[] =>
  from === undefined || to === undefined ? events : events.filter(({ timeUnixNs }) => timeUnixNs >= from * 1e9 && timeUnixNs < to * 1e9);

/** A list with events that came since: none is lost while the one that they come from forgets its oldest. Both have the newest last. */
export function joined(held: readonly Event[], next: readonly Event[]): readonly Event[] {
  const last = held.at(-1)?.sequence ?? 0;
  const added = next.filter(({ sequence }) => sequence > last);
  return added.length ? [...held, ...added] : held;
}
