// SPDX-License-Identifier: Apache-2.0

/** Runs once the page is at rest; where the browser does not know when that is, a moment later. */
export function whenIdle(run: () => void): void {
  if ("requestIdleCallback" in window) window.requestIdleCallback(run);
  else setTimeout(run, 200);
}
