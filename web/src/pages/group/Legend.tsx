// SPDX-License-Identifier: Apache-2.0
// What the lines of a tree mean.
import { rate } from "../../lib/format";
import { widthOf } from "../../lib/tree";

const RATES = [1e6, 1e9, 1e11];
const LENGTH = 28;

export function Legend({ hasStrips }: { hasStrips: boolean }) {
  return (
    <ul className="legend plain" aria-label="What the lines mean">
      {RATES.map((bits) => (
        <Item key={bits} width={widthOf(bits)}>{bits === RATES[0] ? `up to ${rate(bits)}` : rate(bits)}</Item>
      ))}
      <Item width={3} className="waited">the headend waits for it</Item>
      <Item width={1.5} dash="2 4">not confirmed yet</Item>
      <Item width={1.5} dash="7 4">degraded or failed</Item>
      {hasStrips && <li>{"ready / all: receivers of an edge that nothing is known against"}</li>}
    </ul>
  );
}

function Item({ width, dash, className = "", children }: { width: number; dash?: string; className?: string; children: string }) {
  return (
    <li>
      <svg width={LENGTH} height="12" viewBox={`0 0 ${LENGTH} 12`} aria-hidden="true">
        <path className={`edge ${className}`} d={`M0 6 H${LENGTH}`} strokeWidth={width} strokeDasharray={dash} />
      </svg>{" "}
      {children}
    </li>
  );
}
