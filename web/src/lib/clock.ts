// SPDX-License-Identifier: Apache-2.0
// The controller's clock, from what it sends: this browser's may differ.

let offset = 0;
let now = Date.now();
const listeners = new Set<() => void>();

/** Notes an instant that the controller sent just now. */
export function note(unixNanoseconds: number): void {
  offset = unixNanoseconds / 1e6 - Date.now();
}

/** The controller's time as of the last whole second, nanoseconds. */
export const controllerNow = (): number => (now + offset) * 1e6;

/** By how much this browser's clock is behind the controller's, nanoseconds. */
export const clockDifference = (): number => offset * 1e6;

/** Calls back once a second; the value changes then only, so that all ages on a page change together. */
export function everySecond(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function startClock(): void {
  window.setInterval(() => {
    now = Date.now();
    for (const listener of listeners) listener();
  }, 1000);
}
