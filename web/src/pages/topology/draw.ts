// SPDX-License-Identifier: Apache-2.0
// Draws the map: pods as cells, nodes, or nodes with the ports of their links. It runs in a worker.
import { STATES } from "../../lib/mapLayer";
import type { State } from "../../lib/state";
import { Room } from "./labels";
import { levelOf, type Bundles, type Colours, type Scene, type Values, type Wanted } from "./scene";
import { cross, shape, type Context } from "./shapes";

/** Nodes that need someone and are named while all are too near to each other for names. */
const NAMED = 12;
/** Pixels between nodes from which on there is room for their names. */
const NAMES = 44;
/** More links than these cover each other where all are in the picture. */
const DENSE = 2000;
/** Lines of one path: a path of ten thousands takes seconds, because their crossings are computed. */
const PATH = 128;
const TEXT = 12;
const BAD = 2;

export function draw(context: Context, scene: Scene, bundles: Bundles, values: Values, wanted: Wanted): void {
  const { ratio, width, height } = wanted;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.lineJoin = "round";
  const picture = new Picture(context, scene, values, wanted);
  switch (levelOf(wanted.view.scale, scene)) {
    case "cells":
      picture.cells(bundles);
      break;
    case "nodes":
      picture.nodes(false);
      break;
    case "ports":
      picture.nodes(true);
  }
}

/** One picture, in CSS pixels. */
class Picture {
  private readonly colours: Colours;
  private readonly scale: number;
  private readonly room: Room;

  constructor(
    private readonly context: Context,
    private readonly scene: Scene,
    private readonly values: Values,
    private readonly wanted: Wanted,
  ) {
    this.colours = wanted.colours;
    this.scale = wanted.view.scale;
    this.room = new Room(wanted.width, wanted.height);
  }

  cells(bundles: Bundles): void {
    const { context, scene, colours } = this;
    this.sites();
    const cellStates = this.cellStates();
    const states = new Uint8Array(bundles.links.length);
    bundles.of.forEach((bundle, link) => {
      if (bundle >= 0) states[bundle] = Math.max(states[bundle] ?? 0, this.needs(this.values.links[link] ?? 0));
    });
    const middle = (at: number): [number, number] => {
      const { x = 0, y = 0, width = 0, height = 0 } = scene.cells[at] ?? {};
      return [this.px(x + width / 2), this.py(y + height / 2)];
    };
    for (let state = 0; state < STATES.length; state += 1) {
      this.stroke(state, true);
      for (let at = 0; at < states.length; at += 1) {
        if (states[at] !== state) continue;
        context.lineWidth = (state >= BAD ? 1.5 : 0.75) + Math.log2(bundles.links[at] ?? 1) / 4;
        context.beginPath();
        context.moveTo(...middle(bundles.a[at] ?? 0));
        context.lineTo(...middle(bundles.b[at] ?? 0));
        context.stroke();
      }
    }
    this.solid();
    scene.cells.forEach(({ x, y, width, height, name, nodes }, at) => {
      const [left, top, wide, high] = [this.px(x), this.py(y), Math.max(3, width * this.scale - 2), Math.max(3, height * this.scale - 2)];
      if (left > this.wanted.width || top > this.wanted.height || left + wide < 0 || top + high < 0) return;
      const { state, badNodes, badLinks } = cellStates[at] ?? { state: 0, badNodes: 0, badLinks: 0 };
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
      if (this.wanted.picked >= 0 && scene.cellOf[this.nodeOf(this.wanted.picked)] === at) this.ring(left - 3, top - 3, wide + 6, high + 6);
      this.inCell({ left, top, wide, high }, word, [[name, `${nodes} nodes`, needing(badNodes, badLinks)], [name, needing(badNodes, badLinks) || `${nodes} nodes`], [name], [beginning(name)], [String(nodes)], []]);
    });
    if (this.wanted.picked >= 0) this.dot(this.wanted.picked, 3, "--accent");
  }

  nodes(hasPorts: boolean): void {
    this.sites();
    this.pods();
    if (hasPorts) this.halves();
    else this.lines();
    this.shapes();
    if (hasPorts) this.ports();
  }

  private isNamed(): boolean {
    return this.scale * this.scene.step >= NAMES;
  }

  private px(x: number): number {
    return x * this.scale + this.wanted.view.x;
  }

  private py(y: number): number {
    return y * this.scale + this.wanted.view.y;
  }

  private isIn(at: number, around: number): boolean {
    const [x, y] = [this.px(this.scene.x[at] ?? 0), this.py(this.scene.y[at] ?? 0)];
    return x > -around && y > -around && x < this.wanted.width + around && y < this.wanted.height + around;
  }

  /** Whether one of its ends is in the picture. A link that is well and only passes is not drawn: what is in the picture could not be seen for such lines. */
  private hasEnd(link: number): boolean {
    return this.isIn(this.scene.a[link] ?? 0, 0) || this.isIn(this.scene.b[link] ?? 0, 0);
  }

  /** The node itself, or that of a host. */
  private nodeOf(at: number): number {
    const { scene } = this;
    if (at < scene.nodes) return at;
    const link = scene.a.findIndex((a, index) => a === at || scene.b[index] === at);
    return (scene.a[link] === at ? scene.b[link] : scene.a[link]) ?? 0;
  }

  /** The state as far as it counts for a cell: a link that is not measured is none that needs someone. */
  private needs(state: number): number {
    return this.values.isMeasured && state < BAD ? 0 : state;
  }

  private cellStates(): { state: number; badNodes: number; badLinks: number }[] {
    const { scene, values } = this;
    const states = scene.cells.map(() => ({ state: 0, badNodes: 0, badLinks: 0 }));
    values.nodes.forEach((state, at) => {
      const cell = states[scene.cellOf[at] ?? 0];
      if (!cell) return;
      cell.state = Math.max(cell.state, state);
      if (state >= BAD) cell.badNodes += 1;
    });
    // Of links between two cells, the line has the state.
    values.links.forEach((value, at) => {
      const state = this.needs(value);
      const [a = 0, b = 0] = [scene.a[at], scene.b[at]];
      const of = scene.cellOf[Math.min(a, b)];
      const cell = of === undefined || (a < scene.nodes && b < scene.nodes && of !== scene.cellOf[Math.max(a, b)]) ? undefined : states[of];
      if (!cell || state === 0) return;
      cell.state = Math.max(cell.state, state);
      if (state >= BAD) cell.badLinks += 1;
    });
    return states;
  }

  private sites(): void {
    const { context, colours } = this;
    for (const { x, y, width, height, name } of this.scene.sites) {
      context.strokeStyle = colours["--line"];
      context.lineWidth = 1;
      context.strokeRect(this.px(x) - 6, this.py(y) - 6, width * this.scale + 12, height * this.scale + 12);
      this.font(600, 13);
      context.textAlign = "left";
      const wide = context.measureText(name).width;
      // In the picture as long as a part of its site is.
      const [aside, above] = this.wanted.margin;
      const left = Math.min(Math.max(aside + 8, this.px(x) - 6), this.px(x + width) + 6 - wide);
      const top = Math.max(above + 18, this.py(y) - 12);
      if (top > this.py(y + height)) continue;
      this.text(name, left, top, "--faint");
      this.room.block(left, top - 14, wide, 18);
    }
  }

  /** The outlines of pods, where there are several. */
  private pods(): void {
    const { context, colours, scene } = this;
    const pods = scene.cells.filter(({ isPod }) => isPod);
    if (pods.length < 2) return;
    context.strokeStyle = colours["--line"];
    context.lineWidth = 1;
    for (const { x, y, width, height } of pods) {
      context.beginPath();
      context.roundRect(this.px(x), this.py(y), width * this.scale, height * this.scale, 6);
      context.stroke();
    }
  }

  /** Sets how lines of a state are drawn. */
  private stroke(state: number, isGround: boolean): void {
    const { context, colours } = this;
    const word = STATES[state] ?? "ok";
    // Many lines that are well cover each other: they are one ground, from which those that need someone differ in both schemes.
    context.strokeStyle = state > 0 ? colours[`--${word}`] : colours[isGround ? "--line" : "--faint"];
    context.globalAlpha = state > 0 || isGround ? 1 : 0.45;
    context.lineWidth = state > 0 ? 2.5 : 1;
    context.setLineDash(word === "pending" ? [3, 4] : word === "degraded" ? [9, 4] : []);
    if (this.values.isMeasured && word === "pending") context.lineWidth = 1;
  }

  private solid(): void {
    this.context.globalAlpha = 1;
    this.context.setLineDash([]);
  }

  /** Both ends of a link in the picture, aside of other links with the same ends; nothing if it is outside. */
  private ends(link: number): [number, number, number, number] | undefined {
    const { scene, wanted } = this;
    const [a = 0, b = 0] = [scene.a[link], scene.b[link]];
    const [ax, ay, bx, by] = [this.px(scene.x[a] ?? 0), this.py(scene.y[a] ?? 0), this.px(scene.x[b] ?? 0), this.py(scene.y[b] ?? 0)];
    if (Math.max(ax, bx) < 0 || Math.max(ay, by) < 0 || Math.min(ax, bx) > wanted.width || Math.min(ay, by) > wanted.height) return undefined;
    const aside = scene.aside[link] ?? 0;
    if (aside === 0) return [ax, ay, bx, by];
    const long = Math.hypot(bx - ax, by - ay) || 1;
    const [dx, dy] = [((by - ay) / long) * aside * Math.min(1, this.scale), ((ax - bx) / long) * aside * Math.min(1, this.scale)];
    return [ax + dx, ay + dy, bx + dx, by + dy];
  }

  /** A line per link. Those that need someone are on top; of those that are well, the ones of what is picked have its colour. */
  private lines(): void {
    const { context, scene, values, wanted } = this;
    const isGround = scene.a.length > DENSE && !this.isNamed();
    for (let state = 0; state < STATES.length; state += 1) {
      this.stroke(state, isGround);
      this.along(scene.a.length, (link) => values.links[link] === state && (state > 0 || this.hasEnd(link)));
    }
    this.solid();
    if (wanted.picked < 0) return;
    context.strokeStyle = this.colours["--accent"];
    context.lineWidth = 1;
    this.along(scene.a.length, (link) => values.links[link] === 0 && (scene.a[link] === wanted.picked || scene.b[link] === wanted.picked));
  }

  private along(count: number, isWanted: (link: number) => boolean): void {
    const { context } = this;
    let drawn = 0;
    context.beginPath();
    for (let link = 0; link < count; link += 1) {
      if (!isWanted(link)) continue;
      const ends = this.ends(link);
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

  /** Each link in two halves: the one at an end is what that end sends. */
  private halves(): void {
    const { context, scene, values } = this;
    for (let state = 0; state < STATES.length; state += 1) {
      this.stroke(state, false);
      context.globalAlpha = state > 0 ? 1 : 0.7;
      context.lineWidth = state >= BAD ? 4 : state > 0 ? 2 : 1.5;
      context.strokeStyle = this.colours[`--${STATES[state] ?? "ok"}`];
      for (let link = 0; link < scene.a.length; link += 1) {
        const [ab, ba] = [values.directions[2 * link] === state, values.directions[2 * link + 1] === state];
        if (state === 0 && !this.hasEnd(link)) continue;
        const ends = ab || ba ? this.ends(link) : undefined;
        if (!ends) continue;
        const [ax, ay, bx, by] = ends;
        const [mx, my] = [(ax + bx) / 2, (ay + by) / 2];
        context.beginPath();
        context.moveTo(ab ? ax : mx, ab ? ay : my);
        context.lineTo(ba ? bx : mx, ba ? by : my);
        context.stroke();
      }
    }
    this.solid();
    // Where the halves meet.
    context.fillStyle = this.colours["--raised"];
    for (let link = 0; link < scene.a.length; link += 1) {
      if (values.directions[2 * link] === values.directions[2 * link + 1]) continue;
      const ends = this.ends(link);
      if (!ends) continue;
      context.beginPath();
      context.arc((ends[0] + ends[2]) / 2, (ends[1] + ends[3]) / 2, 3, 0, 2 * Math.PI);
      context.fill();
    }
  }

  private shapes(): void {
    const { context, scene, values, wanted, colours } = this;
    // Seven units, but on the screen not less than 3 pixels.
    const size = Math.min(14, Math.max(3, 7 * this.scale));
    const isNamed = this.isNamed();
    const shown = (from: number, to: number, isWanted: (at: number) => boolean) => Array.from({ length: to - from }, (_, at) => from + at).filter((at) => isWanted(at) && this.isIn(at, 40));
    const isBad = (at: number) => (values.nodes[at] ?? 0) >= BAD;
    const [hosts, well, bad] = [shown(scene.nodes, scene.x.length, () => true), shown(0, scene.nodes, (at) => !isBad(at)), shown(0, scene.nodes, isBad)];
    // Those that need someone are on top.
    for (const at of [...hosts, ...well, ...bad]) {
      const isHost = at >= scene.nodes;
      const word = isHost ? null : (STATES[values.nodes[at] ?? 1] ?? "pending");
      const [x, y, wide] = [this.px(scene.x[at] ?? 0), this.py(scene.y[at] ?? 0), isHost ? Math.min(size, 5) : size];
      context.fillStyle = word ? colours[`--${word}`] : colours["--faint"];
      shape(context, x, y, word, wide);
      if (word === "failed" && size >= 4) cross(context, x, y, size * 0.45, size / 4, colours["--raised"]);
      if (wanted.picked === at) this.circle(x, y, wide + 6);
      if (isNamed) this.room.block(x - wide, y - wide, 2 * wide, 2 * wide);
    }
    if (!isNamed && bad.length > NAMED) return;
    this.font(400, TEXT);
    context.textAlign = "center";
    const first = wanted.picked >= 0 && (isNamed || wanted.picked < scene.nodes) ? [wanted.picked] : [];
    for (const at of [...first, ...bad, ...(isNamed ? [...well, ...hosts] : [])]) this.name(at, size);
  }

  /** The name below its node, whole, where there is room. */
  private name(at: number, size: number): void {
    const { context, scene, wanted } = this;
    const name = scene.names[at] ?? "";
    const [x, y] = [this.px(scene.x[at] ?? 0), this.py(scene.y[at] ?? 0)];
    const half = context.measureText(name).width / 2;
    const [left, right] = [wanted.margin[0], wanted.width - wanted.margin[0]];
    const inside = x < left || x > right ? x : Math.min(right - half - 2, Math.max(left + half + 2, x));
    const below = y + size + TEXT + 2;
    if (this.room.take(inside - half, below - TEXT + 2, 2 * half, TEXT)) this.text(name, inside, below, at < scene.nodes ? "--text" : "--faint");
  }

  /** The names of ports at the ends of their links. */
  private ports(): void {
    const { context, scene } = this;
    this.font(400, 11);
    context.textAlign = "center";
    const out = 26 * Math.min(2, this.scale);
    for (let link = 0; link < scene.a.length; link += 1) {
      const ends = this.ends(link);
      if (!ends) continue;
      const [ax, ay, bx, by] = ends;
      const long = Math.hypot(bx - ax, by - ay) || 1;
      this.port(scene.aPorts[link] ?? "", (part) => [ax + (bx - ax) * part, ay + (by - ay) * part], out / long);
      this.port(scene.bPorts[link] ?? "", (part) => [bx + (ax - bx) * part, by + (ay - by) * part], out / long);
    }
  }

  /** The name on its half of the line, as near to its node as there is room; none if there is none. */
  private port(name: string, at: (part: number) => [number, number], nearest: number): void {
    const half = this.context.measureText(name).width / 2;
    for (const farther of [1, 1.6, 2.2, 3]) {
      const [x, y] = at(Math.min(0.42, nearest * farther));
      if (!this.room.take(x - half - 2, y - 6, 2 * half + 4, 12)) continue;
      this.text(name, x, y + 4, "--faint");
      return;
    }
  }

  /** A shape and the first lines that fit into a cell. */
  private inCell({ left, top, wide, high }: { left: number; top: number; wide: number; high: number }, word: State, choices: string[][]): void {
    const { context, colours } = this;
    this.font(400, 11);
    context.textAlign = "center";
    const size = Math.min(6, Math.min(wide, high) / 4);
    // One line beside the shape, where there is no room below it.
    const flat = choices.filter((of) => of.length === 1).flat().find((line) => context.measureText(line).width + 2 * size + 16 <= wide);
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

  private font(weight: number, size: number): void {
    this.context.font = `${weight} ${size}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
  }

  private text(text: string, x: number, y: number, token: "--text" | "--faint"): void {
    const { context, colours } = this;
    context.strokeStyle = colours["--raised"];
    context.lineWidth = 3;
    context.strokeText(text, x, y);
    context.fillStyle = colours[token];
    context.fillText(text, x, y);
  }

  private dot(at: number, size: number, token: "--accent"): void {
    this.context.fillStyle = this.colours[token];
    shape(this.context, this.px(this.scene.x[at] ?? 0), this.py(this.scene.y[at] ?? 0), "ok", size);
  }

  private circle(x: number, y: number, size: number): void {
    const { context } = this;
    context.strokeStyle = this.colours["--accent"];
    context.lineWidth = 3;
    context.beginPath();
    context.arc(x, y, size, 0, 2 * Math.PI);
    context.stroke();
  }

  private ring(x: number, y: number, width: number, height: number): void {
    const { context } = this;
    context.strokeStyle = this.colours["--accent"];
    context.lineWidth = 3;
    context.beginPath();
    context.roundRect(x, y, width, height, 8);
    context.stroke();
  }
}

/** "leaf1 …" of "leaf1 … leaf64". */
const beginning = (name: string): string => name.replace(/ … .*$/, " …");

/** What is degraded or failed in a cell: "2 nodes, 1 link bad". */
function needing(nodes: number, links: number): string {
  const parts = [nodes && `${nodes} node${nodes === 1 ? "" : "s"}`, links && `${links} link${links === 1 ? "" : "s"}`].filter(Boolean);
  return parts.length ? `${parts.join(", ")} bad` : "";
}
