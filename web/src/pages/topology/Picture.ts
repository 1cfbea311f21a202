// SPDX-License-Identifier: Apache-2.0
// What pictures of all levels have: where things are in them, how lines of a state and texts are drawn, and the sites.
import { STATES } from "../../lib/mapLayer";
import { Room } from "./labels";
import type { Colours, Scene, Values, Wanted } from "./scene";
import type { Context } from "./shapes";

/** From this state on someone is needed. */
export const BAD = 2;
/** Pixels between nodes from which on there is room for their names. */
const NAMES = 44;

/** One picture, in CSS pixels. */
export class Picture {
  readonly colours: Colours;
  readonly scale: number;
  /** Where no text is yet. */
  readonly room: Room;

  constructor(
    readonly context: Context,
    readonly scene: Scene,
    readonly values: Values,
    readonly wanted: Wanted,
  ) {
    this.colours = wanted.colours;
    this.scale = wanted.view.scale;
    this.room = new Room(wanted.width, wanted.height);
  }

  /** The outlines of sites and their names, for which room is kept. */
  sites(): void {
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

  /** Whether there is room for names of nodes. */
  isNamed(): boolean {
    return this.scale * this.scene.step >= NAMES;
  }

  /** Of units of the layout: pixels from the left. */
  px(x: number): number {
    return x * this.scale + this.wanted.view.x;
  }

  /** Of units of the layout: pixels from the top. */
  py(y: number): number {
    return y * this.scale + this.wanted.view.y;
  }

  /** Whether a node or host is in the picture, or not farther than so many pixels from it. */
  isIn(at: number, around: number): boolean {
    const [x, y] = [this.px(this.scene.x[at] ?? 0), this.py(this.scene.y[at] ?? 0)];
    return x > -around && y > -around && x < this.wanted.width + around && y < this.wanted.height + around;
  }

  /** Whether one of its ends is in the picture. A link that is well and only passes is not drawn: what is in the picture could not be seen for such lines. */
  hasEnd(link: number): boolean {
    return this.isIn(this.scene.a[link] ?? 0, 0) || this.isIn(this.scene.b[link] ?? 0, 0);
  }

  /** Both ends of a link in the picture, aside of other links with the same ends; nothing if it is outside. */
  ends(link: number): [number, number, number, number] | undefined {
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

  /** What is picked: a node or host, both ends of a link, or nothing. */
  pickedDevices(): number[] {
    const { scene, wanted: { picked } } = this;
    const link = this.pickedLink();
    return picked < 0 ? [] : link < 0 ? [picked] : [scene.a[link] ?? 0, scene.b[link] ?? 0];
  }

  /** The link that is picked; -1 if none is. */
  pickedLink(): number {
    return this.wanted.picked < this.scene.x.length ? -1 : this.wanted.picked - this.scene.x.length;
  }

  /** A ground for the line of the link that is picked, on which it keeps its colour and its dashes. */
  underPicked(): void {
    const { context } = this;
    const ends = this.pickedLink() < 0 ? undefined : this.ends(this.pickedLink());
    if (!ends) return;
    const [ax, ay, bx, by] = ends;
    context.strokeStyle = this.colours["--accent"];
    context.globalAlpha = 0.45;
    context.lineWidth = 9;
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(ax, ay);
    context.lineTo(bx, by);
    context.stroke();
    context.lineCap = "butt";
    context.globalAlpha = 1;
  }

  /** Sets how lines of a state are drawn. */
  stroke(state: number, isGround: boolean): void {
    const { context, colours } = this;
    const word = STATES[state] ?? "ok";
    // Many lines that are well cover each other: they are one ground, from which those that need someone differ in both schemes.
    context.strokeStyle = state > 0 ? colours[`--${word}`] : colours[isGround ? "--line" : "--faint"];
    context.globalAlpha = state > 0 || isGround ? 1 : 0.45;
    context.lineWidth = state > 0 ? 2.5 : 1;
    context.setLineDash(word === "pending" ? [3, 4] : word === "degraded" ? [9, 4] : []);
    if (this.values.isMeasured && word === "pending") context.lineWidth = 1;
  }

  /** Ends what [`stroke`] sets beyond colour and width. */
  solid(): void {
    this.context.globalAlpha = 1;
    this.context.setLineDash([]);
  }

  /** Sets the font of texts. */
  font(weight: number, size: number): void {
    this.context.font = `${weight} ${size}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
  }

  /** Text with an edge of the ground, so that lines do not cross it. */
  text(text: string, x: number, y: number, token: "--text" | "--faint"): void {
    const { context, colours } = this;
    context.strokeStyle = colours["--raised"];
    context.lineWidth = 3;
    context.strokeText(text, x, y);
    context.fillStyle = colours[token];
    context.fillText(text, x, y);
  }
}
