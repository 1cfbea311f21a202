// SPDX-License-Identifier: Apache-2.0
// Lays the map out and draws it apart from the page, which stays responsive and moves the last picture meanwhile.
import { mapLayout, type MapLayout } from "../../lib/map";
import { unpacked } from "../../lib/mapPacked";
import { draw } from "./draw";
import { packedPlaces, type FromWorker, type ToWorker } from "./messages";
import { bundlesOf, sceneOf, type Bundles, type Scene, type Values } from "./scene";

/** Of the last map: a later one moves nothing as long as the worker runs, which is as long as the tab is not loaded again. */
let layout: MapLayout | undefined;
let scene: Scene | undefined;
let bundles: Bundles | undefined;
let values: Values | undefined;
const canvas = new OffscreenCanvas(1, 1);

const worker = globalThis as unknown as { onmessage: (event: MessageEvent<ToWorker>) => void; postMessage: (message: FromWorker, transfer: Transferable[]) => void };

worker.onmessage = ({ data }) => {
  if ("map" in data) {
    const map = unpacked(data.map);
    layout = mapLayout(map, layout);
    const places = packedPlaces(layout);
    worker.postMessage({ version: map.version, places }, [places.x.buffer, places.y.buffer, places.cells.buffer]);
    scene = sceneOf(map, layout);
    bundles = bundlesOf(scene);
    // Of another map.
    values = undefined;
  } else if ("values" in data) {
    values = data.values;
  } else {
    const { view, width, height, ratio } = data.draw;
    [canvas.width, canvas.height] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    const context = canvas.getContext("2d");
    if (context && scene && bundles && values) draw(context, scene, bundles, values, data.draw);
    const bitmap = canvas.transferToImageBitmap();
    worker.postMessage({ bitmap, view, viewer: data.viewer }, [bitmap]);
  }
};
