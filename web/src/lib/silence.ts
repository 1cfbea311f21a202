// SPDX-License-Identifier: Apache-2.0
// What operators know of a problem, in the words of `canopyctl status`, and the commands that write it down.
import type { Problem, SilenceRef, SilenceSpec } from "../api/types";
import { label, quoted } from "./drain";

/** How long something lasts that ends by itself; `time` is how a command has it. */
export const TIMES: readonly { label: string; time: string; seconds: number }[] = [
  { label: "1 hour", time: "1h", seconds: 3600 },
  { label: "4 hours", time: "4h", seconds: 4 * 3600 },
  { label: "24 hours", time: "24h", seconds: 24 * 3600 },
  { label: "7 days", time: "7d", seconds: 7 * 24 * 3600 },
];

/** Objects whose problems can be silenced. */
export type SilencedKind = "node" | "link" | "group" | "host";
export type Silenced = { problem: Problem } | { kind: SilencedKind; name: string };

const target = (of: Silenced): [kind: string, name: string] => ("problem" in of ? ["problem", of.problem.id] : [of.kind, of.name]);

/** Name of a silence, as canopyctl makes it. */
export function silenceName(of: Silenced): string {
  const [kind, name] = target(of);
  return `${kind}-${label(name)}`;
}

/** What it is about, as the API has it. */
export const silenceSpec = (of: Silenced): Record<string, string> => Object.fromEntries([target(of)]);

export function silenceCommand(of: Silenced, note: string, time: string): string {
  const [kind, name] = target(of);
  const what = kind === "problem" ? `ack ${name}` : `silence ${kind} ${quoted(name)}`;
  return `canopyctl ${what} --note ${quoted(note || "NOTE")}${time && ` --for ${time}`}`;
}

/** Whether a silence is about this object; a link is named whole or by one of its ends. */
export function covers(spec: SilenceSpec, kind: SilencedKind, name: string): boolean {
  const wanted = spec[kind];
  return wanted === name || (kind === "link" && typeof wanted === "string" && name.split("--").includes(wanted));
}

/** RFC 3339 in whole seconds, so that it is not before what was wanted. */
export function endsAt(nowMs: number, seconds: number): string {
  return new Date(Math.ceil(nowMs / 1000 + seconds) * 1000).toISOString().replace(".000Z", "Z");
}

/** "alice: optics ordered". */
export function known(silence: SilenceRef): string {
  return `${silence.by?.name || "an operator"}: ${silence.note}`;
}
