// SPDX-License-Identifier: Apache-2.0
import { QueryClient } from "@tanstack/react-query";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LiveStream } from "./live";
import { begin as signIn, end as signOut } from "./session";

let visibility: "visible" | "hidden" = "visible";
let changed: () => void = () => undefined;
/** One per connection: what ends it. */
let connections: { signal: AbortSignal; fail: () => void; refuse: () => void; bearer: string | undefined }[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  visibility = "visible";
  connections = [];
  const kept = new Map<string, string>([["bearer", "b1"], ["signedInAs", "alice"]]);
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", {
    get visibilityState() {
      return visibility;
    },
    addEventListener: (_: string, listener: () => void) => (changed = listener),
  });
  vi.stubGlobal("fetch", (_: string, { signal, headers }: { signal: AbortSignal; headers: Record<string, string> }) => {
    return new Promise((resolve, reject) => {
      connections.push({ signal, fail: () => reject(new Error("away")), refuse: () => resolve({ status: 401, ok: false }), bearer: headers["Authorization"] });
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

// Catches a stream without the bearer, one that asks again and again without a session, and one that stays closed in the next session. The first
// test of the file: streams of those before would follow the session too.
it("is open as long as there is a session", async () => {
  const live = begin();
  expect(connections[0]?.bearer).toBe("Bearer b1");
  connections[0]?.refuse();
  await vi.advanceTimersByTimeAsync(60_000);
  expect([connections.length, live.snapshot().phase]).toEqual([1, "paused"]);
  show("hidden");
  show("visible");
  expect(connections.length).toBe(1);
  signIn({ bearer: "b2", by: { kind: "operator" }, expiresInSeconds: 1 });
  expect([connections.length, connections[1]?.bearer]).toEqual([2, "Bearer b2"]);
  signOut();
  expect([connections[1]?.signal.aborted, live.snapshot().phase]).toEqual([true, "paused"]);
});

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
