// SPDX-License-Identifier: Apache-2.0
// Draws the map apart from the page, so that the page moves it meanwhile.
import { draw } from "./draw";
import { bundlesOf, type Bundles, type FromWorker, type Scene, type ToWorker, type Values } from "./scene";

let scene: Scene | undefined;
let bundles: Bundles | undefined;
let values: Values | undefined;
const canvas = new OffscreenCanvas(1, 1);

const worker = globalThis as unknown as { onmessage: (event: MessageEvent<ToWorker>) => void; postMessage: (message: FromWorker, transfer: Transferable[]) => void };

worker.onmessage = ({ data }) => {
  if ("scene" in data) {
    scene = data.scene;
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
    worker.postMessage({ bitmap, view }, [bitmap]);
  }
};
