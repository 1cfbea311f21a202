// SPDX-License-Identifier: Apache-2.0
// The state of the fabric on one picture. A canvas, and the same as a table on Nodes and Links.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Topology } from "../api/types";
import { count, counted } from "../lib/format";
import { device, mapLayout, type MapNode } from "../lib/map";
import { syncWord } from "../lib/node";
import { ofSeverity, worst, type State } from "../lib/state";
import { Empty, Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { byObject } from "./Links";
import { FabricMap } from "./topology/FabricMap";
import { TopologyDialog } from "./topology/TopologyDialog";

export function TopologyPage() {
  const query = useQuery(queries.topology);
  return (
    <Page title="Topology" tab="Topology">
      <Loaded query={query}>
        {(topology) =>
          topology ? <Fabric topology={topology} /> : <Undeclared />
        }
      </Loaded>
    </Page>
  );
}

function Undeclared() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Empty command="canopyctl apply -f topology.yaml">There is no topology yet: nodes, hosts and links have to be declared first.</Empty>
      <button type="button" className="primary" onClick={() => setOpen(true)}>Declare…</button>
      {isOpen && <TopologyDialog onClose={() => setOpen(false)} />}
    </>
  );
}

function Fabric({ topology }: { topology: Topology }) {
  const nodes = useQuery(queries.nodes).data;
  const problems = useQuery(queries.problems).data;
  const drains = useQuery(queries.drains).data;
  const [picked, setPicked] = useState<MapNode | null>(null);
  const layout = useMemo(() => mapLayout(topology.spec), [topology.spec]);
  const nodeStates = useMemo(() => new Map((nodes ?? []).map((node) => [node.metadata.name, syncWord(node)[0]])), [nodes]);
  // From problems and drains, which are few: the list of all links is large in a large fabric.
  const linkStates = useMemo(() => {
    const known = byObject(problems ?? []);
    const drained = new Set(drains?.flatMap((drain) => drain.status.links));
    return new Map(
      topology.spec.links.map((link): [string, State] => {
        const name = `${link.a}--${link.b}`;
        const found = [name, link.a, link.b].flatMap((of) => known.get(of) ?? []);
        if (found.length) return [name, worst(found.map((problem) => ofSeverity(problem.severity)))];
        return [name, link.drained || drained.has(name) ? "pending" : "ok"];
      }),
    );
  }, [topology.spec.links, drains, problems]);
  const order: readonly [State, string][] = [["ok", "in service, in sync"], ["pending", "drained, or not applied yet"], ["degraded", "a warning"], ["failed", "critical, or not connected"]];
  return (
    <>
      <p className="faint">
        {counted(topology.spec.nodes.length, "node")}, {counted(topology.spec.hosts?.length ?? 0, "host")}, {counted(topology.spec.links.length, "link")}. Hosts are at the bottom; a node is as many rows above as it
        has hops to the nearest host. The same as tables: <Link to="/nodes">Nodes</Link>, <Link to="/links">Links</Link>.
      </p>
      <div className="legend">
        {order.map(([state, word]) => (
          <StateWord key={state} state={state}>
            {word}
          </StateWord>
        ))}
      </div>
      <FabricMap layout={layout} nodeStates={nodeStates} linkStates={linkStates} picked={picked} onPick={setPicked} />
      <section aria-label="Picked" aria-live="polite">
        {picked ? <Picked node={picked} topology={topology} /> : <p className="faint">Pick a node: click it, or use Tab and the arrow keys in the map. Drag to move, turn the wheel or press + and − to zoom, 0 to see everything.</p>}
      </section>
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
