// SPDX-License-Identifier: Apache-2.0
// The tab's worker of the map, which is one as long as the tab is not loaded again: it knows where everything was, so that a later map moves nothing, also
// on a page that is opened again.
import type { FabricMap } from "../../api/types";
import { buffersOf, packed } from "../../lib/mapPacked";
import type { Places } from "../../lib/mapPlaces";
import { placesOf, type FromWorker, type ToWorker } from "./messages";
import type { Values, View, Wanted } from "./scene";

/** The drawing on the page that is open. */
export interface Viewer {
  /** The places of the map that was shown last. */
  laidOut: (places: Places) => void;
  drawn: (bitmap: ImageBitmap, view: View) => void;
  /** The worker has ended; nothing more will come. */
  failed: (reason: string) => void;
}

export class TabWorker {
  private worker: Worker | undefined;
  private viewer: Viewer | undefined;
  /** Pictures for a viewer that has gone are of another number. */
  private number = 0;
  /** What the worker was given last, and its places once they are there. */
  private version: string | undefined;
  private places: Places | undefined;

  constructor(private readonly start: () => Worker) {}

  open(viewer: Viewer): void {
    this.viewer = viewer;
    this.number += 1;
  }

  close(viewer: Viewer): void {
    if (this.viewer === viewer) this.viewer = undefined;
  }

  /** Has the map laid out, if it is not the one that the worker has. */
  show(map: FabricMap): void {
    if (this.worker && this.version === map.version) {
      if (this.places) this.viewer?.laidOut(this.places);
      return;
    }
    [this.version, this.places] = [map.version, undefined];
    const message = packed(map);
    this.worker ??= this.started();
    this.worker.postMessage({ map: message } satisfies ToWorker, buffersOf(message) as ArrayBuffer[]);
  }

  values(values: Values): void {
    this.worker?.postMessage({ values } satisfies ToWorker);
  }

  draw(wanted: Wanted): void {
    this.worker?.postMessage({ draw: wanted, viewer: this.number } satisfies ToWorker);
  }

  private started(): Worker {
    const worker = this.start();
    worker.onmessage = (event: MessageEvent<FromWorker>) => this.take(event.data);
    // One whose program cannot be read has no message.
    worker.onerror = ({ message }) => this.fail(message || "its program cannot be read");
    return worker;
  }

  private take(message: FromWorker): void {
    if ("bitmap" in message) {
      if (this.viewer && message.viewer === this.number) this.viewer.drawn(message.bitmap, message.view);
      else message.bitmap.close();
    } else if (message.version === this.version) {
      this.places = placesOf(message.places);
      this.viewer?.laidOut(this.places);
    }
  }

  private fail(reason: string): void {
    this.worker?.terminate();
    this.worker = this.version = this.places = undefined;
    this.viewer?.failed(reason);
  }
}
