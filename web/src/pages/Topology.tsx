// SPDX-License-Identifier: Apache-2.0
// The state of the fabric on one picture. A canvas, and the same as a table on Nodes and Links.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useMemo, useState, useSyncExternalStore } from "react";
import { map as mapQuery, type LayerFeed } from "../api/map";
import * as queries from "../api/queries";
import type { FabricMap as Fabric } from "../api/types";
import { useLayer } from "../api/useLayer";
import { count, counted } from "../lib/format";
import { endsOf, LAYERS, LEGENDS, linksNeeding, linkStates, nameOf, nodesNeeding, STATES, statesAt, statesOf, worstFirst, type Layer } from "../lib/mapLayer";
import { syncWord } from "../lib/node";
import { ErrorNote, Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { FabricMap } from "./topology/FabricMap";
import { FEW } from "./topology/scene";
import { Undeclared } from "./topology/Undeclared";

const route = getRouteApi("/topology");
/** Links of what is picked that are listed. */
const LISTED = 32;
const NONE = new Uint8Array();

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
  const { links: layer = "state" } = route.useSearch();
  const navigate = route.useNavigate();
  const [picked, setPicked] = useState("");
  const [nodes, nodesRead] = useLayer(map, "nodes", useCallback((octets: Uint8Array) => nodesNeeding(map, statesOf(octets, "nodes")), [map]));
  const [links, linksRead] = useLayer(map, layer, useCallback((octets: Uint8Array) => wordsOfLinks(map, octets, layer), [map, layer]));
  const places = useMemo(() => new Map(Array.from({ length: map.nodes.length + map.hosts.length }, (_, at) => [nameOf(map, at), at])), [map]);
  // Its name: another map has it at another place, or not at all.
  const at = places.get(picked) ?? -1;
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
          <select value={layer} onChange={(event) => void navigate({ search: event.target.value === "state" ? {} : { links: event.target.value as Layer }, replace: true })}>
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
      <FabricMap map={map} layer={layer} nodes={nodes} links={links} picked={at} isStale={Boolean(error)} onPick={(next) => setPicked(next < 0 ? "" : nameOf(map, next))} />
      <section aria-label="Picked" aria-live="polite">
        {at >= 0 ? <Picked map={map} at={at} layer={layer} feed={links} /> : <p className="faint">Pick a node: click it, or use Tab and the arrow keys in the map; Enter goes to it. Drag to move, turn the wheel or press + and − to zoom, 0 to see everything.</p>}
      </section>
      <p className="faint">
        {counted(map.hosts.length, "host")}, each below its node; higher tiers are above. A node without a declared tier has as many as it has hops to the nearest host.
      </p>
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

/** What is picked, with its links: the words of the lines that the map draws for them, the worst first. */
function Picked({ map, at, layer, feed }: { map: Fabric; at: number; layer: Layer; feed: LayerFeed }) {
  const name = nameOf(map, at);
  const isHost = at >= map.nodes.length;
  const found = useQuery({ ...queries.node(name), enabled: !isHost }).data;
  const links = useMemo(() => map.links.flatMap(({ a, b }, link) => (a === at || b === at ? [link] : [])), [map, at]);
  // As text: another one only if a state is another one.
  const states = useSyncExternalStore(feed.subscribe, () => statesAt(feed.now() ?? NONE, feed.now() ? links : [], layer).join(""));
  const [state, word] = found ? syncWord(found) : (["pending", "reading…"] as const);
  return (
    <>
      <h2>
        {isHost ? <Link to="/hosts/$host" params={{ host: name }}>{name}</Link> : <Link to="/nodes/$node" params={{ node: name }}>{name}</Link>}{" "}
        {isHost ? <span className="faint">host</span> : <StateWord state={state}>{word}</StateWord>}
      </h2>
      {!isHost && <ProblemsOf kind="node" name={name} />}
      <ul className="prose">
        {worstFirst(links, [...states].map(Number)).slice(0, LISTED).map(({ link, state: ofLine }) => {
          const [a, b] = endsOf(map, link);
          const [mine, other] = map.links[link]?.a === at ? [a, b] : [b, a];
          const [from = "", port = ""] = (isHost ? other : mine).split("/");
          return (
            <li key={link}>
              <Link to="/links/$node/$port" params={{ node: from, port }}>
                {mine}
              </Link>{" "}
              to {other}
              {ofLine && <>, <StateWord state={ofLine}>{LEGENDS[layer][ofLine]}</StateWord></>}
            </li>
          );
        })}
        {links.length > LISTED && <li>{count(links.length - LISTED)} more</li>}
      </ul>
    </>
  );
}
