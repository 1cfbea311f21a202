// SPDX-License-Identifier: Apache-2.0
// Where is each host, and is its port up?
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Host, HostAgent } from "../api/types";
import { count, counted } from "../lib/format";
import { isAway, needs, needsOfMany } from "../lib/host";
import { byName } from "../lib/order";
import { ofPort, PORT_ORDER } from "../lib/state";
import { Mono } from "../ui/Command";
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

/** Those whose port needs someone first, then those that applications cannot use to join. */
const order = (a: Host, b: Host): number => PORT_ORDER.indexOf(a.status.port) - PORT_ORDER.indexOf(b.status.port) || Number(isAway(b)) - Number(isAway(a)) || byName(a.metadata.name, b.metadata.name);

const COLUMNS: readonly Column<Host>[] = [
  { name: "Name", width: "minmax(6rem, 1fr)", cell: (h) => <Link to="/hosts/$host" params={{ host: h.metadata.name }}>{h.metadata.name}</Link>, sort: (h) => h.metadata.name },
  { name: "Port state", width: "7rem", cell: (h) => <StateWord state={ofPort(h.status.port)}>{h.status.port}</StateWord>, sort: (h) => PORT_ORDER.indexOf(h.status.port) },
  { name: "Node", width: "minmax(5rem, .8fr)", cell: (h) => <Link to="/nodes/$node" params={{ node: h.spec.node }}>{h.spec.node}</Link>, sort: (h) => h.spec.node },
  { name: "Port", width: "4rem", wide: true, cell: (h) => h.spec.port },
  { name: "Sends to", width: "4.2rem", right: true, wide: true, cell: (h) => count(h.status.sources), sort: (h) => h.status.sources },
  { name: "Receives", width: "4.5rem", right: true, wide: true, cell: (h) => count(h.status.receivers), sort: (h) => h.status.receivers },
  { name: "Agent", width: "8.2rem", wide: true, cell: (h) => <AgentWord of={h.status.agent ?? "OfNode"} />, sort: (h) => AGENT_ORDER.indexOf(h.status.agent ?? "OfNode") },
  { name: "Address", width: "minmax(8rem, 1fr)", wide: true, cell: (h) => <Mono>{h.spec.address}</Mono> },
  { name: "Why", width: "minmax(8rem, 3fr)", wide: true, cell: (h) => <span title={h.status.reason}>{h.status.reason}</span> },
];

export function Hosts() {
  const query = useInfiniteQuery(queries.hosts);
  const total = useQuery(queries.status).data?.hosts;
  const [text, setText] = useState("");
  const loaded = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetching, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  useEffect(() => {
    if (total !== undefined && total <= WHOLE) more();
  }, [total, more]);
  const rows = useMemo(() => loaded.filter((h) => `${h.metadata.name}\n${h.spec.node}\n${h.status.port}`.includes(text)), [loaded, text]);
  // Of many hosts not all are read: the controller finds those whose port needs someone.
  const found = useQuery({ ...queries.hostsNotUp, enabled: total !== undefined && total > WHOLE }).data;
  const needing = useMemo(() => {
    if (!hasNextPage) return needs(loaded);
    return found && needsOfMany(found.items, Boolean(found.metadata.continue), loaded);
  }, [hasNextPage, loaded, found]);
  return (
    <Page title="Hosts" tab="Hosts">
      <ReadFailed query={query} />
      <div className="tools">
        <input type="search" aria-label="Filter by name, node or state" placeholder="name, node or state" value={text} onChange={(event) => setText(event.target.value)} />
        <span className="faint" role="status">
          {text && query.data ? `${count(rows.length)} shown, ` : ""}
          {!query.data ? "" : total !== undefined && total > loaded.length ? `${count(loaded.length)} of ${counted(total, "host")}` : counted(loaded.length, "host")}
          {hasNextPage ? " read, filters and sorting are of these" : ""}
          {needing && `; ${needing}`}
        </span>
        {text && hasNextPage && (
          <button type="button" onClick={more}>
            Read {count(queries.PAGE)} more
          </button>
        )}
      </div>
      {query.data && loaded.length === 0 ? (
        <Undeclared>There is no host: hosts are part of the topology.</Undeclared>
      ) : (
        <Table label="Hosts" columns={COLUMNS} rows={rows} rowKey={(h) => h.metadata.name} {...(!hasNextPage && { order })} total={text ? rows.length : total} {...(!text && { onEnd: more })} />
      )}
    </Page>
  );
}
