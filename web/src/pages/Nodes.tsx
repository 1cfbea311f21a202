// SPDX-License-Identifier: Apache-2.0
// Does each node do what it was given?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Node } from "../api/types";
import { count, counted } from "../lib/format";
import { inSync, notInSync, syncWord } from "../lib/node";
import { byName } from "../lib/order";
import { WORST_FIRST } from "../lib/state";
import { Mono } from "../ui/Command";
import { Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { Undeclared } from "./topology/Undeclared";

const rank = (n: Node): number => WORST_FIRST.indexOf(syncWord(n)[0]);
/** Those that need someone first. */
const order = (a: Node, b: Node): number => rank(a) - rank(b) || byName(a.metadata.name, b.metadata.name);

const COLUMNS: readonly Column<Node>[] = [
  { name: "Name", width: "minmax(6rem, 1.5fr)", cell: (n) => <Link to="/nodes/$node" params={{ node: n.metadata.name }}>{n.metadata.name}</Link>, sort: (n) => n.metadata.name },
  {
    name: "State",
    width: "minmax(8rem, 1fr)",
    cell: (n) => {
      const [state, word] = syncWord(n);
      return <StateWord state={state}>{word}</StateWord>;
    },
    sort: rank,
  },
  { name: "Groups", width: "5rem", right: true, cell: (n) => count(n.spec.groups), sort: (n) => n.spec.groups },
  { name: "Ports", width: "4rem", right: true, wide: true, cell: (n) => count(n.spec.ports.length), sort: (n) => n.spec.ports.length },
  { name: "Desired", width: "5.5rem", right: true, wide: true, cell: (n) => count(n.spec.generation), sort: (n) => n.spec.generation },
  { name: "Applied", width: "5.5rem", right: true, wide: true, cell: (n) => (n.status.observedGeneration === null || n.status.observedGeneration === undefined ? "–" : count(n.status.observedGeneration)) },
  { name: "Address", width: "minmax(9rem, 1fr)", wide: true, cell: (n) => <Mono>{n.spec.nodeAddress}</Mono> },
  { name: "Agent", width: "minmax(5rem, .6fr)", wide: true, cell: (n) => n.status.agentVersion || "–", sort: (n) => n.status.agentVersion },
  { name: "Kernel", width: "minmax(7rem, 1fr)", wide: true, cell: (n) => n.status.kernel || "–", sort: (n) => n.status.kernel },
];

export function Nodes() {
  const query = useQuery(queries.nodes);
  const [text, setText] = useState("");
  const rows = useMemo(() => (query.data ?? []).filter((n) => `${n.metadata.name}\n${syncWord(n)[1]}`.includes(text)), [query.data, text]);
  return (
    <Page title="Nodes" tab="Nodes">
      <Loaded query={query}>
        {(all) =>
          all.length === 0 ? (
            <Undeclared>There is no node: nodes are part of the topology.</Undeclared>
          ) : (
            <>
              <div className="tools">
                <input type="search" aria-label="Filter by name or state" placeholder="name or state" value={text} onChange={(event) => setText(event.target.value)} />
                <span className="faint" role="status">
                  {count(rows.length)} of {counted(all.length, "node")}{all.length === inSync(all) ? ", all in sync" : `; ${notInSync(all)}`}
                </span>
              </div>
              <Table label="Nodes" columns={COLUMNS} rows={rows} rowKey={(n) => n.metadata.name} order={order} />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
