// SPDX-License-Identifier: Apache-2.0
// The state of the fabric on one picture. A canvas, and the same as a table on Nodes and Links.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useMemo } from "react";
import { map as mapQuery } from "../api/map";
import type { FabricMap as Fabric } from "../api/types";
import { useLayer } from "../api/useLayer";
import { counted } from "../lib/format";
import { indexOf, LAYERS, LEGENDS, linksNeeding, linkStates, nameOf, nodesNeeding, STATES, statesOf, type Layer } from "../lib/mapLayer";
import { ErrorNote, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { FabricMap } from "./topology/FabricMap";
import { Picked } from "./topology/Picked";
import { FEW } from "./topology/scene";
import { Undeclared } from "./topology/Undeclared";

const route = getRouteApi("/topology");

export function TopologyPage() {
  const query = useQuery(mapQuery);
  return (
    <Page title="Topology" tab="Topology">
      <Loaded query={query}>
        {(map) => (map ? <OfFabric map={map} /> : <Undeclared>There is no topology yet: nodes, hosts and links have to be declared first.</Undeclared>)}
      </Loaded>
    </Page>
  );
}

function OfFabric({ map }: { map: Fabric }) {
  const { links: layer = "state", picked = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const [nodes, nodesRead] = useLayer(map, "nodes", useCallback((octets: Uint8Array) => nodesNeeding(map, statesOf(octets, "nodes")), [map]));
  const [links, linksRead] = useLayer(map, layer, useCallback((octets: Uint8Array) => wordsOfLinks(map, octets, layer), [map, layer]));
  // By its name: another map has it at another place, or not at all.
  const at = useMemo(() => indexOf(map, picked), [map, picked]);
  const error = nodesRead.error ?? linksRead.error;
  return (
    <>
      <ErrorNote error={error} />
      <dl className="facts" aria-label="What needs someone">
        <dt>
          <Link to="/nodes">{counted(map.nodes.length, "node")}</Link>
        </dt>
        <dd>{nodesRead.phase === "reading" ? "…" : nodesRead.words || "all in sync"}</dd>
        <dt>
          <Link to="/links">{counted(map.links.length, "link")}</Link>
        </dt>
        <dd>{linksRead.phase === "reading" ? "reading…" : linksRead.words}</dd>
      </dl>
      <div className="legend">
        <label>
          Lines by{" "}
          <select value={layer} onChange={(event) => void navigate({ search: (old) => ({ ...old, links: event.target.value === "state" ? undefined : (event.target.value as Layer) }), replace: true })}>
            {LAYERS.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {STATES.map((state) => (
          <StateWord key={state} state={state}>
            {LEGENDS[layer][state]}
          </StateWord>
        ))}
        <span className="faint">Nodes by the same shapes: in sync, not applied yet, with errors, not connected.{map.nodes.length + map.hosts.length > FEW && " From far, a cell is a pod: in the worst state of its nodes and links."}</span>
      </div>
      <div className="fabric">
        <FabricMap map={map} layer={layer} nodes={nodes} links={links} picked={at} isStale={Boolean(error)} onPick={(next) => void navigate({ search: (old) => ({ ...old, picked: nameOf(map, next) || undefined }), replace: true })} />
        <section aria-label="Picked">
          {at >= 0 ? <Picked key={picked} map={map} at={at} layer={layer} feed={links} /> : <Hint name={picked} />}
        </section>
      </div>
      <p className="faint">
        {counted(map.hosts.length, "host")}, each below its node; higher tiers are above. A node without a declared tier has as many as it has hops to the nearest host.
      </p>
    </>
  );
}

/** What there is to do while nothing is picked. */
function Hint({ name }: { name: string }) {
  return (
    <>
      {name && <p role="status">The topology has no {name}.</p>}
      <p className="faint">
        Pick a node, host or link: click it, or use Tab and the arrow keys in the map. <kbd>L</kbd> goes over the links of what is picked, <kbd>Shift</kbd> <kbd>L</kbd> backwards; <kbd>Enter</kbd> goes to it.
      </p>
      <p className="faint">Drag to move, turn the wheel or press <kbd>+</kbd> and <kbd>−</kbd> to zoom, <kbd>0</kbd> to see everything.</p>
    </>
  );
}

function wordsOfLinks(map: Fabric, octets: Uint8Array, layer: Layer): string {
  const states = linkStates(statesOf(octets, layer), layer);
  const words = linksNeeding(map, states, layer);
  if (words) return words;
  if (layer === "state") return "all in service";
  return states.some((state) => state === 0) ? `${LEGENDS[layer].ok}, where it is measured` : "none is measured";
}
