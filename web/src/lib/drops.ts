// SPDX-License-Identifier: Apache-2.0
// Drops of a node by reason, with how many there are per second.
import type { NodeSample } from "../api/types";
import { rise } from "./counter";

interface DropRow {
  name: string;
  port: string | null;
  packets: number;
  /** `null` before a second sample. */
  perSecond: number | null;
}

type Sample = Pick<NodeSample, "drops" | "timeUnixNs">;

const keyOf = ({ reason, port }: NodeSample["drops"][number]): string => `${reason} ${port ?? ""}`;

/** The drops of a sample, most packets first, an order that stays while they are read; rates are since another one, of the node's own clock. */
export function dropRows(now: Sample, before: Sample | undefined): DropRow[] {
  const earlier = new Map(before?.drops.map((drop) => [keyOf(drop), drop.packets]));
  const rows = now.drops.map((drop): DropRow => {
    const perSecond = before?.timeUnixNs && now.timeUnixNs ? rise({ at: before.timeUnixNs / 1e9, total: earlier.get(keyOf(drop)) ?? 0 }, { at: now.timeUnixNs / 1e9, total: drop.packets }) : null;
    return { name: drop.name, port: drop.port ?? null, packets: drop.packets, perSecond };
  });
  return rows.sort((a, b) => b.packets - a.packets);
}
