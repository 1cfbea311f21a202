// SPDX-License-Identifier: Apache-2.0
// What is picked on the map: a node or host with its ports, or a link with both of its directions.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useSyncExternalStore, type ReactNode } from "react";
import type { LayerFeed } from "../../api/map";
import * as queries from "../../api/queries";
import type { FabricMap } from "../../api/types";
import { count } from "../../lib/format";
import { devicesOf, endsOf, LEGENDS, linksOf, nameOf, stateAt, STATES, statesAt, worstFirst, type Layer } from "../../lib/mapLayer";
import { linksOf as hostLinks, worstPort } from "../../lib/host";
import { syncWord } from "../../lib/node";
import { ofPort } from "../../lib/state";
import { ProblemsOf } from "../../ui/ProblemsOf";
import { StateWord } from "../../ui/State";
import { DrainButton } from "../drains/DrainButton";
import { GroupNames, GroupsThrough } from "./GroupsThrough";
import { LastEvents } from "./LastEvents";

/** Ports that are listed. */
const LISTED = 32;
const NONE = new Uint8Array();

interface Props {
  map: FabricMap;
  /** Index of a node, host or link, in this order. */
  at: number;
  layer: Layer;
  feed: LayerFeed;
}

export function Picked({ map, at, layer, feed }: Props) {
  const of = { map, layer, feed };
  if (at >= devicesOf(map)) return <PickedLink {...of} link={at - devicesOf(map)} />;
  return at < map.nodes.length ? <PickedNode {...of} at={at} /> : <PickedHost {...of} at={at} />;
}

/** Its name, which is read aloud when something else is picked, and what can be done. */
function Head({ name, children }: { name: ReactNode; children: ReactNode }) {
  return (
    <div aria-live="polite">
      <h2>{name}</h2>
      <div className="tools">{children}</div>
    </div>
  );
}

function PickedNode({ map, at, layer, feed }: Props) {
  const name = nameOf(map, at);
  const node = useQuery(queries.node(name)).data;
  const [state, word] = node ? syncWord(node) : (["pending", "reading…"] as const);
  return (
    <>
      <Head name={<Link to="/nodes/$node" params={{ node: name }}>{name}</Link>}>
        <StateWord state={state}>{word}</StateWord>
        <DrainButton target={{ node: name }} stays />
      </Head>
      <ProblemsOf kind="node" name={name} />
      <Ports map={map} at={at} layer={layer} feed={feed} />
      {node && <GroupsThrough node={name} programs={node.spec.groups} />}
      <LastEvents kind="node" name={name} />
    </>
  );
}

function PickedHost({ map, at, layer, feed }: Props) {
  const name = nameOf(map, at);
  const host = useQuery(queries.host(name)).data;
  return (
    <>
      <Head name={<><Link to="/hosts/$host" params={{ host: name }}>{name}</Link> <span className="faint">host</span></>}>
        {host ? <StateWord state={ofPort(worstPort(host))}>port {worstPort(host).toLowerCase()}</StateWord> : <StateWord state="pending">reading…</StateWord>}
      </Head>
      {host && hostLinks(host).map(({ node, port }) => <ProblemsOf key={node} kind="port" name={`${node}/${port}`} />)}
      <Ports map={map} at={at} layer={layer} feed={feed} />
      {host && <GroupNames names={host.status.groups.map((group) => group.name)} total={new Set(host.status.groups.map((group) => group.name)).size} more={Math.max(0, host.status.sources + host.status.receivers - host.status.groups.length)} />}
      <LastEvents kind="host" name={name} />
    </>
  );
}

/** The ports of a node or host as links to what leaves there, with the words of the lines that the map draws, the worst first. */
function Ports({ map, at, layer, feed }: Props) {
  const isHost = at >= map.nodes.length;
  const links = useMemo(() => linksOf(map, at), [map, at]);
  // As text: another one only if a state is another one.
  const states = useSyncExternalStore(feed.subscribe, () => statesAt(feed.now() ?? NONE, feed.now() ? links : [], layer).join(""));
  return (
    <>
      <h3>{isHost && links.length === 1 ? "Port" : "Ports"}</h3>
      <ul className="plain-list states" aria-label={`Ports of ${nameOf(map, at)}`}>
        {worstFirst(links, [...states].map(Number)).slice(0, LISTED).map(({ link, state }) => {
          const [a, b] = endsOf(map, link);
          const [mine, other] = map.links[link]?.a === at ? [a, b] : [b, a];
          // Nothing is measured of what leaves a host.
          const [node = "", port = ""] = (isHost ? other : mine).split("/");
          return (
            <li key={link}>
              <span><Link to="/links/$node/$port" params={{ node, port }}>{mine.split("/")[1]}</Link> to {other}</span>
              {state && <StateWord state={state}>{LEGENDS[layer][state]}</StateWord>}
            </li>
          );
        })}
        {links.length > LISTED && <li>{count(links.length - LISTED)} more</li>}
        {links.length === 0 && <li className="faint">It has no link.</li>}
      </ul>
    </>
  );
}

function PickedLink({ map, link, layer, feed }: { map: FabricMap; link: number; layer: Layer; feed: LayerFeed }) {
  const [a, b] = endsOf(map, link);
  const name = `${a}--${b}`;
  const isOfHost = Math.max(map.links[link]?.a ?? 0, map.links[link]?.b ?? 0) >= map.nodes.length;
  return (
    <>
      <Head name={<>{a} to {b}</>}>
        <DrainButton target={{ link: name }} why={isOfHost ? "A link to a host cannot be drained: the host has no other." : ""} stays />
      </Head>
      <ProblemsOf kind="link" name={name} />
      <ProblemsOf kind="port" name={a} />
      <ProblemsOf kind="port" name={b} />
      <h3>Directions</h3>
      <ul className="plain-list states" aria-label={`Directions of ${name}`}>
        <Direction map={map} link={link} of={0} layer={layer} feed={feed} />
        <Direction map={map} link={link} of={1} layer={layer} feed={feed} />
      </ul>
      <LastEvents kind="link" name={name} />
    </>
  );
}

/** What one end of a link sends, with the state of its half of the line. */
function Direction({ map, link, of, layer, feed }: { map: FabricMap; link: number; of: 0 | 1; layer: Layer; feed: LayerFeed }) {
  const [from, to] = of === 0 ? endsOf(map, link) : [...endsOf(map, link)].reverse() as [string, string];
  const octet = useSyncExternalStore(feed.subscribe, () => feed.now()?.[2 * link + of]);
  const state = octet === undefined ? undefined : STATES[stateAt(octet, layer)];
  const [device = "", port = ""] = from.split("/");
  const sender = (of === 0 ? map.links[link]?.a : map.links[link]?.b) ?? 0;
  return (
    <li>
      <span>{sender >= map.nodes.length ? from : <Link to="/links/$node/$port" params={{ node: device, port }}>{from}</Link>} to {to}</span>
      {state && <StateWord state={state}>{LEGENDS[layer][state]}</StateWord>}
    </li>
  );
}
