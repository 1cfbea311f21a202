// SPDX-License-Identifier: Apache-2.0
// What has happened to a group, the newest first: its events, what operators wrote, and who joined and left.
import type { AuditItem, Event } from "../api/types";
import { object, principal } from "./commit";
import { counted } from "./format";

export type Kind = "phase" | "member" | "move" | "eviction" | "write" | "event";

/** The kinds with their names in the filter. */
export const KINDS: readonly (readonly [Kind, string])[] = [
  ["phase", "phases"],
  ["member", "joins and leaves"],
  ["move", "moves"],
  ["eviction", "evictions"],
  ["write", "writes of operators"],
  ["event", "other events"],
];

export interface Happened {
  key: string;
  /** Nanoseconds since the Unix epoch. */
  at: number;
  kind: Kind;
  /** A code, or what was done. */
  what: string;
  detail: string;
  /** Node concerned. */
  node: string | undefined;
  /** Request that it follows from. */
  request: string | undefined;
}

const CODES: Readonly<Record<string, Kind>> = {
  GroupPhase: "phase",
  GroupFailed: "phase",
  MemberEvicted: "eviction",
  PolicyNotCarriedOut: "eviction",
  MoveGivenUp: "move",
  MoveNotFinished: "move",
  LateStartNotStored: "member",
};

const ofEvent = ({ sequence, timeUnixNs, code, detail, node, requestId }: Event): Happened => ({
  key: `event ${sequence}`, at: timeUnixNs, kind: CODES[code] ?? "event", what: code, detail, node: node ?? undefined, request: requestId ?? undefined,
});

function ofWrite({ sequence, timeUnixNs, kind, name, action, by, fields, count: times = 1, lastUnixNs, requestId }: AuditItem, book: string): Happened {
  const many = times > 1 ? `${counted(times, "time")} within a minute, the first ` : "";
  const changed = fields?.length ? `; other values: ${fields.join(" ")}` : "";
  return {
    key: `${book} ${sequence}`, at: lastUnixNs ?? timeUnixNs, kind: kind === "Member" ? "member" : "write", what: action, detail: `${many}${object(kind, name)}, by ${principal(by)}${changed}`,
    node: undefined, request: requestId ?? undefined,
  };
}

/** Whether an entry of the audit is of the group or of a member of it. */
const isOf = ({ kind, name }: AuditItem, group: string): boolean => (kind === "Group" && name === group) || (kind === "Member" && name.startsWith(`${group}/`));

/** `writes`: of operators; `joins`: of hosts. An entry that both lists of operators have is there once. */
export function history(group: string, events: readonly Event[], writes: readonly AuditItem[], joins: readonly AuditItem[]): Happened[] {
  const all = [
    ...events.filter((event) => event.group === group).map(ofEvent),
    ...writes.filter((entry) => isOf(entry, group)).map((entry) => ofWrite(entry, "write")),
    ...joins.filter((entry) => isOf(entry, group)).map((entry) => ofWrite(entry, "join")),
  ];
  return [...new Map(all.map((one) => [one.key, one])).values()].sort((a, b) => b.at - a.at);
}
