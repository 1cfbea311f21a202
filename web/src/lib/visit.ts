// SPDX-License-Identifier: Apache-2.0
// What has happened since this browser last showed Overview.
import type { AuditItem, IncidentItem } from "../api/types";
import { counted } from "./format";

const VISIT = "visit";
/** A shorter absence is none, nanoseconds. */
const AWAY = 300e9;

/** When it was last shown, nanoseconds since the Unix epoch; `null` if that was just now, or never. */
export function lastVisit(now: number, storage: Pick<Storage, "getItem"> = localStorage): number | null {
  const at = Number(storage.getItem(VISIT));
  return Number.isFinite(at) && at > 0 && now - at >= AWAY ? at : null;
}

export const noteVisit = (now: number, storage: Pick<Storage, "setItem"> = localStorage): void => storage.setItem(VISIT, String(now));

export interface Since {
  /** Problems that have opened since then. */
  problems: string;
  /** Writes since then. */
  writes: string;
}

/** What has happened since `at`; `more`: there are writes before those that were read. */
export function since(at: number, incidents: readonly IncidentItem[], writes: readonly AuditItem[], more: boolean): Since {
  const opened = incidents.filter(({ openedUnixNs }) => openedUnixNs > at);
  const open = opened.filter(({ closedUnixNs }) => closedUnixNs === null || closedUnixNs === undefined).length;
  const written = writes.filter(({ timeUnixNs }) => timeUnixNs > at).length;
  const state = open === opened.length ? (open === 1 ? ", still open" : ", all still open") : open ? `, ${open} of them still open` : ", none of them open now";
  return {
    problems: opened.length ? `${counted(opened.length, "problem")} opened${state}` : "no problem opened",
    writes: written ? `${more && written === writes.length ? "more than " : ""}${counted(written, "write")}` : "nothing was written",
  };
}
