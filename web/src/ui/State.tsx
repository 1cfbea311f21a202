// SPDX-License-Identifier: Apache-2.0
import type { ReactNode } from "react";
import type { State } from "../lib/state";

/** A state by shape: disc, ring, triangle, square with a cross. */
export function Shape({ state }: { state: State }) {
  return (
    <svg className={`shape ${state}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      {state === "ok" && <circle cx="6" cy="6" r="5" fill="currentColor" />}
      {state === "pending" && <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="2" strokeDasharray="3 2" />}
      {state === "degraded" && <path d="M6 1 L11.5 11 H0.5 Z" fill="currentColor" />}
      {state === "failed" && <path d="M1 1h10v10H1z M3.5 3.5l5 5 M8.5 3.5l-5 5" fill="currentColor" stroke="var(--ground)" strokeWidth="1.5" />}
    </svg>
  );
}

/** A state by colour, shape and word. */
export function StateWord({ state, children }: { state: State; children: ReactNode }) {
  return (
    <span className={`state ${state}`}>
      <Shape state={state} />
      {children}
    </span>
  );
}
