// SPDX-License-Identifier: Apache-2.0
// Entries of the audit that pass a filter, page by page; each opens.
import { useInfiniteQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import * as queries from "../../api/queries";
import type { AuditItem } from "../../api/types";
import { object, principal } from "../../lib/commit";
import { count, counted } from "../../lib/format";
import type { AuditSearch } from "../../lib/undo";
import { Instant } from "../../ui/Age";
import { Empty, ReadFailed } from "../../ui/Page";
import { Table, type Column } from "../../ui/Table";
import { Entry } from "./Entry";

const fields = (entry: AuditItem): string => [...(entry.fields ?? []), ...(entry.moreFields ? [`and ${entry.moreFields} more`] : [])].join(" ");

/** `none`: what is shown if nothing passes the filter. */
export function Writes({ search, none }: { search: AuditSearch; none: string }) {
  const query = useInfiniteQuery(queries.audit(search));
  const [open, setOpen] = useState<AuditItem | null>(null);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetching, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  const hosts = search.hosts ?? false;
  const columns = useMemo<readonly Column<AuditItem>[]>(
    () => [
      { name: "Time", width: "clamp(7rem, 30vw, 12.5rem)", cell: (e) => <Instant at={e.timeUnixNs} /> },
      { name: "By", width: "minmax(5rem, .7fr)", wide: true, cell: (e) => principal(e.by) },
      {
        name: "Write",
        width: "minmax(8rem, 1.6fr)",
        cell: (e) => (
          <button type="button" className="quiet" aria-haspopup="dialog" aria-label={`${e.action} ${object(e.kind, e.name)}: open`} onClick={() => setOpen(e)}>
            {e.action} {object(e.kind, e.name)}
          </button>
        ),
      },
      ...(hosts
        ? [
            { name: "Times", width: "5rem", right: true, cell: (e: AuditItem) => count(e.count ?? 1) },
            { name: "Until", width: "clamp(7rem, 30vw, 12.5rem)", wide: true, cell: (e: AuditItem) => (e.lastUnixNs ? <Instant at={e.lastUnixNs} /> : "–") },
          ]
        : [
            { name: "Generation", width: "5.5rem", right: true, wide: true, cell: (e: AuditItem) => (e.generation === null || e.generation === undefined ? "–" : count(e.generation)) },
            { name: "Fields", width: "minmax(8rem, 2fr)", wide: true, cell: (e: AuditItem) => <code title={fields(e)}>{fields(e)}</code> },
          ]),
    ],
    [hosts],
  );
  return (
    <>
      <p className="faint" role="status">
        {query.data && `${hosts ? counted(rows.length, "entry", "entries") : counted(rows.length, "write")}, the newest first${hasNextPage ? "; more follow" : ""}`}
      </p>
      <ReadFailed query={query} />
      {rows.length > 0 ? (
        <Table label="Audit" columns={columns} rows={rows} rowKey={(e) => String(e.sequence)} wraps={hosts} onEnd={search.request ? undefined : more} />
      ) : query.data && hasNextPage && !search.request ? (
        // A page ends after 10,000 entries that were searched, also without one that is wanted.
        <Earlier busy={isFetching} onClick={more} />
      ) : query.data ? (
        <Empty>{none}</Empty>
      ) : (
        !query.error && <p className="faint" role="status">Reading…</p>
      )}
      {/* What one request wrote is near: the whole audit is searched for more of it only where that is wanted. */}
      {search.request && hasNextPage && <Earlier busy={isFetching} onClick={more} />}
      {open && <Entry entry={open} onClose={() => setOpen(null)} />}
    </>
  );
}

function Earlier({ busy, onClick }: { busy: boolean; onClick: () => void }) {
  return (
    <div className="tools">
      <button type="button" disabled={busy} aria-describedby="earlier-why" onClick={onClick}>Search earlier writes</button>
      <span id="earlier-why" className="faint">{busy && "Searching…"}</span>
    </div>
  );
}
