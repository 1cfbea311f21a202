// SPDX-License-Identifier: Apache-2.0
// Where is each host, and is its port up?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment, useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Host, HostAgent } from "../api/types";
import { usePages } from "../api/usePages";
import { count } from "../lib/format";
import { isAway, linksOf, needs, needsOfMany, worstPort } from "../lib/host";
import { byName, distinct } from "../lib/order";
import { ofPort, PORT_ORDER } from "../lib/state";
import { Mono } from "../ui/Command";
import { ListTools } from "../ui/ListTools";
import { ReadFailed, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { Undeclared } from "./topology/Undeclared";

/** Up to so many hosts are read whole, so that filters and sorting are of all of them. */
const WHOLE = 2000;

const AGENT_ORDER: readonly HostAgent[] = ["NotConnected", "Connected", "OfNode"];

function AgentWord({ of }: { of: HostAgent }) {
  return of === "OfNode" ? <span className="faint">of its node</span> : <StateWord state={of === "Connected" ? "ok" : "degraded"}>{of === "Connected" ? "connected" : "not connected"}</StateWord>;
}

/** The states of its ports, each once, the worst first. */
function PortWords({ of }: { of: Host }) {
  const states = PORT_ORDER.filter((state) => linksOf(of).some((link) => link.state === state));
  return states.map((state, at) => <Fragment key={state}>{at > 0 && ", "}<StateWord state={ofPort(state)}>{state}</StateWord></Fragment>);
}

/** What is wrong with its ports. */
function Reasons({ of }: { of: Host }) {
  const reasons = [...new Set(linksOf(of).map((link) => link.reason).filter(Boolean))].join("; ");
  return <span title={reasons}>{reasons}</span>;
}

const name = (h: Host): string => h.metadata.name;
/** Those whose port needs someone first, then those that applications cannot use to join. */
const order = (a: Host, b: Host): number => PORT_ORDER.indexOf(worstPort(a)) - PORT_ORDER.indexOf(worstPort(b)) || Number(isAway(b)) - Number(isAway(a)) || byName(a.metadata.name, b.metadata.name);

const COLUMNS: readonly Column<Host>[] = [
  { name: "Name", width: "minmax(5rem, 1fr)", cell: (h) => <Link to="/hosts/$host" params={{ host: h.metadata.name }}>{h.metadata.name}</Link>, sort: (h) => h.metadata.name },
  { name: "Port state", width: "6.5rem", cell: (h) => <PortWords of={h} />, sort: (h) => PORT_ORDER.indexOf(worstPort(h)) },
  { name: "Node", width: "minmax(5rem, .8fr)", wide: true, cell: (h) => linksOf(h).map(({ node }, at) => <Fragment key={node}>{at > 0 && ", "}<Link to="/nodes/$node" params={{ node }}>{node}</Link></Fragment>), sort: (h) => h.spec.node },
  { name: "Port", width: "4rem", wide: true, cell: (h) => linksOf(h).map((link) => link.port).join(", ") },
  { name: "Sends to", width: "4.2rem", right: true, wide: true, cell: (h) => count(h.status.sources), sort: (h) => h.status.sources },
  { name: "Receives", width: "4.5rem", right: true, wide: true, cell: (h) => count(h.status.receivers), sort: (h) => h.status.receivers },
  { name: "Agent", width: "8.2rem", cell: (h) => <AgentWord of={h.status.agent ?? "OfNode"} />, sort: (h) => AGENT_ORDER.indexOf(h.status.agent ?? "OfNode") },
  { name: "Address", width: "minmax(8rem, 1fr)", wide: true, cell: (h) => <Mono>{h.spec.address}</Mono> },
  { name: "Why", width: "minmax(8rem, 3fr)", wide: true, cell: (h) => <Reasons of={h} /> },
];

export function Hosts() {
  const total = useQuery(queries.status).data?.hosts;
  const { query, items, hasMore, more } = usePages(queries.hosts, total, WHOLE);
  const [text, setText] = useState("");
  // Of many hosts not all are read: the controller finds those whose port needs someone, and those of a name.
  const found = useQuery({ ...queries.hostsNotUp, enabled: total !== undefined && total > WHOLE }).data;
  const named = useQuery({ ...queries.hostsNamed(text.toLowerCase()), enabled: hasMore && text !== "" }).data;
  const all = useMemo(() => (hasMore ? distinct([found?.items.toSorted(order), named, items], name) : items), [hasMore, found, named, items]);
  const rows = useMemo(() => all.filter((h) => [name(h), ...linksOf(h).flatMap((link) => [link.node, link.state])].some((word) => word.includes(text))), [all, text]);
  const needing = useMemo(() => {
    if (!hasMore) return needs(items);
    return found ? needsOfMany(found.items, Boolean(found.metadata.continue), items) : "";
  }, [hasMore, items, found]);
  return (
    <Page title="Hosts" tab="Hosts">
      <ReadFailed query={query} />
      <ListTools by="name, node or state" text={text} onText={setText} shown={rows.length} read={items.length} total={total} noun="host" isThere={query.data !== undefined} hasMore={hasMore} onMore={more} words={needing} />
      {query.data && items.length === 0 ? (
        <Undeclared>There is no host: hosts are part of the topology.</Undeclared>
      ) : (
        <Table label="Hosts" columns={COLUMNS} rows={rows} rowKey={name} wraps {...(!hasMore && { order })} total={text ? rows.length : total} {...(!text && { onEnd: more })} />
      )}
    </Page>
  );
}
