// SPDX-License-Identifier: Apache-2.0
// Which of my groups need me?
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Group, GroupPhase } from "../api/types";
import { usePages } from "../api/usePages";
import { count, counted } from "../lib/format";
import { byName } from "../lib/order";
import { ofPhase, PHASE_ORDER } from "../lib/state";
import { Age } from "../ui/Age";
import { Empty, ReadFailed, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { GroupDialog } from "./groups/GroupDialog";

/** Up to so many groups are read whole, so that filters and sorting are of all of them. */
const WHOLE = 2000;

const route = getRouteApi("/groups");

/** Those that need someone first. */
const order = (a: Group, b: Group): number => PHASE_ORDER.indexOf(a.status.phase) - PHASE_ORDER.indexOf(b.status.phase) || byName(a.metadata.name, b.metadata.name);

const COLUMNS: readonly Column<Group>[] = [
  {
    name: "Name",
    width: "minmax(6rem, 1.4fr)",
    cell: (g) => <Link to="/groups/$group" params={{ group: g.metadata.name }}>{g.metadata.name}</Link>,
    sort: (g) => g.metadata.name,
  },
  {
    name: "Phase",
    width: "7.5rem",
    cell: (g) => <StateWord state={ofPhase(g.status.phase)}>{g.status.phase}</StateWord>,
    sort: (g) => PHASE_ORDER.indexOf(g.status.phase),
  },
  { name: "Receivers", width: "5rem", right: true, cell: (g) => <span className="num">{count(g.status.receivers)}</span>, sort: (g) => g.status.receivers },
  { name: "Source", width: "minmax(4.5rem, .8fr)", wide: true, cell: (g) => g.status.source ?? <span className="faint">none</span>, sort: (g) => g.status.source ?? "" },
  {
    name: "Delivery",
    width: "minmax(9.5rem, .8fr)",
    wide: true,
    cell: (g) => (g.status.delivery ? <>{g.status.delivery.state} for <Age since={g.status.delivery.sinceUnixNs} /></> : <span className="faint">not reported</span>),
    sort: (g) => g.status.delivery?.state ?? "",
  },
  { name: "Packets outstanding", width: "9.4rem", right: true, wide: true, cell: (g) => (g.status.delivery ? count(g.status.delivery.outstandingPackets) : "–"), sort: (g) => g.status.delivery?.outstandingPackets ?? 0 },
  { name: "Why", width: "minmax(8rem, 3fr)", wide: true, cell: (g) => <span title={g.status.reason}>{g.status.reason}</span> },
];

export function Groups() {
  const { phase, q } = route.useSearch();
  const navigate = route.useNavigate();
  const totals = useQuery(queries.status).data?.groups;
  const all = totals ? Object.values(totals).reduce((a, b) => a + b, 0) : undefined;
  // Where not all are read, the controller finds those of a phase.
  const ofOne = phase !== undefined && all !== undefined && all > WHOLE;
  const total = ofOne ? (totals?.[phase] ?? 0) : all;
  const { query, items, hasMore, more } = usePages(ofOne ? queries.groupsOf(phase) : queries.groups, total, WHOLE);
  const text = q?.toLowerCase() ?? "";
  const rows = useMemo(
    () => items.filter((g) => (!phase || g.status.phase === phase) && (!text || searched(g).includes(text))),
    [items, phase, text],
  );
  const filtered = Boolean(phase || text);
  const [creating, setCreating] = useState(false);
  return (
    <Page title="Groups" tab="Groups" aside={<button type="button" onClick={() => setCreating(true)}>Create…</button>}>
      {creating && <GroupDialog onClose={() => setCreating(false)} />}
      <ReadFailed query={query} />
      <div className="tools">
        <input
          type="search"
          aria-label="Filter by name, source or label"
          placeholder="name, source or label"
          value={q ?? ""}
          onChange={(event) => void navigate({ search: (old) => ({ ...old, q: event.target.value || undefined }), replace: true })}
        />
        <select
          aria-label="Phase"
          value={phase ?? ""}
          onChange={(event) => void navigate({ search: (old) => ({ ...old, phase: (event.target.value || undefined) as GroupPhase | undefined }), replace: true })}
        >
          <option value="">every phase</option>
          {PHASE_ORDER.map((name) => (
            <option key={name} value={name}>
              {name}
              {totals ? ` (${count(totals[name] ?? 0)})` : ""}
            </option>
          ))}
        </select>
        <span className="faint" role="status">
          {filtered && query.data ? `${count(rows.length)} shown, ` : ""}
          {!query.data ? "" : total !== undefined && total > items.length ? `${count(items.length)} of ${counted(total, "group")}` : counted(items.length, "group")}
          {hasMore ? " read; filters and sorting are of these." : ""}
        </span>
        {filtered && hasMore && (
          <button type="button" onClick={more}>
            Read {count(queries.PAGE)} more
          </button>
        )}
      </div>
      {!phase && totals && <Needing totals={totals} />}
      {query.data && items.length === 0 ? (
        <Empty command="canopyctl apply -f group.yaml">There is no group yet.</Empty>
      ) : rows.length === 0 && query.data ? (
        <Empty>No group that was read passes the filter.</Empty>
      ) : (
        <Table label="Groups" columns={COLUMNS} rows={rows} rowKey={(g) => g.metadata.name} wraps {...(!hasMore && { order })} total={filtered ? rows.length : total} {...(!filtered && { onEnd: more })} />
      )}
    </Page>
  );
}

/** How many need someone, also where not all are read, and those of a phase by one click. */
function Needing({ totals }: { totals: Readonly<Record<string, number>> }) {
  const phases = PHASE_ORDER.filter((name) => name !== "Ready" && totals[name]);
  if (phases.length === 0) return null;
  return (
    <nav className="legend" aria-label="Groups that are not ready">
      {phases.map((name) => (
        <Link key={name} to="/groups" search={{ phase: name }}>
          <StateWord state={ofPhase(name)}>
            {count(totals[name] ?? 0)} {name}
          </StateWord>
        </Link>
      ))}
    </nav>
  );
}

function searched(g: Group): string {
  const labels = Object.entries(g.metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return [g.metadata.name, g.status.source ?? "", ...labels].join("\n").toLowerCase();
}
