// SPDX-License-Identifier: Apache-2.0
// From far: a pod is a cell with the worst of its nodes and links, and the links between two cells are one line.
import { STATES } from "../../lib/mapLayer";
import type { State } from "../../lib/state";
import { BAD, type Picture } from "./Picture";
import type { Bundles } from "./scene";
import { cross, shape } from "./shapes";

/** Cells, the lines between them, and what is picked. */
export function drawCells(picture: Picture, bundles: Bundles): void {
  const { context, scene, colours } = picture;
  const ofCells = cellStates(picture);
  const states = new Uint8Array(bundles.links.length);
  bundles.of.forEach((bundle, link) => {
    if (bundle >= 0) states[bundle] = Math.max(states[bundle] ?? 0, needs(picture, picture.values.links[link] ?? 0));
  });
  const middle = (at: number): [number, number] => {
    const { x = 0, y = 0, width = 0, height = 0 } = scene.cells[at] ?? {};
    return [picture.px(x + width / 2), picture.py(y + height / 2)];
  };
  for (let state = 0; state < STATES.length; state += 1) {
    picture.stroke(state, true);
    for (let at = 0; at < states.length; at += 1) {
      if (states[at] !== state) continue;
      context.lineWidth = (state >= BAD ? 1.5 : 0.75) + Math.log2(bundles.links[at] ?? 1) / 4;
      context.beginPath();
      context.moveTo(...middle(bundles.a[at] ?? 0));
      context.lineTo(...middle(bundles.b[at] ?? 0));
      context.stroke();
    }
  }
  picture.solid();
  const picked = picture.pickedDevices();
  const pickedCells = new Set(picked.map((at) => scene.cellOf[nodeOf(picture, at)]));
  scene.cells.forEach(({ x, y, width, height, name, nodes }, at) => {
    const [left, top, wide, high] = [picture.px(x), picture.py(y), Math.max(3, width * picture.scale - 2), Math.max(3, height * picture.scale - 2)];
    if (left > picture.wanted.width || top > picture.wanted.height || left + wide < 0 || top + high < 0) return;
    const { state, badNodes, badLinks } = ofCells[at] ?? { state: 0, badNodes: 0, badLinks: 0 };
    const word = STATES[state] ?? "ok";
    context.beginPath();
    context.roundRect(left, top, wide, high, Math.min(6, wide / 4));
    context.fillStyle = colours["--raised"];
    context.fill();
    context.fillStyle = colours[`--${word}-ground`];
    context.fill();
    context.strokeStyle = colours[`--${word}`];
    context.lineWidth = state >= BAD ? 2 : 1;
    context.stroke();
    if (pickedCells.has(at)) ring(picture, left - 3, top - 3, wide + 6, high + 6);
    inCell(picture, { left, top, wide, high }, word, [[name, `${nodes} nodes`, needing(badNodes, badLinks)], [name, needing(badNodes, badLinks) || `${nodes} nodes`], [name], [beginning(name)], [`${nodes} nodes`], [String(nodes)], []]);
  });
  for (const at of picked) dot(picture, at, 3, "--accent");
}

/** Of each cell: the worst of its nodes and of the links within it, and how many of them are degraded or failed. */
function cellStates(picture: Picture): { state: number; badNodes: number; badLinks: number }[] {
  const { scene, values } = picture;
  const states = scene.cells.map(() => ({ state: 0, badNodes: 0, badLinks: 0 }));
  values.nodes.forEach((state, at) => {
    const cell = states[scene.cellOf[at] ?? 0];
    if (!cell) return;
    cell.state = Math.max(cell.state, state);
    if (state >= BAD) cell.badNodes += 1;
  });
  // Of links between two cells, the line has the state.
  values.links.forEach((value, at) => {
    const state = needs(picture, value);
    const [a = 0, b = 0] = [scene.a[at], scene.b[at]];
    const of = scene.cellOf[Math.min(a, b)];
    const cell = of === undefined || (a < scene.nodes && b < scene.nodes && of !== scene.cellOf[Math.max(a, b)]) ? undefined : states[of];
    if (!cell || state === 0) return;
    cell.state = Math.max(cell.state, state);
    if (state >= BAD) cell.badLinks += 1;
  });
  return states;
}

/** The state as far as it counts for a cell: a link that is not measured is none that needs someone. */
function needs(picture: Picture, state: number): number {
  return picture.values.isMeasured && state < BAD ? 0 : state;
}

/** The node itself, or that of a host. */
function nodeOf(picture: Picture, at: number): number {
  const { scene } = picture;
  if (at < scene.nodes) return at;
  const link = scene.a.findIndex((a, index) => a === at || scene.b[index] === at);
  return (scene.a[link] === at ? scene.b[link] : scene.a[link]) ?? 0;
}

/** A shape and the first lines that fit into a cell. */
function inCell(picture: Picture, { left, top, wide, high }: { left: number; top: number; wide: number; high: number }, word: State, choices: string[][]): void {
  const { context, colours } = picture;
  picture.font(400, 11);
  context.textAlign = "center";
  const size = Math.min(6, Math.min(wide, high) / 4);
  // One line beside the shape, where there is no room below it.
  const flat = choices.filter((of) => of.length === 1).flat().find((line) => context.measureText(line).width + 2 * size + 12 <= wide);
  if (flat !== undefined && high < 14 + 2 * size + 8 && high >= 14) {
    const long = context.measureText(flat).width;
    const [x, y] = [left + (wide - long - 2 * size - 6) / 2 + size, top + high / 2];
    context.fillStyle = colours[`--${word}`];
    shape(context, x, y, word, size);
    if (word === "failed" && size >= 4) cross(context, x, y, size * 0.45, size / 4, colours["--raised"]);
    context.textAlign = "left";
    context.fillStyle = colours["--text"];
    context.fillText(flat, x + size + 6, y + 4);
    return;
  }
  for (const all of choices) {
    const lines = all.filter((line) => line);
    const needed = 14 * lines.length + 2 * size + 8;
    if (lines.length && (high < needed || lines.some((line) => context.measureText(line).width > wide - 8))) continue;
    const [x, y] = [left + wide / 2, top + (high - needed) / 2 + size + 4];
    context.fillStyle = colours[`--${word}`];
    shape(context, x, lines.length ? y : top + high / 2, word, size);
    if (word === "failed" && size >= 4) cross(context, x, lines.length ? y : top + high / 2, size * 0.45, size / 4, colours["--raised"]);
    lines.forEach((line, at) => {
      context.fillStyle = colours["--text"];
      context.fillText(line, x, y + size + 14 * (at + 1) - 2);
    });
    return;
  }
}

function dot(picture: Picture, at: number, size: number, token: "--accent"): void {
  picture.context.fillStyle = picture.colours[token];
  shape(picture.context, picture.px(picture.scene.x[at] ?? 0), picture.py(picture.scene.y[at] ?? 0), "ok", size);
}

function ring(picture: Picture, x: number, y: number, width: number, height: number): void {
  const { context } = picture;
  context.strokeStyle = picture.colours["--accent"];
  context.lineWidth = 3;
  context.beginPath();
  context.roundRect(x, y, width, height, 8);
  context.stroke();
}

/** "leaf1 …" of "leaf1 … leaf64". */
const beginning = (name: string): string => name.replace(/ … .*$/, " …");

/** What is degraded or failed in a cell: "2 nodes, 1 link bad". */
function needing(nodes: number, links: number): string {
  const parts = [nodes && `${nodes} node${nodes === 1 ? "" : "s"}`, links && `${links} link${links === 1 ? "" : "s"}`].filter(Boolean);
  return parts.length ? `${parts.join(", ")} bad` : "";
}
