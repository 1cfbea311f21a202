// SPDX-License-Identifier: Apache-2.0
// Which link is bad?
import { useQuery } from "@tanstack/react-query";
import { Link as To } from "@tanstack/react-router";
import { useMemo, useState, type ReactNode } from "react";
import * as queries from "../api/queries";
import type { Link } from "../api/types";
import { usePages } from "../api/usePages";
import { bytes, count, permille, rate, span } from "../lib/format";
import { loadOf, notInService, notInServiceOfMany, stateOf } from "../lib/link";
import { byName, distinct } from "../lib/order";
import { WORST_FIRST, type State } from "../lib/state";
import { Reported, ReportedAgo } from "../ui/Age";
import { ListTools } from "../ui/ListTools";
import { Page, ReadFailed } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { Undeclared } from "./topology/Undeclared";

/** Up to so many directions are read whole, so that filters and sorting are of all of them. */
const WHOLE = 4000;

interface Row {
  link: Link;
  state: State;
  word: string;
}

const loss = (row: Row) => row.link.status.loss?.permille ?? 0;
const percent = (load: number | null) => (load === null ? "–" : permille(load * 10));

const COLUMNS: readonly Column<Row>[] = [
  { name: "Port", width: "minmax(6rem, 1fr)", cell: ({ link }) => <Name link={link} />, sort: (r) => r.link.metadata.name },
  { name: "To", width: "minmax(7rem, 1.1fr)", wide: true, cell: (r) => r.link.spec.to, sort: (r) => r.link.spec.to },
  { name: "State", width: "minmax(9rem, 1.3fr)", cell: (r) => <StateWord state={r.state}>{r.word}</StateWord>, sort: (r) => WORST_FIRST.indexOf(r.state) },
  { name: "Loss", width: "3.4rem", right: true, cell: (r) => (r.link.status.loss ? permille(loss(r)) : "–"), sort: loss },
  { name: "Load", width: "3.4rem", right: true, wide: true, cell: (r) => <OfAgent row={r}>{percent(loadOf(r.link))}</OfAgent>, sort: ({ link }) => loadOf(link) ?? -1 },
  { name: "Peak queue", term: "QD", width: "5.6rem", right: true, wide: true, cell: (r) => <OfAgent row={r}>{r.link.status.congestion ? bytes(r.link.status.congestion.peakQueueBytes) : "–"}</OfAgent>, sort: (r) => r.link.status.congestion?.peakQueueBytes ?? 0 },
  { name: "K_max", term: "K_max", width: "4rem", right: true, wide: true, cell: (r) => (r.link.status.thresholds ? bytes(r.link.status.thresholds.kMaxBytes) : "–"), sort: (r) => r.link.status.thresholds?.kMaxBytes ?? 0 },
  { name: "CE marks", term: "CE", width: "4.6rem", right: true, wide: true, cell: (r) => <OfAgent row={r}>{r.link.status.congestion ? count(r.link.status.congestion.marked) : "–"}</OfAgent>, sort: (r) => r.link.status.congestion?.marked ?? 0 },
  { name: "RTT_est", term: "RTT_est", width: "4.5rem", right: true, wide: true, cell: (r) => (r.link.status.rtt.estimateNs ? span(r.link.status.rtt.estimateNs) : "–"), sort: (r) => r.link.status.rtt.estimateNs ?? 0 },
  { name: "Rate", width: "5.2rem", right: true, wide: true, cell: (r) => rate(r.link.spec.rateBps), sort: (r) => r.link.spec.rateBps },
  { name: "Reported", width: "4.7rem", right: true, wide: true, cell: (r) => (r.link.status.congestion ? <ReportedAgo ns={r.link.status.congestion.reportedAgoNs} /> : <span className="faint">never</span>) },
];

/** Those that need someone first, then those that lose most. */
const order = (a: Row, b: Row): number => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state) || loss(b) - loss(a) || byName(a.link.metadata.name, b.link.metadata.name);

const worstFirst = (links: readonly Link[]): Link[] => links.toSorted((a, b) => WORST_FIRST.indexOf(stateOf(a)[0]) - WORST_FIRST.indexOf(stateOf(b)[0]) || byName(a.metadata.name, b.metadata.name));

/** What the agent of the sending node reported. */
const OfAgent = ({ row, children }: { row: Row; children: ReactNode }) => <Reported ns={row.link.status.congestion?.reportedAgoNs}>{children}</Reported>;

function Name({ link }: { link: Link }) {
  const [node = "", port = ""] = link.metadata.name.split("/");
  return <To to="/links/$node/$port" params={{ node, port }}>{link.metadata.name}</To>;
}

export function Links() {
  const domain = useQuery(queries.status).data;
  // Of links of hosts, only the direction towards the host leaves a node.
  const total = domain && 2 * domain.links - (domain.hostLinks ?? domain.hosts);
  const { query, items, hasMore, more } = usePages(queries.links, total, WHOLE);
  const [text, setText] = useState("");
  // Of many directions not all are read: the controller finds those that need someone.
  const found = useQuery({ ...queries.linksNotInService, enabled: total !== undefined && total > WHOLE }).data;
  const rows = useMemo(
    () =>
      (hasMore ? distinct([found && worstFirst(found.items), items], (link) => link.metadata.name) : items)
        .map((link) => {
          const [state, word] = stateOf(link);
          return { link, state, word };
        })
        .filter((row) => `${row.link.metadata.name}\n${row.link.spec.to}\n${row.word}`.includes(text)),
    [hasMore, found, items, text],
  );
  const words = useMemo(() => {
    if (!hasMore) return notInService(items) || "all in service";
    return found ? notInServiceOfMany(found.items, found.more) : "";
  }, [hasMore, items, found]);
  return (
    <Page title="Links" tab="Links">
      <ReadFailed query={query} />
      <ListTools by="port or state" text={text} onText={setText} shown={rows.length} read={items.length} total={total} noun="link direction" isThere={query.data !== undefined} hasMore={hasMore} onMore={more} words={words} />
      {query.data && items.length === 0 ? (
        <Undeclared>There is no link: links are part of the topology.</Undeclared>
      ) : (
        <Table label="Links" columns={COLUMNS} rows={rows} rowKey={(r) => r.link.metadata.name} {...(!hasMore && { order })} total={text ? rows.length : total} {...(!text && { onEnd: more })} />
      )}
    </Page>
  );
}
