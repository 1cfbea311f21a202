// SPDX-License-Identifier: Apache-2.0
// What has no stream is read again and again while the tab is visible.

/**
 * Reads until the returned function is called, one read at a time; a hidden tab reads nothing, and one that is shown again at once. `once` must not
 * fail, and take no answer once `isCurrent` is false. `every`: milliseconds from the end of a read to the next; `null`: only a tab that is shown
 * again reads again. `isWanted`: whether there is anything to read.
 */
export function repeat(once: (isCurrent: () => boolean) => Promise<void>, every: number | null, isWanted: () => boolean = () => true): () => void {
  let timer: number | undefined;
  let hasEnded = false;
  let isReading = false;
  const again = async () => {
    window.clearTimeout(timer);
    if (document.visibilityState === "hidden" || isReading || !isWanted()) return;
    isReading = true;
    await once(() => !hasEnded);
    isReading = false;
    if (!hasEnded && every !== null) timer = window.setTimeout(() => void again(), every);
  };
  const shown = () => void again();
  document.addEventListener("visibilitychange", shown);
  void again();
  return () => {
    hasEnded = true;
    window.clearTimeout(timer);
    document.removeEventListener("visibilitychange", shown);
  };
}
