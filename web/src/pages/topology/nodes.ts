// SPDX-License-Identifier: Apache-2.0
// Nodes and hosts by their shapes, names where there is room, and from farther than their ports a line per link.
import { STATES } from "../../lib/mapLayer";
import { BAD, type Picture } from "./Picture";
import { cross, shape } from "./shapes";

/** Nodes that need someone and are named while all are too near to each other for names. */
const NAMED = 12;
/** More links than these cover each other where all are in the picture. */
const DENSE = 2000;
/** Lines of one path: a path of ten thousands takes seconds, because their crossings are computed. */
const PATH = 128;
const TEXT = 12;

/** The outlines of pods, where there are several. */
export function drawPods(picture: Picture): void {
  const { context, colours, scene } = picture;
  const pods = scene.cells.filter(({ isPod }) => isPod);
  if (pods.length < 2) return;
  context.strokeStyle = colours["--line"];
  context.lineWidth = 1;
  for (const { x, y, width, height } of pods) {
    context.beginPath();
    context.roundRect(picture.px(x), picture.py(y), width * picture.scale, height * picture.scale, 6);
    context.stroke();
  }
}

/** A line per link. Those that need someone are on top; of those that are well, the ones of what is picked have its colour. */
export function drawLines(picture: Picture): void {
  const { context, scene, values, wanted } = picture;
  const isGround = scene.a.length > DENSE && !picture.isNamed();
  picture.underPicked();
  for (let state = 0; state < STATES.length; state += 1) {
    picture.stroke(state, isGround);
    along(picture, scene.a.length, (link) => values.links[link] === state && (state > 0 || picture.hasEnd(link)));
  }
  picture.solid();
  if (wanted.picked < 0) return;
  context.strokeStyle = picture.colours["--accent"];
  context.lineWidth = 1;
  along(picture, scene.a.length, (link) => values.links[link] === 0 && (link === picture.pickedLink() || scene.a[link] === wanted.picked || scene.b[link] === wanted.picked));
}

function along(picture: Picture, count: number, isWanted: (link: number) => boolean): void {
  const { context } = picture;
  let drawn = 0;
  context.beginPath();
  for (let link = 0; link < count; link += 1) {
    if (!isWanted(link)) continue;
    const ends = picture.ends(link);
    if (!ends) continue;
    context.moveTo(ends[0], ends[1]);
    context.lineTo(ends[2], ends[3]);
    drawn += 1;
    if (drawn % PATH === 0) {
      context.stroke();
      context.beginPath();
    }
  }
  context.stroke();
}

/** Nodes and hosts, then names: of all where there is room, else of those that need someone, if they are few. */
export function drawShapes(picture: Picture): void {
  const { context, scene, values, wanted, colours } = picture;
  // Seven units, but on the screen not less than 3 pixels.
  const size = Math.min(14, Math.max(3, 7 * picture.scale));
  const isNamed = picture.isNamed();
  const shown = (from: number, to: number, isWanted: (at: number) => boolean) => Array.from({ length: to - from }, (_, at) => from + at).filter((at) => isWanted(at) && picture.isIn(at, 40));
  const isBad = (at: number) => (values.nodes[at] ?? 0) >= BAD;
  const [hosts, well, bad] = [shown(scene.nodes, scene.x.length, () => true), shown(0, scene.nodes, (at) => !isBad(at)), shown(0, scene.nodes, isBad)];
  // Those that need someone are on top.
  for (const at of [...hosts, ...well, ...bad]) {
    const isHost = at >= scene.nodes;
    const word = isHost ? null : (STATES[values.nodes[at] ?? 1] ?? "pending");
    const [x, y, wide] = [picture.px(scene.x[at] ?? 0), picture.py(scene.y[at] ?? 0), isHost ? Math.min(size, 5) : size];
    context.fillStyle = word ? colours[`--${word}`] : colours["--faint"];
    shape(context, x, y, word, wide);
    if (word === "failed" && size >= 4) cross(context, x, y, size * 0.45, size / 4, colours["--raised"]);
    if (wanted.picked === at) circle(picture, x, y, wide + 6);
    if (isNamed) picture.room.block(x - wide, y - wide, 2 * wide, 2 * wide);
  }
  if (!isNamed && bad.length > NAMED) return;
  picture.font(400, TEXT);
  context.textAlign = "center";
  const first = picture.pickedDevices().filter((at) => isNamed || at < scene.nodes);
  for (const at of [...first, ...bad, ...(isNamed ? [...well, ...hosts] : [])]) name(picture, at, size);
}

/** The name below its node, whole, where there is room. */
function name(picture: Picture, at: number, size: number): void {
  const { context, scene, wanted } = picture;
  const name = scene.names[at] ?? "";
  const [x, y] = [picture.px(scene.x[at] ?? 0), picture.py(scene.y[at] ?? 0)];
  const half = context.measureText(name).width / 2;
  const [left, right] = [wanted.margin[0], wanted.width - wanted.margin[0]];
  const inside = x < left || x > right ? x : Math.min(right - half - 2, Math.max(left + half + 2, x));
  const below = y + size + TEXT + 2;
  if (picture.room.take(inside - half, below - TEXT + 2, 2 * half, TEXT)) picture.text(name, inside, below, at < scene.nodes ? "--text" : "--faint");
}

function circle(picture: Picture, x: number, y: number, size: number): void {
  const { context } = picture;
  context.strokeStyle = picture.colours["--accent"];
  context.lineWidth = 3;
  context.beginPath();
  context.arc(x, y, size, 0, 2 * Math.PI);
  context.stroke();
}
