// SPDX-License-Identifier: Apache-2.0
// What operators know of a problem, in the words of `canopyctl status`, and the commands that write it down.
import type { Problem, SilenceRef } from "../api/types";
import { quoted } from "./drain";

/** How long something lasts that ends by itself; `time` is how a command has it. */
export const TIMES: readonly { label: string; time: string; seconds: number }[] = [
  { label: "1 hour", time: "1h", seconds: 3600 },
  { label: "4 hours", time: "4h", seconds: 4 * 3600 },
  { label: "24 hours", time: "24h", seconds: 24 * 3600 },
  { label: "7 days", time: "7d", seconds: 7 * 24 * 3600 },
];

/** Name of the acknowledgement of a problem, as canopyctl makes it. */
export const ackName = (problem: Problem): string => `problem-${problem.id}`;

export function ackCommand(problem: Problem, note: string, time: string): string {
  return `canopyctl ack ${problem.id} --note ${quoted(note || "NOTE")}${time && ` --for ${time}`}`;
}

/** RFC 3339 in whole seconds, so that it is not before what was wanted. */
export function endsAt(nowMs: number, seconds: number): string {
  return new Date(Math.ceil(nowMs / 1000 + seconds) * 1000).toISOString().replace(".000Z", "Z");
}

/** "alice: optics ordered". */
export function known(silence: SilenceRef): string {
  return `${silence.by?.name || "an operator"}: ${silence.note}`;
}
