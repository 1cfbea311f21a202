// SPDX-License-Identifier: Apache-2.0
// The map's canvas. What it shows goes to its drawing past React.
import { useEffect, useRef, useState } from "react";
import type { LayerFeed } from "../../api/map";
import type { FabricMap as Fabric } from "../../api/types";
import { counted } from "../../lib/format";
import { nameOf, type Layer } from "../../lib/mapLayer";
import { Drawing, type Progress } from "./Drawing";
import type { Level } from "./scene";

interface Props {
  map: Fabric;
  layer: Layer;
  nodes: LayerFeed;
  links: LayerFeed;
  /** Index of a node, host or link, in this order; -1 if none. */
  picked: number;
  /** Values are not read any more: what is shown is old. */
  isStale: boolean;
  onPick: (at: number) => void;
}

const LEVELS: Readonly<Record<Level, string>> = { cells: "Pods are shown: zoom in for their nodes.", nodes: "", ports: "Ports are shown; the half of a line at a port is what that port sends." };

const PROGRESS: Readonly<Record<Progress, string>> = { layout: "The map is being laid out.", picture: "The map is being drawn.", there: "", failed: "There is no map." };

export function FabricMap({ map, layer, nodes, links, picked, isStale, onPick }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [drawing, setDrawing] = useState<Drawing | null>(null);
  const [level, setLevel] = useState<Level>("nodes");
  const [[progress, reason], setProgress] = useState<[Progress, string]>(["layout", ""]);
  useEffect(() => {
    if (!canvas.current) return undefined;
    const made = new Drawing(canvas.current, { level: setLevel, progress: (next, why = "") => setProgress([next, why]) });
    setDrawing(made);
    return () => made.end();
  }, []);
  useEffect(() => drawing?.show(map), [drawing, map]);
  useEffect(() => (drawing ? nodes.subscribe((values) => drawing.nodes(values)) : undefined), [drawing, nodes]);
  useEffect(() => (drawing ? links.subscribe((values) => drawing.links(values, layer)) : undefined), [drawing, links, layer]);
  useEffect(() => drawing?.pick(picked), [drawing, picked]);
  const name = picked < 0 ? "" : nameOf(map, picked);
  // Without values nothing is drawn; why there are none is above.
  const waiting = isStale && progress === "picture" ? "" : PROGRESS[progress];
  return (
    <div className={isStale ? "map stale-block" : "map"}>
      {/* The canvas is one control with its own keys; the tables of nodes and links have the same content. */}
      <canvas
        ref={canvas}
        // eslint-disable-next-line jsx-a11y/no-interactive-element-to-noninteractive-role -- it has keys, which the rule does not see
        role="application"
        aria-label={[`Map of ${counted(map.nodes.length, "node")} and ${counted(map.hosts.length, "host")}.`, LEVELS[level], name ? `${name} is picked.` : "Nothing is picked."].filter(Boolean).join(" ")}
        data-level={level}
        tabIndex={0}
        onPointerDown={(event) => drawing?.press(event)}
        onPointerMove={(event) => drawing?.drag(event)}
        onPointerUp={(event) => {
          const hit = drawing?.release(event);
          if (hit !== undefined) onPick(hit);
        }}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          const next = drawing?.key(event.key);
          if (next === undefined) return;
          event.preventDefault();
          if (next >= 0) onPick(next);
        }}
      />
      <p className="progress" role="status">
        {waiting && <span key={waiting}>{reason ? `${waiting} Its worker has ended: ${reason}. Load this page again.` : waiting}</span>}
      </p>
    </div>
  );
}
