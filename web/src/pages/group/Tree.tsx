// SPDX-License-Identifier: Apache-2.0
// The tree from left to right by hop. State by colour, dash and the name that assistive technology reads; widths, rates and motion are written
// into it as samples come.
import { Link } from "@tanstack/react-router";
import { useEffect, useMemo, useRef } from "react";
import type { Group, Problem } from "../../api/types";
import { count, counted } from "../../lib/format";
import type { GroupFlow } from "../../lib/groupFlow";
import { inWords, progress } from "../../lib/move";
import { ofSeverity, worst, type State } from "../../lib/state";
import { ASIDE, layout, ofStrip, sizesOf, stateOf, type Layout, type Place } from "../../lib/tree";
import { StateWord } from "../../ui/State";
import { Wide } from "../../ui/Wide";
import { drawFlow } from "./drawFlow";
import { Legend } from "./Legend";
import { Motion } from "./motion";

const ROW = 44;
const HEIGHT = 32;

interface Props {
  group: Group;
  problems: readonly Problem[];
  flow: GroupFlow;
}

const WORDS: Record<State, string> = { ok: "works", pending: "not confirmed yet", degraded: "degraded", failed: "failed" };

export function Tree({ group, problems, flow }: Props) {
  const { tree } = group.status;
  const drawn = useMemo(() => layout(tree), [tree]);
  const states = useMemo(() => statesOf(group, problems), [group, problems]);
  const made = useMemo(() => progress(group.status), [group.status]);
  if (tree.length === 0) return <p className="faint">There is no tree: {group.status.reason || "the group waits for its members"}.</p>;
  const words = inWords(made);
  const strips = drawn.places.some(({ kind }) => kind === "strip");
  return (
    <>
      {words && (
        <p role="status">
          <StateWord state="pending">{made.moves ? "moving" : "not confirmed yet"}</StateWord> {words}
          {made.moves && " The lines are the tree in force."}
        </p>
      )}
      <Wide key={group.metadata.name} name="The tree">
        {(room) => (
          <Drawn
            drawn={drawn}
            coming={made.coming}
            room={room}
            states={states}
            flow={flow}
            label={`Tree of ${group.metadata.name}: ${counted(tree.length, "node")}, ${counted(group.status.receivers, "receiver")}`}
          />
        )}
      </Wide>
      <Legend hasStrips={strips} />
    </>
  );
}

interface DrawnProps {
  drawn: Layout;
  /** Nodes that only the next tree has. */
  coming: readonly string[];
  room: number;
  states: ReadonlyMap<string, State>;
  flow: GroupFlow;
  label: string;
}

function Drawn({ drawn, coming, room, states, flow, label }: DrawnProps) {
  const svg = useRef<SVGSVGElement>(null);
  useEffect(() => {
    const picture = svg.current;
    if (!picture) return undefined;
    const motion = new Motion(picture);
    const end = flow.subscribe(() => drawFlow(picture, drawn.edges, flow, motion));
    return () => {
      end();
      motion.end();
    };
  }, [flow, drawn]);
  const { column, box, width } = sizesOf(drawn, room);
  const at = new Map(drawn.places.map((place) => [place.name, place]));
  const x = (place: Pick<Place, "hop">) => ASIDE / 2 + place.hop * column;
  const y = (place: Pick<Place, "row">) => 24 + place.row * ROW;
  const rows = Math.max(1, drawn.rows);
  const next = comingPlaces(coming, drawn.hops + 1, rows + 0.5);
  const height = HEIGHT + (next.rows ? rows + 0.5 + next.rows : rows) * ROW;
  const lines = drawn.edges.flatMap((edge, index) => {
    const [from, to] = [at.get(edge.from), at.get(edge.to)];
    if (!from || !to) return [];
    const [x1, y1, x2, y2] = [x(from) + box, y(from) + HEIGHT / 2, x(to), y(to) + HEIGHT / 2];
    const middle = (x1 + x2) / 2;
    return [{ key: `${edge.from} ${edge.to}`, index, from, to, state: stateOf(to, states), d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` }];
  });
  return (
    <svg ref={svg} width={width} height={height} role="group" aria-label={label}>
      {lines.map(({ key, index, state, d }) => (
        <g key={key} className={state}>
          <path className="edge" data-edge={index} d={d} strokeDasharray={state === "ok" ? undefined : state === "pending" ? "2 4" : "7 4"} />
          <path className="beads" data-beads={index} d={d} />
        </g>
      ))}
      {/* Above every line, of which none crosses a number then. */}
      {lines.map(({ key, index, from, to }) => (
        <text key={key} className="small" x={x(to) - 6} y={y(to) + HEIGHT / 2 + (y(from) < y(to) ? 14 : -5)} textAnchor="end" data-rate={index} aria-hidden="true" />
      ))}
      {drawn.places.map((place) => (
        <PlaceBox key={`${place.kind} ${place.name}`} place={place} x={x(place)} y={y(place)} width={box} states={states} />
      ))}
      {next.places.length > 0 && <text className="small" x={ASIDE / 2} y={24 + rows * ROW + 12}>Of the next tree only:</text>}
      {next.places.map(({ name, ...place }) => (
        <Coming key={name} name={name} x={x(place)} y={y(place)} width={box} state={states.get(name) ?? "ok"} />
      ))}
    </svg>
  );
}

/** Where nodes of the next tree are drawn: in rows below the tree. REST has no branches of theirs before the group has moved. */
function comingPlaces(names: readonly string[], columns: number, row: number) {
  const places = names.map((name, at) => ({ name, hop: at % columns, row: row + Math.floor(at / columns) }));
  return { places, rows: Math.ceil(names.length / columns) };
}

function Coming({ name, x, y, width, state }: { name: string; x: number; y: number; width: number; state: State }) {
  const under = state === "ok" ? "confirmed" : WORDS[state];
  return (
    <Link to="/nodes/$node" params={{ node: name }} aria-label={`${name} ${under}: of the next tree only`}>
      <g transform={`translate(${x} ${y})`} className={state}>
        <rect className="box coming" width={width} height={HEIGHT} rx="4" />
        <Mark state={state} />
        <text x="28" y="14">{name}</text>{" "}
        <text x="28" y="27" className="small">{under}</text>
      </g>
    </Link>
  );
}

/** What a node is beside one that copies packets to others, which the lines show; there is room for one word. */
const ownRoles = (roles: readonly string[]): readonly string[] => (roles.length > 1 ? roles.filter((role) => role !== "transit") : roles);

function PlaceBox({ place, x, y, width, states }: { place: Place; x: number; y: number; width: number; states: ReadonlyMap<string, State> }) {
  const state = stateOf(place, states);
  const strip = place.kind === "strip" ? ofStrip(place, states) : undefined;
  const name = strip ? `${count(strip.ready)} / ${count(place.receivers.length)} ready` : place.name;
  const under = strip ? strip.words || (place.receivers.length === 1 ? "receiver" : "receivers") : place.kind === "node" ? ownRoles(place.roles).join(", ") : place.kind;
  const box = (
    <g transform={`translate(${x} ${y})`} className={state}>
      {strip && strip.worst.length > 0 && <title>{`The worst: ${strip.worst.join(", ")}`}</title>}
      <rect className="box" width={width} height={HEIGHT} rx={place.kind === "node" ? 4 : 16} />
      <Mark state={state} />
      <text x="28" y="14">{name}</text>{" "}
      <text x="28" y="27" className="small">{under}</text>
    </g>
  );
  // Begins with the text that is drawn, so that what is seen can be used to name it.
  const label = `${name} ${under}: ${strip ? strip.worst.join(", ") || WORDS.ok : WORDS[state]}`;
  if (place.kind === "node") {
    return (
      <Link to="/nodes/$node" params={{ node: place.name }} aria-label={label}>
        {box}
      </Link>
    );
  }
  return (
    <g role="img" aria-label={label}>
      {box}
    </g>
  );
}

function Mark({ state }: { state: State }) {
  const place = "translate(9 10)";
  switch (state) {
    case "ok":
      return <circle cx="15" cy="16" r="5" fill="currentColor" />;
    case "pending":
      return <circle cx="15" cy="16" r="4" fill="none" stroke="currentColor" strokeWidth="2" strokeDasharray="3 2" />;
    case "degraded":
      return <path transform={place} d="M6 1 L11.5 11 H0.5 Z" fill="currentColor" />;
    case "failed":
      return <path transform={place} d="M1 1h10v10H1z M3.5 3.5l5 5 M8.5 3.5l-5 5" fill="currentColor" stroke="var(--raised)" strokeWidth="1.5" />;
  }
}

/** By node or host: what nodes confirmed, and which problems are open. */
function statesOf(group: Group, problems: readonly Problem[]): Map<string, State> {
  const states = new Map<string, State[]>();
  const add = (name: string, state: State) => states.set(name, [...(states.get(name) ?? []), state]);
  for (const progress of group.status.nodes) {
    if (progress.errors.length) add(progress.node, "failed");
    // While its agent restarts a node forwards; once it stays away there is a problem, which has a severity.
    else if (!progress.connected || (progress.observedGeneration ?? 0) < progress.desiredGeneration) add(progress.node, "pending");
  }
  for (const host of group.status.probing ?? []) add(host, "pending");
  const ports = new Set(group.status.tree.flatMap((n) => [n.upstreamPort, ...n.branches.map((b) => b.port)].map((port) => `${n.node}/${port}`)));
  const prefix = `${group.metadata.name}/`;
  for (const problem of problems) {
    const { kind, name } = problem.object;
    if (kind === "member" && name.startsWith(prefix)) add(name.slice(prefix.length), ofSeverity(problem.severity));
    if (kind === "node") add(name, ofSeverity(problem.severity));
    if (kind === "port" && ports.has(name)) add(name.split("/")[0] ?? name, ofSeverity(problem.severity));
  }
  return new Map([...states].map(([name, list]) => [name, worst(list)]));
}
