// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { ChartData } from "../lib/chart";

let visibility: "visible" | "hidden" = "visible";
const changes = new Set<() => void>();
const { ChartFeed, RANGES, timeOf } = await (async () => {
  vi.stubGlobal("location", { origin: "http://canopy" });
  return import("./charts");
})();

beforeEach(() => {
  vi.useFakeTimers();
  visibility = "visible";
  changes.clear();
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", {
    get visibilityState() {
      return visibility;
    },
    addEventListener: (_: string, listener: () => void) => changes.add(listener),
    removeEventListener: (_: string, listener: () => void) => changes.delete(listener),
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function show(state: "visible" | "hidden"): void {
  visibility = state;
  for (const listener of changes) listener();
}

const data = (name: string): ChartData => ({ start: 0, step: 1, series: [{ name, unit: "bytes", points: [[1, 1]] }] });

// Catches a tab in the background that keeps reading, one that never reads again, and one that reads twice as often after it was hidden.
it("reads every two seconds while the tab is visible, and at once when it is shown", async () => {
  let reads = 0;
  const feed = new ChartFeed(() => Promise.resolve((reads += 1, data("queue"))), 2000);
  const end = feed.start();
  await vi.advanceTimersByTimeAsync(4000);
  expect(reads).toBe(3);
  show("hidden");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(reads).toBe(3);
  show("visible");
  await vi.advanceTimersByTimeAsync(0);
  expect(reads).toBe(4);
  show("hidden");
  show("visible");
  show("visible");
  await vi.advanceTimersByTimeAsync(1999);
  expect(reads).toBe(5);
  await vi.advanceTimersByTimeAsync(1);
  expect(reads).toBe(6);
  end();
  await vi.advanceTimersByTimeAsync(60_000);
  show("visible");
  expect([reads, changes.size]).toEqual([6, 0]);
});

// Catches reads that pile up behind a slow controller, and an answer that comes after the page was left.
it("has one read at a time, and takes no answer after its end", async () => {
  const waiting: ((found: ChartData) => void)[] = [];
  const feed = new ChartFeed(() => new Promise((resolve) => waiting.push(resolve)), 2000);
  const taken: ChartData[] = [];
  feed.subscribe((found) => taken.push(found));
  const end = feed.start();
  show("hidden");
  show("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(waiting.length).toBe(1);
  end();
  waiting[0]?.(data("queue"));
  await vi.advanceTimersByTimeAsync(0);
  expect([taken, feed.state().phase]).toEqual([[], "reading"]);
  const again = feed.start();
  expect(waiting.length).toBe(2);
  waiting[1]?.(data("queue"));
  await vi.advanceTimersByTimeAsync(0);
  expect(taken.length).toBe(1);
  again();
});

// Catches a render per sample, a failed read that empties the page, and an object that appears later and stays away.
it("changes its state only if what is shown has other parts", async () => {
  const answers: (ChartData | null | Error)[] = [null, data("queue"), data("queue"), new Error("away"), data("queue")];
  const feed = new ChartFeed(() => {
    const next = answers.shift();
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next ?? null);
  }, 2000);
  const phases: string[] = [];
  feed.watch(() => phases.push(`${feed.state().phase} ${feed.state().names.join()}`));
  const taken: ChartData[] = [];
  const end = feed.start();
  await vi.advanceTimersByTimeAsync(8000);
  expect(phases).toEqual(["nothing ", "there queue", "failed queue", "there queue"]);
  // One that comes later gets what is there.
  feed.subscribe((found) => taken.push(found));
  expect(taken.length).toBe(1);
  end();
});

// Catches a link to a moment that shows another one later, and steps that are no longer kept.
it("what is frozen is read once, of a time that does not move", async () => {
  expect(timeOf(RANGES["5m"], 10_000)).toEqual({ from: 9700, to: 10_000 });
  expect(timeOf(RANGES["1h"], 10_000)).toEqual({ from: 6410, to: 10_000, step: 10 });
  expect(timeOf(RANGES["5m"])).toEqual({ step: 1 });
  let reads = 0;
  const feed = new ChartFeed(() => ((reads += 1) === 1 ? Promise.reject(new Error("away")) : Promise.resolve(data("queue"))), null);
  const end = feed.start();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([reads, feed.state().phase]).toEqual([1, "failed"]);
  // One that failed is read again when the tab is shown; what is there stays.
  show("hidden");
  show("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  show("hidden");
  show("visible");
  await vi.advanceTimersByTimeAsync(60_000);
  expect([reads, feed.state().phase]).toEqual([2, "there"]);
  end();
});
