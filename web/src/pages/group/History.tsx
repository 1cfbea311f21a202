// SPDX-License-Identifier: Apache-2.0
// What has happened to the group, and who did it?
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../../api/queries";
import { history, KINDS, type Happened, type Kind } from "../../lib/groupHistory";
import { Instant } from "../../ui/Age";
import { Empty, ReadFailed } from "../../ui/Page";
import type { Column } from "../../ui/Table";
import { Some } from "./Some";

const FIRST = 12;

const COLUMNS: readonly Column<Happened>[] = [
  { name: "Time", width: "clamp(7rem, 30vw, 12.5rem)", cell: (h) => <Instant at={h.at} /> },
  { name: "What", width: "minmax(7rem, 1fr)", wide: true, cell: (h) => <code>{h.what}</code> },
  { name: "Detail", width: "minmax(8rem, 4fr)", cell: (h) => <><span className="narrow"><code>{h.what}</code>: </span>{h.detail}</> },
  { name: "Node", width: "minmax(4rem, .6fr)", wide: true, cell: (h) => h.node && <Link to="/nodes/$node" params={{ node: h.node }}>{h.node}</Link> },
  { name: "Request", width: "5.5rem", wide: true, cell: (h) => h.request && <Link to="/audit" search={{ request: h.request }} title={h.request} aria-label={`What request ${h.request.slice(0, 8)} wrote`}>{h.request.slice(0, 8)}</Link> },
];

export function History({ group, epoch }: { group: string; epoch: number }) {
  const eventsRead = useQuery(queries.events);
  const writesRead = useInfiniteQuery(queries.audit({ kind: "Group", name: group }));
  // The audit finds a member by its whole name: of the newest writes of all groups those of this one.
  const membersRead = useInfiniteQuery(queries.audit({ kind: "Member" }));
  const joinsRead = useInfiniteQuery(queries.audit({ hosts: true }));
  const [events, writes, members, joins] = [eventsRead.data, writesRead.data, membersRead.data, joinsRead.data];
  const failed = [eventsRead, writesRead, membersRead, joinsRead].find(({ error }) => error);
  const all = useMemo(() => {
    const of = (data: typeof writes) => data?.pages.flatMap(({ items }) => items) ?? [];
    return history(group, events ?? [], [...of(writes), ...of(members)], of(joins));
  }, [group, events, writes, members, joins]);
  const [kind, setKind] = useState<Kind | "">("");
  const rows = useMemo(() => (kind ? all.filter((one) => one.kind === kind) : all), [all, kind]);
  const isCut = (data: typeof writes) => Boolean(data?.pages.at(-1)?.metadata.continue);
  const isRead = Boolean(events && writes && members && joins);
  return (
    <section aria-label="History">
      <div className="section-head">
        <h2>History</h2>
        <select aria-label="What of the history" value={kind} onChange={(event) => setKind(event.target.value as Kind | "")}>
          <option value="">everything</option>
          {KINDS.map(([value, name]) => (
            <option key={value} value={value}>{name}</option>
          ))}
        </select>
        <Link to="/events" search={{ group }}>Its events</Link>
        <Link to="/audit" search={{ kind: "Group", name: group }}>Writes of it</Link>
        <Link to="/audit" search={{ hosts: true }}>Joins and leaves of hosts</Link>
      </div>
      <p className="faint">
        The newest first; it is in epoch {epoch}.{isCut(writes) && " Of the writes of the group the newest 200 are here."}{(isCut(members) || isCut(joins)) && " Joins and leaves are of the newest 200 of all groups."}
      </p>
      {failed && <ReadFailed query={failed} />}
      {rows.length > 0 ? <Some label="History" columns={COLUMNS} rows={rows} rowKey={(h) => h.key} first={FIRST} noun="entries" /> : <Empty>{kind ? "Nothing of this kind is kept." : isRead ? "Nothing is kept of it." : "Reading…"}</Empty>}
    </section>
  );
}
