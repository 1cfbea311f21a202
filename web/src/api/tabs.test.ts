// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, it, vi } from "vitest";
import { held, keep } from "./session";
import { shareSession } from "./tabs";

/** Channels of the other tabs, which the test plays. */
let posted: unknown[] = [];
let receive: (data: unknown) => void = () => undefined;

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", { getItem: (key: string) => kept.get(key) ?? null, setItem: (key: string, value: string) => kept.set(key, value), removeItem: (key: string) => kept.delete(key) });
  posted = [];
  vi.stubGlobal(
    "BroadcastChannel",
    class {
      postMessage = (data: unknown) => void posted.push(data);
      addEventListener = (_: string, listener: (event: { data: unknown }) => void) => (receive = (data) => listener({ data }));
    },
  );
});

const [own, other] = [{ bearer: "b1", by: "alice" }, { bearer: "b2", by: "bob" }];

it("asks once where it has none, and takes one answer", () => {
  shareSession(true);
  expect(posted).toEqual(["wanted"]);
  receive(own);
  receive(other);
  expect(held()).toEqual(own);
  // Once it has ended, the session of another tab, perhaps another user's, does not take its place.
  sessionStorage.removeItem("bearer");
  receive(other);
  expect(held()).toBeNull();
});

it("keeps the session of a code that came before an answer", () => {
  shareSession(true);
  keep(own);
  receive(other);
  expect(held()).toEqual(own);
});

// Catches a tab that becomes another user's because a third one asked, and one with a code that takes an older session instead.
it("keeps its own, passes it on, and does not ask with a code", () => {
  keep(own);
  shareSession(true);
  receive(other);
  receive("wanted");
  expect([held(), posted]).toEqual([own, [own]]);
  sessionStorage.removeItem("bearer");
  receive(other);
  expect(held()).toBeNull();
  posted = [];
  shareSession(false);
  receive(other);
  expect([held(), posted]).toEqual([null, []]);
});
