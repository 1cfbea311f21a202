// SPDX-License-Identifier: Apache-2.0
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { MapLayer } from "./types";

const { LayerFeed } = await (async () => {
  vi.stubGlobal("location", { origin: "http://canopy" });
  return import("./map");
})();

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("window", globalThis);
  vi.stubGlobal("document", { visibilityState: "visible", addEventListener: () => undefined, removeEventListener: () => undefined });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

type Answer = Omit<MapLayer, "apiVersion" | "kind" | "layer" | "version"> & { version?: string };
const base64 = (...octets: number[]) => btoa(String.fromCharCode(...octets));

/** A feed that gets these answers, one after the other; what it asked for, and what it passed on. */
function feed(answers: (Answer | Error)[]) {
  const [asked, taken, others]: [(string | undefined)[], number[][], number[]] = [[], [], []];
  const of = new LayerFeed(
    (since) => {
      asked.push(since);
      const next = answers.shift();
      if (!next) return new Promise(() => undefined);
      return next instanceof Error ? Promise.reject(next) : Promise.resolve({ apiVersion: "canopy/v1", kind: "MapLayer", layer: "load", version: "7", ...next });
    },
    "7",
    4,
    (values) => `sum ${values.reduce((sum, value) => sum + value, 0)}`,
    () => others.push(1),
  );
  of.subscribe((values) => taken.push([...values]));
  return { of, asked, taken, others };
}

it("reads all values once, then what has changed, and passes on only that", async () => {
  const { of, asked, taken } = feed([{ revision: "a", values: base64(0, 1, 254, 255) }, { revision: "b", changes: [] }, { revision: "c", changes: [[1, 9], [3, 0]] }, { revision: "d", values: base64(1, 1, 1, 1) }]);
  let renders = 0;
  of.watch(() => (renders += 1));
  const end = of.start();
  await vi.advanceTimersByTimeAsync(6000);
  expect(asked).toEqual([undefined, "a", "b", "c"]);
  expect(taken).toEqual([[0, 1, 254, 255], [0, 9, 254, 0], [1, 1, 1, 1]]);
  expect([of.state().words, renders]).toEqual(["sum 4", 3]);
  // One that comes later gets what is there.
  of.subscribe((values) => taken.push([...values]));
  expect(taken.length).toBe(4);
  end();
});

// Catches values of another topology on this map.
it("takes no values of another map, and calls for that map", async () => {
  const { of, taken, others } = feed([{ revision: "a", values: base64(0, 0, 0, 0) }, { revision: "b", version: "8", changes: [[0, 3]] }]);
  const end = of.start();
  await vi.advanceTimersByTimeAsync(2000);
  expect([taken, others.length]).toEqual([[[0, 0, 0, 0]], 1]);
  end();
});

it("keeps what it has when a read fails, and reads everything then", async () => {
  const { of, asked, taken } = feed([{ revision: "a", values: base64(5, 0, 0, 0) }, new Error("away"), { revision: "z", values: base64(6, 0, 0, 0) }, { revision: "y", values: base64(1) }]);
  const phases: string[] = [];
  of.watch(() => phases.push(`${of.state().phase} ${of.state().words}`));
  const end = of.start();
  await vi.advanceTimersByTimeAsync(6000);
  expect(asked).toEqual([undefined, "a", undefined, "z"]);
  expect(phases).toEqual(["there sum 5", "failed sum 5", "there sum 6", "failed sum 6"]);
  expect(taken.at(-1)).toEqual([6, 0, 0, 0]);
  end();
});
