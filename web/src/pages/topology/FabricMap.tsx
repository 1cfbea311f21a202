// SPDX-License-Identifier: Apache-2.0
// The map's canvas. The whole fabric is drawn once into a bitmap; moving and zooming copies it, and draws it again when they end.
import { useEffect, useRef, type PointerEvent } from "react";
import { nearest, STEP, type MapLayout, type MapNode } from "../../lib/map";
import type { State } from "../../lib/state";
import { colours, onTheme } from "../../ui/tokens";

interface Props {
  layout: MapLayout;
  nodeStates: ReadonlyMap<string, State>;
  linkStates: ReadonlyMap<string, State>;
  picked: MapNode | null;
  onPick: (node: MapNode | null) => void;
}

interface View {
  x: number;
  y: number;
  scale: number;
}

const STATES: readonly State[] = ["ok", "pending", "degraded", "failed"];
const BAD = new Set<State | undefined>(["degraded", "failed"]);
/** Nodes that need someone and are named while all are too near to each other for names. */
const NAMED = 12;
/** From this scale on, names of nodes do not overlap. */
const NEAR = 0.55;
/** More links than these cover each other where all are in the picture. */
const DENSE = 2000;
/** Lines of one path: a path of ten thousands takes seconds, because their crossings are computed. */
const PATH = 128;
/** Pixels between a pointer and what it means. */
const REACH = 18;
/** How long nothing moves before the bitmap is drawn sharply again, milliseconds. */
const SETTLED = 120;

export function FabricMap(props: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const { onPick, picked, layout } = props;
  useEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Drawing(canvas.current);
    drawing.current = made;
    return () => made.end();
  }, []);
  useEffect(() => {
    drawing.current?.show(props);
  }, [props]);
  const label = `Map of ${layout.nodes.length} nodes and hosts. ${picked ? `${picked.name} is picked.` : "Nothing is picked."}`;
  return (
    <div className="map">
      {/* The canvas is one control with its own keys; the tables of nodes and links have the same content. */}
      <canvas
        ref={canvas}
        // eslint-disable-next-line jsx-a11y/no-interactive-element-to-noninteractive-role -- it has keys, which the rule does not see
        role="application"
        aria-label={label}
        tabIndex={0}
        onPointerDown={(event) => drawing.current?.press(event)}
        onPointerMove={(event) => drawing.current?.drag(event)}
        onPointerUp={(event) => {
          const hit = drawing.current?.release(event);
          if (hit !== undefined) onPick(hit);
        }}
        onKeyDown={(event) => {
          const next = drawing.current?.key(event.key, picked);
          if (next === undefined) return;
          event.preventDefault();
          if (next) onPick(next);
        }}
      />
    </div>
  );
}

/** What is drawn, and where the view is. */
class Drawing {
  private view: View = { x: 0, y: 0, scale: 1 };
  private props: Props | null = null;
  private bitmap: HTMLCanvasElement = document.createElement("canvas");
  private bitmapView: View = { x: 0, y: 0, scale: 1 };
  private frame = 0;
  private settle = 0;
  private pressed: { x: number; y: number; moved: boolean } | null = null;
  private fitted: MapLayout | null = null;
  private readonly sizes: ResizeObserver;
  private readonly endTheme: () => void;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(canvas);
    canvas.addEventListener("wheel", this.wheel, { passive: false });
    this.endTheme = onTheme(this.again);
  }

  end(): void {
    this.sizes.disconnect();
    this.endTheme();
    this.canvas.removeEventListener("wheel", this.wheel);
    cancelAnimationFrame(this.frame);
    window.clearTimeout(this.settle);
  }

  show(props: Props): void {
    this.props = props;
    if (this.fitted !== props.layout) this.fit();
    this.again();
  }

  private resize(): void {
    const ratio = window.devicePixelRatio;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    this.fit();
    this.again();
  }

  private fit(): void {
    if (!this.props || !this.canvas.clientWidth) return;
    const { width, height } = this.props.layout;
    const scale = Math.min(this.canvas.clientWidth / width, this.canvas.clientHeight / height, 1.6);
    this.view = { scale, x: (this.canvas.clientWidth - width * scale) / 2, y: (this.canvas.clientHeight - height * scale) / 2 };
    this.fitted = this.props.layout;
  }

  /** Draws the bitmap again, and shows it. */
  private readonly again = (): void => {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.render();
      this.copy();
    });
  };

  /** Shows the bitmap where the view is now, and draws it again once nothing moves. */
  private moved(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.copy());
    window.clearTimeout(this.settle);
    this.settle = window.setTimeout(this.again, SETTLED);
  }

  private copy(): void {
    const context = this.canvas.getContext("2d");
    if (!context) return;
    const ratio = window.devicePixelRatio;
    const factor = this.view.scale / this.bitmapView.scale;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(factor, 0, 0, factor, (this.view.x - this.bitmapView.x * factor) * ratio, (this.view.y - this.bitmapView.y * factor) * ratio);
    context.drawImage(this.bitmap, 0, 0);
  }

  private render(): void {
    const { props, canvas, view } = this;
    const context = this.bitmap.getContext("2d");
    if (!props || !context || !canvas.width) return;
    [this.bitmap.width, this.bitmap.height] = [canvas.width, canvas.height];
    this.bitmapView = { ...view };
    const ratio = window.devicePixelRatio;
    context.setTransform(view.scale * ratio, 0, 0, view.scale * ratio, view.x * ratio, view.y * ratio);
    const colour = colours();
    this.drawLinks(context, props, colour);
    this.drawNodes(context, props, colour);
  }

  private drawLinks(context: CanvasRenderingContext2D, { layout, linkStates }: Props, colour: (name: string) => string): void {
    const thin = 1 / this.view.scale;
    // Many lines that are well cover each other from far: as one ground, from which those that need attention differ in both schemes.
    const isGround = layout.links.length > DENSE && this.view.scale < NEAR;
    // Those that need attention are on top.
    for (const state of STATES) {
      context.strokeStyle = state !== "ok" ? colour(`--${state}`) : colour(isGround ? "--line" : "--faint");
      context.globalAlpha = state === "ok" && !isGround ? 0.45 : 1;
      context.lineWidth = state === "ok" ? thin : 2.5 * thin;
      context.setLineDash(state === "pending" ? [3 * thin, 4 * thin] : state === "degraded" ? [9 * thin, 4 * thin] : []);
      let drawn = 0;
      context.beginPath();
      for (const link of layout.links) {
        const [one, other] = link.ends;
        const now = linkStates.get(`${one}--${other}`) ?? linkStates.get(`${other}--${one}`) ?? "ok";
        const [a, b] = [layout.nodes[link.a], layout.nodes[link.b]];
        if (now !== state || !a || !b) continue;
        context.moveTo(a.x, a.y);
        context.lineTo(b.x, b.y);
        drawn += 1;
        if (drawn % PATH === 0) {
          context.stroke();
          context.beginPath();
        }
      }
      context.stroke();
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  private drawNodes(context: CanvasRenderingContext2D, { layout, nodeStates, picked }: Props, colour: (name: string) => string): void {
    // Seven units, but on the screen not less than 3 pixels; of those that are well, apart from their neighbours. Those that need someone are on top.
    const least = 3 / this.view.scale;
    const apart = Math.min(40, Math.max(7, Math.min(least, STEP / 4)));
    const isBad = (node: MapNode) => BAD.has(nodeStates.get(node.name));
    for (const node of [...layout.nodes.filter((one) => !isBad(one)), ...layout.nodes.filter(isBad)]) {
      const size = isBad(node) ? Math.min(80, Math.max(7, least)) : apart;
      const state = node.isHost ? null : (nodeStates.get(node.name) ?? "pending");
      context.fillStyle = state ? colour(`--${state}`) : colour("--faint");
      shape(context, node, state, size);
      if (state === "failed" && size * this.view.scale >= 4) cross(context, node, size * 0.45, size / 4, colour("--raised"));
      if (picked?.name === node.name) {
        context.strokeStyle = colour("--accent");
        context.lineWidth = 3 / this.view.scale;
        context.beginPath();
        context.arc(node.x, node.y, size + 6 / this.view.scale, 0, 2 * Math.PI);
        context.stroke();
      }
    }
    // Names once they do not overlap; before, of the few that need someone.
    const [isNear, bad] = [this.view.scale >= NEAR, layout.nodes.filter(isBad)];
    if (!isNear && bad.length > NAMED) return;
    context.fillStyle = colour("--text");
    context.strokeStyle = colour("--raised");
    context.lineWidth = 3 / this.view.scale;
    context.lineJoin = "round";
    context.font = `${12 / this.view.scale}px system-ui, sans-serif`;
    context.textAlign = "center";
    const [left, right] = [-this.view.x / this.view.scale, (this.canvas.clientWidth - this.view.x) / this.view.scale];
    for (const node of isNear ? layout.nodes : bad) {
      const half = context.measureText(node.name).width / 2;
      // Whole as long as its node is in the picture.
      const x = node.x < left || node.x > right ? node.x : Math.min(right - half, Math.max(left + half, node.x));
      const y = node.y + Math.max(7, least) + 14 / this.view.scale;
      context.strokeText(node.name, x, y);
      context.fillText(node.name, x, y);
    }
  }

  private readonly wheel = (event: WheelEvent): void => {
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
  };

  private zoom(by: number, x: number, y: number): void {
    const scale = Math.min(6, Math.max(0.02, this.view.scale * by));
    const factor = scale / this.view.scale;
    this.view = { scale, x: x - (x - this.view.x) * factor, y: y - (y - this.view.y) * factor };
    this.moved();
  }

  press(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.pressed = { x: event.clientX, y: event.clientY, moved: false };
  }

  drag(event: PointerEvent): void {
    if (!this.pressed) return;
    const [dx, dy] = [event.clientX - this.pressed.x, event.clientY - this.pressed.y];
    if (!this.pressed.moved && Math.hypot(dx, dy) < 4) return;
    this.view = { ...this.view, x: this.view.x + dx, y: this.view.y + dy };
    this.pressed = { x: event.clientX, y: event.clientY, moved: true };
    this.moved();
  }

  /** What a click hit: a node, null = none, undefined = it was no click. */
  release(event: PointerEvent): MapNode | null | undefined {
    const { pressed, props } = this;
    this.pressed = null;
    if (!pressed || pressed.moved || !props) return undefined;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left - this.view.x) / this.view.scale, (event.clientY - box.top - this.view.y) / this.view.scale];
    return nearest(props.layout, x, y, REACH / this.view.scale) ?? null;
  }

  /** What a key does: the node to pick, null = only the view changed, undefined = the key has no meaning here. */
  key(key: string, picked: MapNode | null): MapNode | null | undefined {
    const [x, y] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    switch (key) {
      case "+":
      case "=":
        this.zoom(1.3, x, y);
        return null;
      case "-":
        this.zoom(1 / 1.3, x, y);
        return null;
      case "0":
        this.fit();
        this.again();
        return null;
      case "ArrowLeft":
        return this.step(picked, -1, 0);
      case "ArrowRight":
        return this.step(picked, 1, 0);
      case "ArrowUp":
        return this.step(picked, 0, -1);
      case "ArrowDown":
        return this.step(picked, 0, 1);
      default:
        return undefined;
    }
  }

  /** The nearest node in a direction; the first node if none is picked. */
  private step(picked: MapNode | null, dx: number, dy: number): MapNode | null {
    const nodes = this.props?.layout.nodes ?? [];
    if (!picked) return nodes.find((node) => !node.isHost) ?? nodes[0] ?? null;
    let found: MapNode | null = null;
    let best = Infinity;
    for (const node of nodes) {
      const [x, y] = [node.x - picked.x, node.y - picked.y];
      const along = x * dx + y * dy;
      if (along <= 0) continue;
      const cost = along + 3 * Math.abs(x * dy + y * dx);
      if (cost < best) [found, best] = [node, cost];
    }
    return found;
  }
}

/** A state by shape: disc, ring, triangle, square; a host is a small bar. */
function shape(context: CanvasRenderingContext2D, { x, y }: MapNode, state: State | null, size: number): void {
  context.beginPath();
  switch (state) {
    case null:
      context.rect(x - size * 0.7, y - size * 0.4, size * 1.4, size * 0.8);
      break;
    case "ok":
      context.arc(x, y, size, 0, 2 * Math.PI);
      break;
    case "pending":
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.arc(x, y, size * 0.5, 0, 2 * Math.PI, true);
      break;
    case "degraded":
      context.moveTo(x, y - size * 1.2);
      context.lineTo(x + size * 1.2, y + size);
      context.lineTo(x - size * 1.2, y + size);
      break;
    case "failed":
      context.rect(x - size, y - size, size * 2, size * 2);
      break;
  }
  context.fill();
}

/** In a square, so that it is the shape of the legend. */
function cross(context: CanvasRenderingContext2D, { x, y }: MapNode, reach: number, width: number, colour: string): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  for (const down of [1, -1]) {
    context.moveTo(x - reach, y - reach * down);
    context.lineTo(x + reach, y + reach * down);
  }
  context.stroke();
}
