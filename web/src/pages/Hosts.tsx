// SPDX-License-Identifier: Apache-2.0
// Where is each host, and is its port up?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Host, HostAgent } from "../api/types";
import { usePages } from "../api/usePages";
import { count } from "../lib/format";
import { isAway, needs, needsOfMany } from "../lib/host";
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

const name = (h: Host): string => h.metadata.name;
/** Those whose port needs someone first, then those that applications cannot use to join. */
const order = (a: Host, b: Host): number => PORT_ORDER.indexOf(a.status.port) - PORT_ORDER.indexOf(b.status.port) || Number(isAway(b)) - Number(isAway(a)) || byName(a.metadata.name, b.metadata.name);

const COLUMNS: readonly Column<Host>[] = [
  { name: "Name", width: "minmax(5rem, 1fr)", cell: (h) => <Link to="/hosts/$host" params={{ host: h.metadata.name }}>{h.metadata.name}</Link>, sort: (h) => h.metadata.name },
  { name: "Port state", width: "6.5rem", cell: (h) => <StateWord state={ofPort(h.status.port)}>{h.status.port}</StateWord>, sort: (h) => PORT_ORDER.indexOf(h.status.port) },
  { name: "Node", width: "minmax(5rem, .8fr)", wide: true, cell: (h) => <Link to="/nodes/$node" params={{ node: h.spec.node }}>{h.spec.node}</Link>, sort: (h) => h.spec.node },
  { name: "Port", width: "4rem", wide: true, cell: (h) => h.spec.port },
  { name: "Sends to", width: "4.2rem", right: true, wide: true, cell: (h) => count(h.status.sources), sort: (h) => h.status.sources },
  { name: "Receives", width: "4.5rem", right: true, wide: true, cell: (h) => count(h.status.receivers), sort: (h) => h.status.receivers },
  { name: "Agent", width: "8.2rem", cell: (h) => <AgentWord of={h.status.agent ?? "OfNode"} />, sort: (h) => AGENT_ORDER.indexOf(h.status.agent ?? "OfNode") },
  { name: "Address", width: "minmax(8rem, 1fr)", wide: true, cell: (h) => <Mono>{h.spec.address}</Mono> },
  { name: "Why", width: "minmax(8rem, 3fr)", wide: true, cell: (h) => <span title={h.status.reason}>{h.status.reason}</span> },
];

export function Hosts() {
  const total = useQuery(queries.status).data?.hosts;
  const { query, items, hasMore, more } = usePages(queries.hosts, total, WHOLE);
  const [text, setText] = useState("");
  // Of many hosts not all are read: the controller finds those whose port needs someone, and those of a name.
  const found = useQuery({ ...queries.hostsNotUp, enabled: total !== undefined && total > WHOLE }).data;
  const named = useQuery({ ...queries.hostsNamed(text.toLowerCase()), enabled: hasMore && text !== "" }).data;
  const all = useMemo(() => (hasMore ? distinct([found?.items.toSorted(order), named, items], name) : items), [hasMore, found, named, items]);
  const rows = useMemo(() => all.filter((h) => `${name(h)}\n${h.spec.node}\n${h.status.port}`.includes(text)), [all, text]);
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
