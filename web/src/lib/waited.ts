// SPDX-License-Identifier: Apache-2.0
// What the source of a group waits for, as parts of a strip, and as a sentence that begins with that of `canopyctl top group`.
import type { WaitedFor } from "../api/types";
import { count } from "./format";

/** A receiver with a share that is smaller, parts per million, is one of "all others". */
const SMALL = 50_000;
/** Receivers that a sentence names. */
const IN_SENTENCE = 3;

/** Receivers that have a part of their own. */
const NAMED = 6;
const WHOLE = 1_000_000;

export interface Part {
  label: string;
  /** Parts per million. */
  ppm: number;
  kind: "receiver" | "rest" | "unknown";
}

/** The parts in order; those of zero are left out. */
export function parts({ receivers, unknownPpm, psns }: WaitedFor): Part[] {
  if (psns === 0) return [];
  const named = receivers.slice(0, NAMED).map((r): Part => ({ label: r.host, ppm: r.sharePpm, kind: "receiver" }));
  const sum = named.reduce((all, part) => all + part.ppm, 0);
  // Each share was rounded by itself.
  const rest = WHOLE - sum - unknownPpm;
  const others: Part = { label: "other receivers", ppm: rest > receivers.length ? rest : 0, kind: "rest" };
  const unknown: Part = { label: "not known", ppm: unknownPpm, kind: "unknown" };
  return [...named, others, unknown].filter((part) => part.ppm > 0);
}

export const percent = (ppm: number): string => `${(ppm / 10_000).toFixed(1)} %`;

/** How long data waits for an ACK. */
export function wait(ns: number | null | undefined): string {
  if (ns === null || ns === undefined) return "–";
  const ms = ns / 1e6;
  return ms < 10 ? `${ms.toFixed(2)} ms` : `${ms.toFixed(0)} ms`;
}

/** Below which share all receivers from `from` on are; empty if there is none, or parts are not known. The list has the largest share first. */
function allBelow({ receivers, left, unknownPpm }: WaitedFor, from: number): string {
  if (unknownPpm > 0 || (receivers.length <= from && left === 0)) return "";
  // Those that are not in the list have no larger share than the last one that is.
  const most = (receivers[from] ?? receivers.at(-1))?.sharePpm ?? 0;
  const below = Math.floor(most / 10_000) + 1;
  const one = receivers.length + left - from === 1;
  return most === 0 ? (one ? "not for the other one" : "for no other") : `${one ? "the other one" : "all others"} < ${below} %`;
}

/** What the source waits for. `over` names a port on the way to the first receiver that is above a threshold, if there is one. */
export function sentence(of: WaitedFor, over: (host: string) => string = () => ""): string {
  const { receivers, psns, coversNs } = of;
  const first = receivers[0];
  if (!first) return "No receiver gets data.";
  if (psns === 0) return "Nothing was acknowledged to the source in the last seconds.";
  const covers = `${(coversNs / 1e9).toFixed(1)} s`;
  const others = receivers.slice(1, IN_SENTENCE).filter(({ sharePpm }) => sharePpm >= SMALL);
  const also = [...others.map(({ host, sharePpm }) => `${host} ${percent(sharePpm)}`), allBelow(of, 1 + others.length), over(first.host)].filter(Boolean);
  return `The source waited for ${first.host} behind ${first.node} most: ${percent(first.sharePpm)} of ${count(psns)} PSNs in ${covers}; ACKs came after ${wait(first.waitNs)}${also.map((one) => `; ${one}`).join("")}.`;
}
