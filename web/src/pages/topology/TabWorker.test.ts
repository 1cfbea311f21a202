// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { FabricMap } from "../../api/types";
import { mapLayout } from "../../lib/map";
import { unpacked } from "../../lib/mapPacked";
import type { Places } from "../../lib/mapPlaces";
import { packedPlaces, type FromWorker, type ToWorker } from "./messages";
import { TabWorker, type Viewer } from "./TabWorker";
import type { Wanted } from "./scene";

const mapOf = (version: string, names: string[]): FabricMap => ({ apiVersion: "canopy/v1", kind: "Map", version, nodes: names.map((name, at) => ({ name, id: at + 1, tier: 1 })), hosts: [], links: [] });

/** A worker that keeps what it is sent, and answers when it is made to. */
class Fake {
  readonly sent: ToWorker[] = [];
  hasEnded = false;
  onmessage: (event: { data: FromWorker }) => void = () => undefined;
  onerror: (event: { message: string | undefined }) => void = () => undefined;
  postMessage = (message: ToWorker) => void this.sent.push(message);
  terminate = () => void (this.hasEnded = true);

  layOut(at: number): void {
    const message = this.sent[at];
    if (!message || !("map" in message)) throw new Error(`message ${at} is no map`);
    const map = unpacked(message.map);
    this.onmessage({ data: { version: map.version, places: packedPlaces(mapLayout(map)) } });
  }

  picture(viewer: number): { isClosed: boolean } {
    const bitmap = { isClosed: false, close: () => void (bitmap.isClosed = true) };
    this.onmessage({ data: { bitmap: bitmap as unknown as ImageBitmap, view: { x: 0, y: 0, scale: 1 }, viewer } });
    return bitmap;
  }
}

class Seen implements Viewer {
  places: Places[] = [];
  pictures = 0;
  reasons: string[] = [];
  laidOut = (places: Places) => void this.places.push(places);
  drawn = () => void (this.pictures += 1);
  failed = (reason: string) => void this.reasons.push(reason);
}

function made(): { tab: TabWorker; workers: Fake[] } {
  const workers: Fake[] = [];
  const start = () => {
    const fake = new Fake();
    workers.push(fake);
    return fake as unknown as Worker;
  };
  return { tab: new TabWorker(start), workers };
}

it("gives a page that is opened again the places of the same map, from the same worker, without sending it again", () => {
  const { tab, workers } = made();
  const [first, second, map] = [new Seen(), new Seen(), mapOf("1", ["a", "b"])];
  tab.open(first);
  tab.show(map);
  expect(first.places).toEqual([]);
  workers[0]?.layOut(0);
  const { bounds, cells, step, x, y } = mapLayout(map);
  expect(first.places).toEqual([{ bounds, step, x, y, cells: cells.map((cell) => ({ x: cell.x, y: cell.y, width: cell.width, height: cell.height })) }]);
  tab.close(first);
  tab.open(second);
  tab.show({ ...map });
  expect(second.places).toEqual(first.places);
  expect([workers.length, workers[0]?.sent.length]).toEqual([1, 1]);
  // Another map is laid out by the worker that knows the places of this one.
  tab.show(mapOf("2", ["a", "b", "c"]));
  expect([workers.length, workers[0]?.sent.length, first.places.length, second.places.length]).toEqual([1, 2, 1, 1]);
});

// Catches places of a map that is not shown any more under the names of the one that is.
it("gives no places of a map that another one has replaced meanwhile", () => {
  const { tab, workers } = made();
  const seen = new Seen();
  tab.open(seen);
  tab.show(mapOf("1", ["a"]));
  tab.show(mapOf("2", ["a", "b", "c"]));
  workers[0]?.layOut(0);
  expect(seen.places).toEqual([]);
  workers[0]?.layOut(1);
  expect(seen.places.map(({ x }) => x.length)).toEqual([3]);
});

it("gives places that come after the page was left to the page that is open then", () => {
  const { tab, workers } = made();
  const [first, second, map] = [new Seen(), new Seen(), mapOf("1", ["a"])];
  tab.open(first);
  tab.show(map);
  tab.close(first);
  tab.open(second);
  tab.show(map);
  workers[0]?.layOut(0);
  expect([first.places.length, second.places.length]).toEqual([0, 1]);
});

// Catches bitmaps that stay in memory, and a picture of another page's view.
it("closes pictures of a page that was left", () => {
  const { tab, workers } = made();
  const [first, second] = [new Seen(), new Seen()];
  tab.open(first);
  tab.show(mapOf("1", ["a"]));
  tab.draw({} as Wanted);
  tab.close(first);
  expect(workers[0]?.picture(1).isClosed).toBe(true);
  tab.open(second);
  tab.draw({} as Wanted);
  expect([workers[0]?.picture(1).isClosed, workers[0]?.picture(2).isClosed]).toEqual([true, false]);
  expect([first.pictures, second.pictures]).toEqual([0, 1]);
});

it("reports why there will be no map, and starts another worker for the next one", () => {
  const { tab, workers } = made();
  const seen = new Seen();
  tab.open(seen);
  tab.show(mapOf("1", ["a"]));
  workers[0]?.onerror({ message: undefined });
  expect([seen.reasons, workers[0]?.hasEnded]).toEqual([["its program cannot be read"], true]);
  tab.show(mapOf("1", ["a"]));
  workers[1]?.layOut(0);
  expect(seen.places.length).toBe(1);
});
