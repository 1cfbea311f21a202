// SPDX-License-Identifier: Apache-2.0
// Does each node of the tree have what it was given?
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Group, Problem } from "../../api/types";
import { applied, type Applied as Row } from "../../lib/applied";
import { count, counted } from "../../lib/format";
import { inWords, progress } from "../../lib/move";
import { Age } from "../../ui/Age";
import { StateWord } from "../../ui/State";
import type { Column } from "../../ui/Table";
import { Some } from "./Some";

const FIRST = 10;

const COLUMNS: readonly Column<Row>[] = [
  { name: "Node", width: "minmax(4.4rem, 1fr)", cell: (r) => <Link to="/nodes/$node" params={{ node: r.node }}>{r.node}</Link>, sort: (r) => r.node },
  { name: "Role", width: "minmax(6rem, 1fr)", wide: true, cell: (r) => (r.isComing ? "of the next tree only" : r.roles.join(", ")), sort: (r) => r.roles.join(", ") },
  { name: "Wanted", width: "3.6rem", right: true, cell: (r) => <span className="num">{count(r.wanted)}</span>, sort: (r) => r.wanted },
  { name: "Applied", width: "3.6rem", right: true, cell: (r) => <span className="num">{r.applied === null ? "–" : count(r.applied)}</span>, sort: (r) => r.applied ?? -1 },
  { name: "State", width: "minmax(8rem, 1.2fr)", cell: (r) => <StateWord state={r.state}>{r.word}{r.since !== undefined && <>, for <Age since={r.since} /></>}</StateWord>, sort: (r) => r.word },
  { name: "Why", width: "minmax(6rem, 3fr)", wide: true, cell: (r) => r.why },
];

export function Applied({ group, problems }: { group: Group; problems: readonly Problem[] }) {
  const { status } = group;
  const rows = useMemo(() => applied(status, problems), [status, problems]);
  if (rows.length === 0) return null;
  const words = inWords(progress(status)) || (rows.length === 1 ? "The node of the tree has applied what the group asks of it." : `All ${counted(rows.length, "node")} of the tree have applied what the group asks of them.`);
  return (
    <section aria-label="Desired beside applied">
      <h2>Desired beside applied</h2>
      <p>{words}</p>
      <Some label="Desired beside applied" columns={COLUMNS} rows={rows} rowKey={(r) => r.node} first={FIRST} noun="nodes" />
      <p className="faint">Wanted is the generation of the node's configuration that first had the group's present program; applied, the one that the node last read back.</p>
    </section>
  );
}
