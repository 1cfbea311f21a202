// SPDX-License-Identifier: Apache-2.0
// What the source of a group waits for, as parts of a strip: the same sentences as `canopyctl top group`.
import type { WaitedFor } from "../api/types";
import { count } from "./format";

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

export function sentence({ receivers, psns, coversNs }: WaitedFor): string {
  const first = receivers[0];
  if (!first) return "No receiver gets data.";
  if (psns === 0) return "Nothing was acknowledged to the source in the last seconds.";
  const covers = `${(coversNs / 1e9).toFixed(1)} s`;
  return `The source waited for ${first.host} behind ${first.node} most: ${percent(first.sharePpm)} of ${count(psns)} PSNs in ${covers}; ACKs came after ${wait(first.waitNs)}.`;
}
