// SPDX-License-Identifier: Apache-2.0
// What happened, newest first.
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { EVENTS_KEPT } from "../api/changes";
import { PAGE } from "../api/queries";
import type { Event } from "../api/types";
import { useEvents } from "../api/useEvents";
import { during, KINDS, passing, type Kind } from "../lib/event";
import { count, counted, instant } from "../lib/format";
import { timeLine } from "../lib/timeLine";
import { Instant } from "../ui/Age";
import { Empty, ErrorNote, Loaded, Page } from "../ui/Page";
import { useUtc } from "../ui/settings";
import { Table, type Column } from "../ui/Table";
import { Code, Objects } from "./events/Objects";
import { TimeLineChart } from "./events/TimeLineChart";

const route = getRouteApi("/events");

const KIND_WORDS: Readonly<Record<Kind, string>> = { group: "groups", node: "nodes", link: "links and ports", host: "hosts", domain: "none of these" };

const COLUMNS: readonly Column<Event>[] = [
  { name: "Time", width: "clamp(7rem, 30vw, 12.5rem)", cell: (e) => <Instant at={e.timeUnixNs} /> },
  { name: "Code", width: "minmax(8rem, 1fr)", wide: true, cell: (e) => <Code of={e} /> },
  { name: "Node", width: "minmax(4rem, .6fr)", wide: true, cell: (e) => e.node && <Link to="/nodes/$node" params={{ node: e.node }}>{e.node}</Link> },
  { name: "About", width: "minmax(8rem, 1.2fr)", wide: true, cell: (e) => <Objects of={e} /> },
  { name: "Detail", width: "minmax(8rem, 4fr)", cell: (e) => <><span className="narrow"><Code of={e} /> <Objects of={e} withNode />: </span>{e.detail}</> },
];

export function Events() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const utc = useUtc();
  const { q, code, kind, node, group, from, to } = search;
  const { query, all, hasMore, isReading, error, more } = useEvents({ node, group, code });
  const codes = useMemo(() => [...new Set(all.map((e) => e.code))].sort(), [all]);
  const found = useMemo(() => passing(all, { q, code, kind, node, group }), [all, q, code, kind, node, group]);
  const line = useMemo(() => timeLine(found.map(({ timeUnixNs }) => timeUnixNs / 1e9)), [found]);
  const rows = useMemo(() => [...during(found, { from, to })].reverse(), [found, from, to]);
  const range = from === undefined || to === undefined ? null : { from, to };
  const words = range && `${instant(range.from * 1e9, utc)} to ${instant(range.to * 1e9, utc)}`;
  // What the controller does not filter by could be read on through its whole journal without a row.
  const isFound = !q && !kind && !range;
  const change = (next: typeof search) => void navigate({ search: (old) => ({ ...old, ...next }), replace: true });
  return (
    <Page title="Events" tab="Events">
      <div className="tools">
        <input type="search" aria-label="Filter events" placeholder="any text" value={q ?? ""} onChange={(event) => change({ q: event.target.value || undefined })} />
        <select aria-label="Code" value={code ?? ""} onChange={(event) => change({ code: event.target.value || undefined })}>
          <option value="">every code</option>
          {[...new Set([...codes, ...(code ? [code] : [])])].map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <select aria-label="About" value={kind ?? ""} onChange={(event) => change({ kind: (event.target.value || undefined) as Kind | undefined })}>
          <option value="">about anything</option>
          {KINDS.map((one) => (
            <option key={one} value={one}>{KIND_WORDS[one]}</option>
          ))}
        </select>
        {(["node", "group"] as const).map(
          (name) =>
            search[name] && (
              <button key={name} type="button" onClick={() => change({ [name]: undefined })} aria-label={`Remove the filter ${name} ${search[name]}`}>
                {name} {search[name]} ×
              </button>
            ),
        )}
        {range && (
          <button type="button" onClick={() => change({ from: undefined, to: undefined })} aria-label={`Remove the filter ${words}`}>
            {words} ×
          </button>
        )}
        <span className="faint" role="status">
          {query.data && `${count(rows.length)} of ${counted(all.length, "event")} read, `}the newest first{hasMore ? `; there may be older ones${isReading ? ", which are being read" : isFound ? ", which are read as the list is scrolled" : ""}` : query.data && all.length > EVENTS_KEPT ? "; older ones are not kept" : ""}
        </span>
        {hasMore && !isFound && (
          <button type="button" disabled={isReading} onClick={more}>
            Read {count(PAGE)} older
          </button>
        )}
      </div>
      <ErrorNote error={error} />
      <Loaded query={query}>
        {() => (
          <>
            {line && <TimeLineChart line={line} range={range} onRange={(next) => change({ from: next?.from, to: next?.to })} />}
            {rows.length ? <Table label="Events" columns={COLUMNS} rows={rows} rowKey={(e) => String(e.sequence)} wraps onEnd={isFound && hasMore ? more : undefined} /> : <Empty>{all.length ? "No event passes the filter." : "Nothing has happened since the controller started."}</Empty>}
          </>
        )}
      </Loaded>
    </Page>
  );
}
