// SPDX-License-Identifier: Apache-2.0
// Draws the map: pods as cells, nodes, or nodes with the ports of their links. It runs in a worker.
import { drawCells } from "./cells";
import { drawLines, drawPods, drawShapes } from "./nodes";
import { Picture } from "./Picture";
import { drawHalves, drawPorts } from "./ports";
import { levelOf, type Bundles, type Scene, type Values, type Wanted } from "./scene";
import type { Context } from "./shapes";

export function draw(context: Context, scene: Scene, bundles: Bundles, values: Values, wanted: Wanted): void {
  const { ratio, width, height } = wanted;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineJoin = "round";
  const picture = new Picture(context, scene, values, wanted);
  picture.sites();
  switch (levelOf(wanted.view.scale, scene)) {
    case "cells":
      drawCells(picture, bundles);
      break;
    case "nodes":
      drawPods(picture);
      drawLines(picture);
      drawShapes(picture);
      break;
    case "ports":
      drawPods(picture);
      drawHalves(picture);
      drawShapes(picture);
      drawPorts(picture);
  }
}
