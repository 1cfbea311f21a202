// SPDX-License-Identifier: Apache-2.0
// A confirmed commit in the words of `canopyctl commit status`.
import type { Commit } from "../api/types";
import { age, counted } from "./format";

/** Seconds until a deadline matter: 4 min 12 s. */
export function left(nanoseconds: number): string {
  const seconds = Math.max(0, Math.ceil(nanoseconds / 1e9));
  if (seconds >= 3600 || seconds < 60 || seconds % 60 === 0) return age(seconds * 1e9);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** What a rollback does, or did, to one resource: "group/g1 is put back". */
export const rollback = ({ kind, name, rollback: action }: Commit["changes"][number]): string => `${object(kind, name)} is ${action === "delete" ? "deleted" : "put back"}`;

/** A resource as `canopyctl` writes it: "group/g1". */
export const object = (kind: string, name: string): string => `${kind.toLowerCase()}/${name}`;

/** How a commit ended. */
export function ending(commit: Commit): string {
  const not = commit.refused.length ? `; ${counted(commit.refused.length, "resource was", "resources were")} not put back` : "";
  switch (commit.phase) {
    case "Confirmed":
      return "was confirmed: its changes stay";
    case "Cancelled":
      return `was cancelled: its changes are taken back${not}`;
    case "Expired":
      return `was not confirmed in time: its changes are taken back${not}`;
    case "Pending":
      return "waits to be confirmed";
  }
}

/** A principal as `canopyctl` names it. */
export function principal(
  of: { kind: string; name?: string; uid?: number | null; via?: string | null; token?: string | null; account?: string | null } | null | undefined,
): string {
  if (!of) return "unknown";
  if (of.kind === "controller") return "the controller";
  const uid = of.uid === null || of.uid === undefined ? undefined : `uid ${of.uid}`;
  const user = of.account ?? uid;
  if (of.kind === "host") return `${user ? `${user} of ` : ""}host ${of.name ?? ""}`;
  const name = of.name || (uid ?? "an operator");
  if (of.token) return `${name} (token ${of.token})`;
  return of.via === "ui" ? `${name} (UI)` : name;
}
