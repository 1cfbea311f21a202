// SPDX-License-Identifier: Apache-2.0
// What happened, newest first.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { EVENTS_KEPT } from "../api/changes";
import * as queries from "../api/queries";
import type { Event } from "../api/types";
import { count, counted } from "../lib/format";
import { Instant } from "../ui/Age";
import { Empty, Loaded, Page } from "../ui/Page";
import { Table, type Column } from "../ui/Table";

const route = getRouteApi("/events");

const COLUMNS: readonly Column<Event>[] = [
  { name: "Time", width: "clamp(7rem, 30vw, 12.5rem)", cell: (e) => <Instant at={e.timeUnixNs} /> },
  { name: "Code", width: "minmax(8rem, 1fr)", wide: true, cell: (e) => <code>{e.code}</code> },
  { name: "Node", width: "minmax(4rem, .6fr)", wide: true, cell: (e) => e.node && <Link to="/events" search={{ node: e.node }}>{e.node}</Link> },
  { name: "Group", width: "minmax(5rem, .8fr)", wide: true, cell: (e) => e.group && <Link to="/groups/$group" params={{ group: e.group }}>{e.group}</Link> },
  { name: "Detail", width: "minmax(8rem, 4fr)", cell: (e) => <><What of={e} />{e.detail}</> },
];

/** Code and object, where they have no column. */
function What({ of }: { of: Event }) {
  return (
    <span className="narrow">
      <code>{of.code}</code>
      {of.group ? <> <Link to="/groups/$group" params={{ group: of.group }}>{of.group}</Link></> : of.node && <> <Link to="/nodes/$node" params={{ node: of.node }}>{of.node}</Link></>}:{" "}
    </span>
  );
}

export function Events() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(queries.events);
  const text = search.q?.toLowerCase() ?? "";
  const codes = useMemo(() => [...new Set(query.data?.map((e) => e.code))].sort(), [query.data]);
  const rows = useMemo(
    () =>
      (query.data ?? [])
        .filter((e) => (!search.node || e.node === search.node) && (!search.group || e.group === search.group) && (!search.code || e.code === search.code))
        .filter((e) => !text || `${e.code}\n${e.node ?? ""}\n${e.group ?? ""}\n${e.detail}`.toLowerCase().includes(text))
        .reverse(),
    [query.data, search.node, search.group, search.code, text],
  );
  return (
    <Page title="Events" tab="Events">
      <div className="tools">
        <input
          type="search"
          aria-label="Filter events"
          placeholder="any text"
          value={search.q ?? ""}
          onChange={(event) => void navigate({ search: (old) => ({ ...old, q: event.target.value || undefined }), replace: true })}
        />
        <select
          aria-label="Code"
          value={search.code ?? ""}
          onChange={(event) => void navigate({ search: (old) => ({ ...old, code: event.target.value || undefined }), replace: true })}
        >
          <option value="">every code</option>
          {codes.map((code) => (
            <option key={code}>{code}</option>
          ))}
        </select>
        {(["node", "group"] as const).map(
          (name) =>
            search[name] && (
              <button key={name} type="button" onClick={() => void navigate({ search: (old) => ({ ...old, [name]: undefined }) })} aria-label={`Remove the filter ${name} ${search[name]}`}>
                {name} {search[name]} ×
              </button>
            ),
        )}
        <span className="faint" role="status">
          {query.data && `${count(rows.length)} of ${counted(query.data.length, "event")}, `} the newest first; the controller keeps the last {count(EVENTS_KEPT)} in memory
        </span>
      </div>
      <Loaded query={query}>
        {(all) =>
          rows.length ? <Table label="Events" columns={COLUMNS} rows={rows} rowKey={(e) => String(e.sequence)} wraps /> : <Empty>{all.length ? "No event passes the filter." : "Nothing has happened since the controller started."}</Empty>
        }
      </Loaded>
    </Page>
  );
}
