// SPDX-License-Identifier: Apache-2.0
// Does each node do what it was given?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Node } from "../api/types";
import { usePages } from "../api/usePages";
import { count } from "../lib/format";
import { inSync, labelsOf, notInSync, notInSyncOfMany, syncWord } from "../lib/node";
import { byName, distinct } from "../lib/order";
import { WORST_FIRST } from "../lib/state";
import { Mono } from "../ui/Command";
import { ListTools } from "../ui/ListTools";
import { Page, ReadFailed } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { Undeclared } from "./topology/Undeclared";

/** Up to so many nodes are read whole, so that filters and sorting are of all of them. */
const WHOLE = 2000;

const name = (n: Node): string => n.metadata.name;
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
  { name: "Ports", width: "4rem", right: true, wide: true, cell: (n) => count(n.spec.portCount ?? 0), sort: (n) => n.spec.portCount ?? 0 },
  { name: "Desired", term: "generation", width: "5.5rem", right: true, wide: true, cell: (n) => count(n.spec.generation), sort: (n) => n.spec.generation },
  { name: "Applied", width: "5.5rem", right: true, wide: true, cell: (n) => (n.status.observedGeneration === null || n.status.observedGeneration === undefined ? "–" : count(n.status.observedGeneration)) },
  { name: "Address", width: "minmax(9rem, 1fr)", wide: true, cell: (n) => <Mono>{n.spec.nodeAddress}</Mono> },
  { name: "Agent", width: "minmax(5rem, .6fr)", wide: true, cell: (n) => n.status.agentVersion || "–", sort: (n) => n.status.agentVersion },
  { name: "Kernel", width: "minmax(7rem, 1fr)", wide: true, cell: (n) => n.status.kernel || "–", sort: (n) => n.status.kernel },
];

export function Nodes() {
  const total = useQuery(queries.status).data?.nodes;
  const { query, items, hasMore, more } = usePages(queries.nodes, total, WHOLE);
  const [text, setText] = useState("");
  // Of many nodes not all are read: the controller finds those that need someone, and those of a name.
  const found = useQuery({ ...queries.nodesNotInSync, enabled: total !== undefined && total > WHOLE }).data;
  const named = useQuery({ ...queries.nodesNamed(text.toLowerCase()), enabled: hasMore && text !== "" }).data;
  const all = useMemo(() => (hasMore ? distinct([found?.items.toSorted(order), named, items], name) : items), [hasMore, found, named, items]);
  const rows = useMemo(() => all.filter((n) => [name(n), syncWord(n)[1], ...labelsOf(n)].join("\n").includes(text)), [all, text]);
  const words = useMemo(() => {
    if (!hasMore) return items.length === inSync(items) ? "all in sync" : notInSync(items);
    return found ? notInSyncOfMany(found.items, Boolean(found.metadata.continue)) : "";
  }, [hasMore, items, found]);
  return (
    <Page title="Nodes" tab="Nodes">
      <ReadFailed query={query} />
      <ListTools by="name, state or label" text={text} onText={setText} shown={rows.length} read={items.length} total={total} noun="node" isThere={query.data !== undefined} hasMore={hasMore} onMore={more} words={words} />
      {query.data && items.length === 0 ? (
        <Undeclared>There is no node: nodes are part of the topology.</Undeclared>
      ) : (
        <Table label="Nodes" columns={COLUMNS} rows={rows} rowKey={name} {...(!hasMore && { order })} total={text ? rows.length : total} {...(!text && { onEnd: more })} />
      )}
    </Page>
  );
}
