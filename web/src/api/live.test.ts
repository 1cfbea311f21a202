// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LiveStream } from "./live";

let visibility: "visible" | "hidden" = "visible";
let changed: () => void = () => undefined;
/** One per connection: what ends it. */
let connections: { signal: AbortSignal; fail: () => void }[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  visibility = "visible";
  connections = [];
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", {
    get visibilityState() {
      return visibility;
    },
    addEventListener: (_: string, listener: () => void) => (changed = listener),
  });
  vi.stubGlobal("fetch", (_: string, { signal }: { signal: AbortSignal }) => {
    return new Promise((_resolve, reject) => {
      connections.push({ signal, fail: () => reject(new Error("away")) });
      signal.addEventListener("abort", () => reject(new Error("aborted")));
    });
  });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function begin(): LiveStream {
  const live = new LiveStream(new QueryClient());
  live.start();
  return live;
}

function show(state: "visible" | "hidden"): void {
  visibility = state;
  changed();
}

// Catches a tab that never connects again because it was hidden and shown while it waited to try again.
it("tries again at once when it is shown, whatever it waited for", async () => {
  const live = begin();
  connections[0]?.fail();
  await vi.advanceTimersByTimeAsync(0);
  expect(live.snapshot().phase).toBe("reconnecting");
  show("hidden");
  await vi.advanceTimersByTimeAsync(3000);
  show("visible");
  expect(connections.length).toBe(2);
});

it("closes after ten seconds hidden, and opens when it is shown", async () => {
  const live = begin();
  show("hidden");
  await vi.advanceTimersByTimeAsync(9999);
  expect(connections[0]?.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect([connections[0]?.signal.aborted, live.snapshot().phase]).toEqual([true, "paused"]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(connections.length).toBe(1);
  show("visible");
  expect(connections.length).toBe(2);
});

it("is not opened anew where it was hidden for a moment", async () => {
  begin();
  show("hidden");
  await vi.advanceTimersByTimeAsync(5000);
  show("visible");
  expect(connections.length).toBe(1);
});

it("takes 15 s of silence for the end, and waits longer each time", async () => {
  begin();
  for (const [wait, count] of [[500, 2], [1000, 3], [2000, 4], [5000, 5], [5000, 6]] as const) {
    await vi.advanceTimersByTimeAsync(14_999);
    expect(connections.at(-1)?.signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(connections.at(-1)?.signal.aborted).toBe(true);
    await vi.advanceTimersByTimeAsync(wait - 1);
    expect(connections.length).toBe(count - 1);
    await vi.advanceTimersByTimeAsync(1);
    expect(connections.length).toBe(count);
  }
});
