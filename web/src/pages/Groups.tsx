// SPDX-License-Identifier: Apache-2.0
// Which of my groups need me?
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { Group, GroupPhase, Problem } from "../api/types";
import { usePages } from "../api/usePages";
import { count, counted } from "../lib/format";
import { byGroup, ready, since, waitsFor } from "../lib/groupRow";
import { byName } from "../lib/order";
import type { GroupFilter } from "../lib/savedFilters";
import { ofPhase, PHASE_ORDER } from "../lib/state";
import { Age } from "../ui/Age";
import { Empty, ReadFailed, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Table, type Column } from "../ui/Table";
import { GroupDialog } from "./groups/GroupDialog";
import { LabelFilter } from "./groups/LabelFilter";
import { SavedFilters } from "./groups/SavedFilters";

/** Up to so many groups are read whole, so that filters and sorting are of all of them. */
const WHOLE = 2000;
/** Labels that the filter has to choose from. */
const KNOWN = 200;

const route = getRouteApi("/groups");

/** Those that need someone first. */
const byNeed = (a: Group, b: Group): number => PHASE_ORDER.indexOf(a.status.phase) - PHASE_ORDER.indexOf(b.status.phase) || byName(a.metadata.name, b.metadata.name);

/** A group with what problems have of it. */
interface Row {
  group: Group;
  ready: number;
  waitsFor: string;
  since: number | undefined;
}

const order = (a: Row, b: Row): number => byNeed(a.group, b.group);

const COLUMNS: readonly Column<Row>[] = [
  {
    name: "Name",
    width: "minmax(6rem, 1fr)",
    cell: ({ group: g }) => <Link to="/groups/$group" params={{ group: g.metadata.name }}>{g.metadata.name}</Link>,
    sort: ({ group: g }) => g.metadata.name,
  },
  {
    name: "Phase, since",
    width: "minmax(8.6rem, .2fr)",
    cell: ({ group: g, since: at }) => <StateWord state={ofPhase(g.status.phase)}>{g.status.phase}{at !== undefined && <>, <Age since={at} /></>}</StateWord>,
    sort: ({ group: g }) => PHASE_ORDER.indexOf(g.status.phase),
  },
  { name: "Ready / all", width: "5.2rem", right: true, cell: (r) => <span className="num">{count(r.ready)} / {count(r.group.status.receivers)}</span>, sort: (r) => r.ready - r.group.status.receivers },
  { name: "Waits for", width: "minmax(5.5rem, 1.4fr)", wide: true, cell: (r) => r.waitsFor, sort: (r) => r.waitsFor },
  { name: "Source", width: "minmax(4rem, .4fr)", wide: true, cell: ({ group: g }) => g.status.source ?? <span className="faint">none</span>, sort: ({ group: g }) => g.status.source ?? "" },
  {
    name: "Delivery, since",
    width: "minmax(7.6rem, .2fr)",
    wide: true,
    cell: ({ group: g }) => (g.status.delivery ? <>{g.status.delivery.state}, <Age since={g.status.delivery.sinceUnixNs} /></> : <span className="faint">not reported</span>),
    sort: ({ group: g }) => g.status.delivery?.state ?? "",
  },
  { name: "Outstanding", width: "5.9rem", right: true, wide: true, cell: ({ group: g }) => (g.status.delivery ? count(g.status.delivery.outstandingPackets) : "–"), sort: ({ group: g }) => g.status.delivery?.outstandingPackets ?? 0 },
  { name: "Why", width: "minmax(8rem, 2.2fr)", wide: true, cell: ({ group: g }) => <span title={g.status.reason}>{g.status.reason}</span> },
];

const TENANT: Column<Row> = { name: "Tenant", width: "minmax(4rem, .4fr)", wide: true, cell: ({ group: g }) => tenantOf(g), sort: ({ group: g }) => tenantOf(g) };

const tenantOf = (g: Group): string => g.metadata.tenant ?? "default";
const NONE: readonly Problem[] = [];

export function Groups() {
  const { phase, q, label, tenant } = route.useSearch();
  const navigate = route.useNavigate();
  const set = (to: GroupFilter) => void navigate({ search: (old) => ({ ...old, ...to }) as typeof old, replace: true });
  const totals = useQuery(queries.status).data?.groups;
  const problems = useQuery(queries.problems).data ?? NONE;
  const all = totals ? Object.values(totals).reduce((a, b) => a + b, 0) : undefined;
  // A selector is the controller's to read, and where not all groups are read, it finds those of a phase or tenant too.
  const found = Boolean(label) || (Boolean(phase || tenant) && all !== undefined && all > WHOLE);
  const total = !found ? all : label || tenant ? undefined : (totals?.[phase ?? ""] ?? 0);
  const { query, items, hasMore, more } = usePages(found ? queries.groupsOf({ phase, labelSelector: label, tenant }) : queries.groups, total, WHOLE);
  const text = q?.toLowerCase() ?? "";
  const of = useMemo(() => byGroup(problems), [problems]);
  const rows = useMemo(
    () =>
      items
        .filter((g) => (!phase || g.status.phase === phase) && (!tenant || tenantOf(g) === tenant) && (!text || searched(g).includes(text)))
        .map((group): Row => {
          const own = of.get(group.metadata.name);
          return { group, ready: ready(group, own), waitsFor: waitsFor(group, own), since: since(group, own) };
        }),
    [items, phase, tenant, text, of],
  );
  const tenants = useMemo(() => [...new Set([...items.map(tenantOf), ...(tenant ? [tenant] : [])])].sort(byName), [items, tenant]);
  const labels = useMemo(() => [...new Set(items.flatMap(labelsOf))].sort(byName).slice(0, KNOWN), [items]);
  const columns = useMemo(() => (tenants.length > 1 ? [...COLUMNS.slice(0, 1), TENANT, ...COLUMNS.slice(1)] : COLUMNS), [tenants]);
  const filtered = Boolean(phase || text || label || tenant);
  const [creating, setCreating] = useState(false);
  return (
    <Page title="Groups" tab="Groups" aside={<button type="button" onClick={() => setCreating(true)}>Create…</button>}>
      {creating && <GroupDialog onClose={() => setCreating(false)} />}
      <ReadFailed query={query} />
      <div className="tools">
        <input type="search" aria-label="Filter by name, source or label" placeholder="name, source or label" value={q ?? ""} onChange={(event) => set({ q: event.target.value || undefined })} />
        <select aria-label="Phase" value={phase ?? ""} onChange={(event) => set({ phase: event.target.value || undefined })}>
          <option value="">every phase</option>
          {PHASE_ORDER.map((name) => (
            <option key={name} value={name}>
              {name}
              {totals ? ` (${count(totals[name] ?? 0)})` : ""}
            </option>
          ))}
        </select>
        {tenants.length > 1 && (
          <select aria-label="Tenant" value={tenant ?? ""} onChange={(event) => set({ tenant: event.target.value || undefined })}>
            <option value="">every tenant</option>
            {tenants.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <LabelFilter selector={label} known={labels} onChange={(selector) => set({ label: selector })} />
        <SavedFilters filter={{ phase, q, label, tenant }} onChoose={(filter) => void navigate({ search: filter as { phase?: GroupPhase }, replace: true })} />
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
      {!phase && !label && !tenant && totals && <Needing totals={totals} />}
      {query.data && items.length === 0 && !filtered ? (
        <Empty command="canopyctl apply -f group.yaml">There is no group yet.</Empty>
      ) : rows.length === 0 && query.data ? (
        <Empty>No group that was read passes the filter.</Empty>
      ) : (
        <Table label="Groups" columns={columns} rows={rows} rowKey={(r) => r.group.metadata.name} wraps {...(!hasMore && { order })} total={filtered ? rows.length : total} {...(!filtered && { onEnd: more })} />
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

const labelsOf = (g: Group): string[] => Object.entries(g.metadata.labels ?? {}).map(([key, value]) => `${key}=${value}`);
const searched = (g: Group): string => [g.metadata.name, g.status.source ?? "", ...labelsOf(g)].join("\n").toLowerCase();
