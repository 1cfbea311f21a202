// SPDX-License-Identifier: Apache-2.0
// Which link is bad?
import { useQuery } from "@tanstack/react-query";
import { Link as To } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Link } from "../api/types";
import { bytes, count, counted, permille, rate, span } from "../lib/format";
import { agentsOf, byObject, loadOf, stateOf } from "../lib/link";
import { byName } from "../lib/order";
import { WORST_FIRST, type State } from "../lib/state";
import { ReportedAgo } from "../ui/Age";
import { ErrorNote, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { Undeclared } from "./topology/Undeclared";

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
  { name: "Loss", width: "4rem", right: true, cell: (r) => (r.link.status.loss ? permille(loss(r)) : "–"), sort: loss },
  { name: "Load", width: "4rem", right: true, wide: true, cell: ({ link }) => percent(loadOf(link)), sort: ({ link }) => loadOf(link) ?? -1 },
  { name: "Peak queue", width: "5rem", right: true, wide: true, cell: (r) => (r.link.status.congestion ? bytes(r.link.status.congestion.peakQueueBytes) : "–"), sort: (r) => r.link.status.congestion?.peakQueueBytes ?? 0 },
  { name: "K_max", width: "4.2rem", right: true, wide: true, cell: (r) => (r.link.status.thresholds ? bytes(r.link.status.thresholds.kMaxBytes) : "–"), sort: (r) => r.link.status.thresholds?.kMaxBytes ?? 0 },
  { name: "CE marks", width: "4.6rem", right: true, wide: true, cell: (r) => (r.link.status.congestion ? count(r.link.status.congestion.marked) : "–"), sort: (r) => r.link.status.congestion?.marked ?? 0 },
  { name: "RTT_est", width: "4.5rem", right: true, wide: true, cell: (r) => (r.link.status.rtt.estimateNs ? span(r.link.status.rtt.estimateNs) : "–"), sort: (r) => r.link.status.rtt.estimateNs ?? 0 },
  { name: "Rate", width: "5.2rem", right: true, wide: true, cell: (r) => rate(r.link.spec.rateBps), sort: (r) => r.link.spec.rateBps },
  { name: "Reported", width: "5.2rem", right: true, wide: true, cell: (r) => (r.link.status.congestion ? <ReportedAgo ns={r.link.status.congestion.reportedAgoNs} /> : <span className="faint">never</span>) },
];

/** Those that need someone first, then those that lose most. */
const order = (a: Row, b: Row): number => WORST_FIRST.indexOf(a.state) - WORST_FIRST.indexOf(b.state) || loss(b) - loss(a) || byName(a.link.metadata.name, b.link.metadata.name);

function Name({ link }: { link: Link }) {
  const [node = "", port = ""] = link.metadata.name.split("/");
  return <To to="/links/$node/$port" params={{ node, port }}>{link.metadata.name}</To>;
}

export function Links() {
  const query = useQuery(queries.links);
  const [open, reports] = [useQuery(queries.problems), useQuery(queries.nodes)];
  const [problems, nodes] = [open.data, reports.data];
  const [text, setText] = useState("");
  const rows = useMemo(() => {
    const [found, agents] = [byObject(problems ?? []), agentsOf(nodes)];
    return (query.data ?? [])
      .map((link) => {
        const [state, word] = stateOf(link, found, agents);
        return { link, state, word };
      })
      .filter((row) => `${row.link.metadata.name}\n${row.link.spec.to}\n${row.word}`.includes(text));
  }, [query.data, problems, nodes, text]);
  return (
    <Page title="Links" tab="Links">
      {/* Without them a link seems to be in service. */}
      <ErrorNote error={open.error ?? reports.error} />
      <Loaded query={query}>
        {(all) =>
          all.length === 0 ? (
            <Undeclared>There is no link: links are part of the topology.</Undeclared>
          ) : (
            <>
              <div className="tools">
                <input type="search" aria-label="Filter by port or state" placeholder="port or state" value={text} onChange={(event) => setText(event.target.value)} />
                <span className="faint" role="status">
                  {count(rows.length)} of {counted(all.length, "link direction")}, each out of a node's port; those that need someone first
                </span>
              </div>
              <Table label="Links" columns={COLUMNS} rows={rows} rowKey={(r) => r.link.metadata.name} order={order} />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
