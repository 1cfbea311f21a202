// SPDX-License-Identifier: Apache-2.0
// Where the view of the map is, and what pointer and keys do to it. A worker lays the fabric out and draws it into a bitmap that is larger than the
// canvas; moving and scaling copies it, and it is drawn again when they end, when they leave it, and at most once a second for new values.
import type { FabricMap } from "../../api/types";
import { devicesOf, indexOf, linkStates, nameOf, nextLink, statesOf, type Layer } from "../../lib/mapLayer";
import { asides, cellAt, nearest, nearestLink, towards, type Box, type Lines, type Places } from "../../lib/mapPlaces";
import { colours, onTheme } from "../../ui/tokens";
import { levelOf, TOKENS, type Colours, type Level, type Values, type View } from "./scene";
import type { Viewer } from "./TabWorker";
import { tabWorker } from "./worker";

/** Pixels between a pointer and what it means. */
const REACH = 18;
/** Pixels between a pointer and the line that it means. */
const LINE_REACH = 6;
/** How long nothing moves before the bitmap is drawn sharply again, milliseconds. */
const SETTLED = 120;
/** How often it is drawn again for new values, milliseconds. */
const VALUES_EVERY = 1000;
/** The bitmap reaches so much of the canvas beyond each of its sides. */
const MARGIN = 0.25;
/** The largest scale that shows everything. */
const WHOLE = 1.6;
const CLOSEST = 6;
/** Pixels between nodes at one that is gone to: it is shown with the ports of its links. */
const AT_NODE = 120;

/** What the map waits for; `failed`: there will be none. */
export type Progress = "layout" | "picture" | "there" | "failed";

/** What the page shows beside the picture. */
interface Listener {
  level: (level: Level) => void;
  progress: (progress: Progress, reason?: string) => void;
}

export class Drawing implements Viewer {
  private view: View = { x: 0, y: 0, scale: 1 };
  /** What is shown next, and what pointer and keys mean until its places are there. Indexes of the page are of the former, and so is what is sent to the worker. */
  private map: FabricMap | undefined;
  private shown: { map: FabricMap; places: Places } | undefined;
  private values: Values = { nodes: new Uint8Array(), directions: new Uint8Array(), links: new Uint8Array(), isMeasured: false };
  private layer: Layer = "state";
  /** Both layers have been read. */
  private readonly known = { nodes: false, links: false };
  /** The worker has values of the map. */
  private isSent = false;
  private picked = -1;
  /** The node or host from which keys went to the link that is picked. */
  private around = -1;
  /** Of the map that is shown, from the first click on. */
  private lines: { of: FabricMap; lines: Lines } | undefined;
  /** Everything is in the view, as it was fitted. */
  private isWhole = true;
  private bitmap: ImageBitmap | undefined;
  private bitmapView: View = { x: 0, y: 0, scale: 1 };
  private isDrawing = false;
  private isWanted = false;
  private frame = 0;
  private settle = 0;
  private fresh = 0;
  private drawnAt = -Infinity;
  private pressed: { x: number; y: number; moved: boolean } | null = null;
  private readonly sizes: ResizeObserver;
  private readonly endTheme: () => void;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly on: Listener,
  ) {
    tabWorker.open(this);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(canvas);
    canvas.addEventListener("wheel", this.wheel, { passive: false });
    this.endTheme = onTheme(this.again);
  }

  end(): void {
    tabWorker.close(this);
    this.bitmap?.close();
    this.sizes.disconnect();
    this.endTheme();
    this.canvas.removeEventListener("wheel", this.wheel);
    cancelAnimationFrame(this.frame);
    window.clearTimeout(this.settle);
    window.clearTimeout(this.fresh);
  }

  /** Another map: what was on the one before stays where it is, and so does the view. */
  show(map: FabricMap): void {
    this.map = map;
    this.values = { nodes: new Uint8Array(map.nodes.length), directions: new Uint8Array(2 * map.links.length), links: new Uint8Array(map.links.length), isMeasured: false };
    [this.known.nodes, this.known.links, this.isSent, this.around] = [false, false, false, -1];
    this.on.progress("layout");
    tabWorker.show(map);
  }

  laidOut(places: Places): void {
    const isFirst = !this.shown;
    if (!this.map) return;
    this.shown = { map: this.map, places };
    if (isFirst) this.fit();
    this.on.progress("picture");
    this.again();
  }

  failed(reason: string): void {
    this.shown = undefined;
    this.on.progress("failed", reason);
  }

  nodes(octets: Uint8Array): void {
    this.values.nodes = statesOf(octets, "nodes");
    this.known.nodes = true;
    this.later();
  }

  links(octets: Uint8Array, layer: Layer): void {
    const isOther = this.layer !== layer;
    this.layer = layer;
    this.values.directions = statesOf(octets, layer);
    this.values.links = linkStates(this.values.directions, layer);
    this.values.isMeasured = layer !== "state";
    this.known.links = true;
    // What was chosen is shown at once.
    if (isOther) this.drawnAt = -Infinity;
    this.later();
  }

  /** Marks a node, host or link by its index in the map, and moves the view to it if it is outside. */
  pick(at: number): void {
    if (this.picked === at) return;
    this.picked = at;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const places = this.devices(at).map((device) => this.place(device));
    if (width && places.length && places.every(([x, y]) => x < 16 || y < 16 || x > width - 16 || y > height - 16)) {
      const [x, y] = [middle(places.map(([left]) => left)), middle(places.map(([, top]) => top))];
      this.view = { ...this.view, x: this.view.x + width / 2 - x, y: this.view.y + height / 2 - y };
    }
    this.again();
  }

  /** In what is shown: a node or host itself, both ends of a link. By an index of the map that is shown next. */
  private devices(at: number): number[] {
    const link = this.map && at >= devicesOf(this.map) ? this.map.links[at - devicesOf(this.map)] : undefined;
    return (link ? [link.a, link.b] : [at]).map((device) => this.inShown(device)).filter((device) => device >= 0);
  }

  /** Of the index of what is shown. On the canvas. */
  private place(at: number): [number, number] {
    return [(this.shown?.places.x[at] ?? 0) * this.view.scale + this.view.x, (this.shown?.places.y[at] ?? 0) * this.view.scale + this.view.y];
  }

  /** The index of something in what is shown, by that in the map that is shown next; -1 if it is not there. */
  private inShown(at: number): number {
    return !this.shown || !this.map || at < 0 ? -1 : this.shown.map === this.map ? at : indexOf(this.shown.map, nameOf(this.map, at));
  }

  /** The reverse of [`inShown`]. */
  private inMap(at: number): number {
    return !this.shown || !this.map || at < 0 ? -1 : this.shown.map === this.map ? at : indexOf(this.map, nameOf(this.shown.map, at));
  }

  private resize(): void {
    const ratio = window.devicePixelRatio;
    const before = [this.canvas.width / ratio, this.canvas.height / ratio] as const;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    // What was in the middle stays there, unless everything is shown.
    if (this.isWhole) this.fit();
    else this.view = { ...this.view, x: this.view.x + (this.canvas.clientWidth - before[0]) / 2, y: this.view.y + (this.canvas.clientHeight - before[1]) / 2 };
    this.again();
    this.copy();
  }

  private fit(box: Box | undefined = this.shown?.places.bounds, most = WHOLE): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.isWhole = box === this.shown?.places.bounds;
    if (!box || !width) return;
    // Beside the outermost nodes there is room for their names and those of sites.
    const scale = Math.min((width - 24) / box.width, (height - 56) / box.height, most);
    this.view = { scale, x: (width - box.width * scale) / 2 - box.x * scale, y: (height - box.height * scale) / 2 - box.y * scale + 8 };
  }

  /** Draws again for new values, at most once a second. */
  private later(): void {
    if (!this.known.nodes || !this.known.links) return;
    window.clearTimeout(this.fresh);
    this.fresh = window.setTimeout(() => {
      this.sendValues();
      this.again();
    }, Math.max(0, this.drawnAt + VALUES_EVERY - performance.now()));
  }

  private sendValues(): void {
    tabWorker.values(this.values);
    this.isSent = true;
  }

  /** Has the bitmap drawn again, once the one that is being drawn is there. */
  private readonly again = (): void => {
    if (!this.shown || !this.known.nodes || !this.known.links || !this.canvas.clientWidth) return;
    this.isWanted = true;
    if (this.isDrawing) return;
    // Those that the worker has are of another map, or of a page that was left.
    if (!this.isSent) this.sendValues();
    [this.isDrawing, this.isWanted] = [true, false];
    this.drawnAt = performance.now();
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const token = colours();
    // Whole pixels: the bitmap is copied without blur then.
    const margin = [Math.round(width * MARGIN), Math.round(height * MARGIN)] as const;
    tabWorker.draw({
      view: { scale: this.view.scale, x: this.view.x + margin[0], y: this.view.y + margin[1] },
      width: width + 2 * margin[0],
      height: height + 2 * margin[1],
      margin,
      ratio: window.devicePixelRatio,
      picked: this.picked,
      colours: Object.fromEntries(TOKENS.map((name) => [name, token(name)])) as Colours,
    });
    this.on.level(levelOf(this.view.scale, this.shown.places));
  };

  drawn(bitmap: ImageBitmap, view: View): void {
    this.bitmap?.close();
    [this.bitmap, this.bitmapView] = [bitmap, view];
    this.isDrawing = false;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.copy());
    // Until there are places of the next map, a picture is of the one before.
    if (this.shown?.map === this.map) this.on.progress("there");
    if (this.isWanted) this.again();
  }

  /** Shows the bitmap where the view is now, and has it drawn again once nothing moves, or where it does not reach. */
  private moved(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const isWhole = this.copy();
      if (!isWhole && !this.isDrawing) this.again();
    });
    window.clearTimeout(this.settle);
    this.settle = window.setTimeout(this.again, SETTLED);
  }

  /** Whether the bitmap covers the canvas. */
  private copy(): boolean {
    const context = this.canvas.getContext("2d");
    const { bitmap, canvas } = this;
    if (!context || !bitmap) return true;
    const ratio = window.devicePixelRatio;
    const factor = this.view.scale / this.bitmapView.scale;
    const [x, y] = [(this.view.x - this.bitmapView.x * factor) * ratio, (this.view.y - this.bitmapView.y * factor) * ratio];
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.setTransform(factor, 0, 0, factor, x, y);
    context.drawImage(bitmap, 0, 0);
    return x <= 0 && y <= 0 && x + bitmap.width * factor >= canvas.width && y + bitmap.height * factor >= canvas.height;
  }

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  };

  private zoom(by: number, x: number, y: number): void {
    const { width = 1, height = 1 } = this.shown?.places.bounds ?? {};
    const least = Math.min(1, this.canvas.clientWidth / width, this.canvas.clientHeight / height) / 2;
    const scale = Math.min(CLOSEST, Math.max(least, this.view.scale * by));
    const factor = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * factor, y: y - (y - this.view.y) * factor };
    this.isWhole = false;
    this.moved();
  }

  press(event: { pointerId: number; clientX: number; clientY: number }): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.pressed = { x: event.clientX, y: event.clientY, moved: false };
  }

  drag(event: { clientX: number; clientY: number }): void {
    if (!this.pressed) return;
    const [dx, dy] = [event.clientX - this.pressed.x, event.clientY - this.pressed.y];
    if (!this.pressed.moved && Math.hypot(dx, dy) < 4) return;
    this.view = { ...this.view, x: this.view.x + dx, y: this.view.y + dy };
    this.pressed = { x: event.clientX, y: event.clientY, moved: true };
    this.isWhole = false;
    this.moved();
  }

  /** The link whose line is at a point, as an index of what is shown. */
  private lineAt({ map, places }: { map: FabricMap; places: Places }, x: number, y: number): number {
    if (this.lines?.of !== map) {
      const [a, b] = [Int32Array.from(map.links, (link) => link.a), Int32Array.from(map.links, (link) => link.b)];
      this.lines = { of: map, lines: { a, b, aside: asides(a, b, devicesOf(map)) } };
    }
    const isIn = (device: number) => {
      const [left, top] = this.place(device);
      return left > 0 && top > 0 && left < this.canvas.clientWidth && top < this.canvas.clientHeight;
    };
    // As they are drawn: see Picture.hasEnd.
    const isDrawn = (link: number) => (this.values.links[link] ?? 0) > 0 || isIn(map.links[link]?.a ?? 0) || isIn(map.links[link]?.b ?? 0);
    const link = nearestLink(places, this.lines.lines, x, y, LINE_REACH / this.view.scale, Math.min(1, this.view.scale) / this.view.scale, isDrawn);
    return link < 0 ? -1 : devicesOf(map) + link;
  }

  /** What a click hit: a node, host or link, -1 = none, undefined = it was no click, or went into a pod. */
  release(event: { clientX: number; clientY: number }): number | undefined {
    const { pressed, shown, view } = this;
    this.pressed = null;
    if (!pressed || pressed.moved || !shown) return undefined;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left - view.x) / view.scale, (event.clientY - box.top - view.y) / view.scale];
    if (levelOf(view.scale, shown.places) !== "cells") {
      const device = nearest(shown.places, x, y, REACH / view.scale);
      return this.inMap(device >= 0 ? device : this.lineAt(shown, x, y));
    }
    const cell = cellAt(shown.places, x, y, REACH / view.scale);
    if (!cell) return -1;
    this.fit(cell);
    this.moved();
    return undefined;
  }

  /** What a key does: the node, host or link to pick, -1 = only the view changed, undefined = the key has no meaning here. */
  key(key: string): number | undefined {
    const [x, y] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    switch (key) {
      case "+":
      case "=":
        this.zoom(1.3, x, y);
        return -1;
      case "-":
        this.zoom(1 / 1.3, x, y);
        return -1;
      case "0":
        this.fit();
        this.moved();
        return -1;
      case "Enter":
        this.goTo(this.picked);
        return -1;
      case "l":
        return this.stepLink(1);
      case "L":
        return this.stepLink(-1);
      case "ArrowLeft":
        return this.step(-1, 0);
      case "ArrowRight":
        return this.step(1, 0);
      case "ArrowUp":
        return this.step(0, -1);
      case "ArrowDown":
        return this.step(0, 1);
      default:
        return undefined;
    }
  }

  /** Shows a node with the ports of its links in the middle, or a link with both ends; from one whose ends are too far apart, the end that keys came from. */
  private goTo(at: number): void {
    const [one, other] = this.devices(at);
    if (one === undefined || !this.shown) return;
    const { x, y, step } = this.shown.places;
    if (other !== undefined) {
      const [left, right] = [Math.min(x[one] ?? 0, x[other] ?? 0), Math.max(x[one] ?? 0, x[other] ?? 0)];
      const [top, bottom] = [Math.min(y[one] ?? 0, y[other] ?? 0), Math.max(y[one] ?? 0, y[other] ?? 0)];
      this.fit({ x: left - step, y: top - step, width: right - left + 2 * step, height: bottom - top + 2 * step }, AT_NODE / step);
      if (levelOf(this.view.scale, this.shown.places) === "cells") this.center(this.inShown(this.from()));
    } else {
      this.center(one);
    }
    this.moved();
  }

  private center(place: number): void {
    if (place < 0 || !this.shown) return;
    const { x, y, step } = this.shown.places;
    const scale = Math.max(AT_NODE / step, this.view.scale);
    this.isWhole = false;
    this.view = { scale, x: this.canvas.clientWidth / 2 - (x[place] ?? 0) * scale, y: this.canvas.clientHeight / 2 - (y[place] ?? 0) * scale };
  }

  /** The nearest node in a direction; the first node if none is picked. */
  private step(dx: number, dy: number): number {
    if (!this.shown?.places.x.length) return -1;
    const from = this.inShown(this.from());
    return from < 0 ? 0 : this.inMap(towards(this.shown.places, from, dx, dy));
  }

  /** The next link of the node or host that is picked, or of the one from which keys went to a link. */
  private stepLink(by: 1 | -1): number {
    if (!this.map || this.picked < 0) return -1;
    const devices = devicesOf(this.map);
    this.around = this.from();
    const next = nextLink(this.map, this.around, this.picked - devices, by);
    return next < 0 ? -1 : devices + next;
  }

  /** Where keys start: what is picked; of a link, the end that keys came from. */
  private from(): number {
    const link = this.map && this.picked >= devicesOf(this.map) ? this.map.links[this.picked - devicesOf(this.map)] : undefined;
    if (!link) return this.picked;
    return this.around === link.b ? link.b : link.a;
  }
}

const middle = (numbers: readonly number[]): number => (Math.min(...numbers) + Math.max(...numbers)) / 2;
