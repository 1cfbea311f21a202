// SPDX-License-Identifier: Apache-2.0
// The state of the fabric on one picture. A canvas, and the same as a table on Nodes and Links.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Topology } from "../api/types";
import { count, counted } from "../lib/format";
import { byObject, LAYERS, LEGENDS, linkMeasures, linksNeeding, linkStates, reporting, type Layer } from "../lib/link";
import { device, mapLayout, type MapNode } from "../lib/map";
import { notInSync, syncWord } from "../lib/node";
import type { State } from "../lib/state";
import { Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { FabricMap } from "./topology/FabricMap";
import { Undeclared } from "./topology/Undeclared";

const route = getRouteApi("/topology");

/** As the legend has them. */
const ORDER: readonly State[] = ["ok", "pending", "degraded", "failed"];

export function TopologyPage() {
  const query = useQuery(queries.topology);
  return (
    <Page title="Topology" tab="Topology">
      <Loaded query={query}>
        {(topology) =>
          topology ? <Fabric topology={topology} /> : <Undeclared>There is no topology yet: nodes, hosts and links have to be declared first.</Undeclared>
        }
      </Loaded>
    </Page>
  );
}

function Fabric({ topology }: { topology: Topology }) {
  const { links: layer = "state" } = route.useSearch();
  const navigate = route.useNavigate();
  const nodes = useQuery(queries.nodes).data;
  const problems = useQuery(queries.problems).data;
  const drains = useQuery(queries.drains).data;
  // Large in a large fabric, and read only where what was measured is to be drawn; states are those of nodes, problems and drains.
  const links = useQuery({ ...queries.links, enabled: layer !== "state" }).data;
  const [picked, setPicked] = useState<MapNode | null>(null);
  const layout = useMemo(() => mapLayout(topology.spec), [topology.spec]);
  const nodeStates = useMemo(() => new Map((nodes ?? []).map((node) => [node.metadata.name, syncWord(node)[0]])), [nodes]);
  const states = useMemo(
    () => (layer === "state" ? linkStates(topology.spec, byObject(problems ?? []), new Set(drains?.flatMap((drain) => drain.status.links)), reporting(nodes)) : linkMeasures(links ?? [], layer)),
    [layer, links, topology.spec, drains, problems, nodes],
  );
  const needing = useMemo(() => linksNeeding(states, layer), [states, layer]);
  return (
    <>
      <dl className="facts" aria-label="What needs someone">
        <dt>
          <Link to="/nodes">{counted(topology.spec.nodes.length, "node")}</Link>
        </dt>
        <dd>{nodes ? notInSync(nodes) || "all in sync" : "…"}</dd>
        <dt>
          <Link to="/links">{counted(topology.spec.links.length, "link")}</Link>
        </dt>
        <dd>{needing || (layer === "state" ? "all in service" : links ? "none that was measured" : "reading…")}</dd>
      </dl>
      <div className="legend">
        <label>
          Lines by{" "}
          <select value={layer} onChange={(event) => void navigate({ search: event.target.value === "state" ? {} : { links: event.target.value as Layer }, replace: true })}>
            {LAYERS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {ORDER.map((state) => (
          <StateWord key={state} state={state}>
            {LEGENDS[layer][state]}
          </StateWord>
        ))}
        <span className="faint">Nodes by the same shapes: in sync, not applied yet, with errors, not connected.</span>
      </div>
      <FabricMap layout={layout} nodeStates={nodeStates} linkStates={states} picked={picked} onPick={setPicked} />
      <section aria-label="Picked" aria-live="polite">
        {picked ? <Picked node={picked} topology={topology} /> : <p className="faint">Pick a node: click it, or use Tab and the arrow keys in the map. Drag to move, turn the wheel or press + and − to zoom, 0 to see everything.</p>}
      </section>
      <p className="faint">
        {counted(topology.spec.hosts?.length ?? 0, "host")} at the bottom; a node is as many rows above as it has hops to the nearest host.
      </p>
    </>
  );
}

function Picked({ node, topology }: { node: MapNode; topology: Topology }) {
  const found = useQuery(queries.nodes).data?.find((n) => n.metadata.name === node.name);
  const links = topology.spec.links.filter((link) => device(link.a) === node.name || device(link.b) === node.name);
  const [state, word] = found ? syncWord(found) : (["ok", "host"] as const);
  return (
    <>
      <h2>
        {node.isHost ? node.name : <Link to="/nodes/$node" params={{ node: node.name }}>{node.name}</Link>} <StateWord state={state}>{word}</StateWord>
      </h2>
      {!node.isHost && <ProblemsOf kind="node" name={node.name} />}
      <ul>
        {links.slice(0, 32).map((link) => {
          const [mine, other] = device(link.a) === node.name ? [link.a, link.b] : [link.b, link.a];
          const [from = "", port = ""] = (node.isHost ? other : mine).split("/");
          return (
            <li key={`${link.a} ${link.b}`}>
              <Link to="/links/$node/$port" params={{ node: from, port }}>
                {mine}
              </Link>{" "}
              to {other}
              {link.drained ? ", drained" : ""}
            </li>
          );
        })}
        {links.length > 32 && <li>{count(links.length - 32)} more</li>}
      </ul>
    </>
  );
}
