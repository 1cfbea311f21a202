// SPDX-License-Identifier: Apache-2.0
// Writes what a sample has into the lines of a tree that is drawn: width, rate, the path that is waited for, data that moves.
import { rate } from "../../lib/format";
import type { GroupFlow } from "../../lib/groupFlow";
import { widthOf, type Edge } from "../../lib/tree";
import type { Motion } from "./motion";

/** The least width of the accent line. */
const WAITED = 3;

/** `edges` are those of the lines, by `data-edge`, `data-beads` and `data-rate`. */
export function drawFlow(svg: SVGSVGElement, edges: readonly Edge[], flow: GroupFlow, motion: Motion): void {
  const path = new Set(flow.path);
  const rates = edges.map(({ addresses }) => flow.rate(addresses));
  const of = (name: string) => svg.querySelectorAll<SVGElement>(`[data-${name}]`);
  for (const line of of("edge")) {
    const at = Number(line.dataset["edge"]);
    const isWaitedFor = edges[at]?.addresses.some((address) => path.has(address)) ?? false;
    const width = widthOf(rates[at] ?? Number.NaN);
    line.classList.toggle("waited", isWaitedFor);
    line.style.strokeWidth = String(isWaitedFor ? Math.max(WAITED, width) : width);
  }
  for (const beads of of("beads")) {
    const bits = rates[Number(beads.dataset["beads"])] ?? Number.NaN;
    motion.set(beads, bits > 0 ? widthOf(bits) : null);
  }
  for (const text of of("rate")) {
    const bits = rates[Number(text.dataset["rate"])];
    text.textContent = bits ? rate(bits) : "";
  }
}
