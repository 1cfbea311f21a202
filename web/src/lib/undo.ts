// SPDX-License-Identifier: Apache-2.0
// What an entry of the audit changed, and how it is taken back, from the versions of its resource: as `canopyctl undo` does it.
import type { AuditItem, FieldChange, Version } from "../api/types";
import { differences } from "./diff";
import { quoted } from "./drain";

/** Kinds whose versions are kept. */
const VERSIONED = ["Topology", "Drain", "Group"];
export const hasVersions = (kind: string): boolean => VERSIONED.includes(kind);

/** The version that a resource had just before a write, and the one that it has had since; `undefined` where there was or is none. */
export interface Around {
  before: Version | undefined;
  after: Version | undefined;
}

export function around(entry: AuditItem, versions: readonly Version[]): Around {
  const find = (generation: number) => versions.find((version) => version.uid === entry.uid && version.generation === generation);
  const generation = entry.generation ?? 0;
  if (entry.action === "delete") return { before: find(generation), after: undefined };
  return { before: entry.action === "create" ? undefined : find(generation - 1), after: find(generation) };
}

const value = (version: Version | undefined) => version && { metadata: { labels: version.labels }, spec: version.spec };

/** Old and new value of each field, or why they are not known. */
export function changed(entry: AuditItem, { before, after }: Around): FieldChange[] | string {
  if (entry.action === "create") return after ? differences(undefined, value(after)) : GONE;
  if (entry.action === "delete") return before ? differences(value(before), undefined) : GONE;
  return before && after ? differences(value(before), value(after)) : GONE;
}
const GONE = "The versions before and after this write are no longer kept.";

/** What has to be written, and under which condition, to have the version before an entry again; or why it cannot be. */
export type Undo = { to: Version; isThere: boolean; condition: { "If-Match"?: string; "If-None-Match"?: "*" }; also: number } | string;

export function undo(entry: AuditItem, versions: readonly Version[]): Undo {
  if (!hasVersions(entry.kind)) return "Only topology, drains and groups have versions.";
  if (entry.action === "create") return "It was created by this: there is nothing before it. Delete it instead.";
  const { before } = around(entry, versions);
  if (!before) return "The version before this write is no longer kept.";
  // Groups of other tenants may have had its name before: what they were is not put back, and the group is not moved.
  const last = versions[0];
  if (last && last.tenant !== before.tenant) return `This version is of tenant ${before.tenant ?? ""}, and the group is tenant ${last.tenant ?? ""}'s by now.`;
  const present = versions.find((version) => version.endedUnixNs === null || version.endedUnixNs === undefined);
  if (present && present.uid === before.uid && present.generation === before.generation) return "This version is in force.";
  const condition: { "If-Match"?: string; "If-None-Match"?: "*" } = present ? { "If-Match": `"${present.uid}.${present.generation}"` } : { "If-None-Match": "*" };
  const also = present && present.uid === entry.uid ? present.generation - (entry.generation ?? 0) : 0;
  return { to: before, isThere: present !== undefined, condition, also };
}

export const undoCommand = (entry: AuditItem, to: Version): string =>
  `canopyctl undo ${entry.kind.toLowerCase()}${entry.kind === "Topology" ? "" : ` ${quoted(entry.name)}`} --to ${to.generation}`;

/** Filter of the audit, as in the page's URL. */
export interface AuditSearch {
  by?: string | undefined;
  kind?: string | undefined;
  name?: string | undefined;
  action?: string | undefined;
  within?: string | undefined;
  /** Id of the request that wrote. */
  request?: string | undefined;
  /** The joins and leaves of hosts, instead of what operators wrote. */
  hosts?: boolean | undefined;
}

export const WITHIN: Readonly<Record<string, [number, string]>> = {
  "15m": [900, "last 15 minutes"],
  "1h": [3600, "last hour"],
  "1d": [86_400, "last day"],
  "7d": [604_800, "last 7 days"],
};

/** A kind as an argument of `canopyctl`: "change-set". */
const argument = (kind: string): string => kind.replace(/(?<=[a-z])[A-Z]/g, "-$&").toLowerCase();

export function auditCommand(search: AuditSearch): string {
  const flags = (["kind", "name", "by", "action", "within", "request"] as const).flatMap((flag) => {
    const set = search[flag];
    return set ? [`--${flag} ${quoted(flag === "kind" ? argument(set) : set)}`] : [];
  });
  return ["canopyctl audit", ...(search.hosts ? ["--hosts"] : []), ...flags].join(" ");
}
