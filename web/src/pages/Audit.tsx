// SPDX-License-Identifier: Apache-2.0
// Who wrote what, and how is it taken back?
import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";
import * as queries from "../api/queries";
import type { AuditItem } from "../api/types";
import { object, principal } from "../lib/commit";
import { count } from "../lib/format";
import { auditCommand, WITHIN, type AuditSearch } from "../lib/undo";
import { Instant } from "../ui/Age";
import { Command } from "../ui/Command";
import { Empty, ErrorNote, Page } from "../ui/Page";
import { Table, type Column } from "../ui/Table";
import { Entry } from "./audit/Entry";

const route = getRouteApi("/audit");

const KINDS = ["Topology", "Drain", "Group", "Member", "Hmac", "Commit"];
const ACTIONS = ["create", "update", "delete", "rotate", "begin", "confirm", "extend", "cancel", "expire"];

const fields = (entry: AuditItem): string => [...(entry.fields ?? []), ...(entry.moreFields ? [`and ${entry.moreFields} more`] : [])].join(" ");

export function Audit() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(queries.audit(search));
  const [open, setOpen] = useState<AuditItem | null>(null);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.items) ?? [], [query.data]);
  const { hasNextPage, isFetching, fetchNextPage } = query;
  const more = useCallback(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  const set = (name: keyof AuditSearch, value: string) => void navigate({ search: (old) => ({ ...old, [name]: value || undefined }), replace: true });
  const columns = useMemo<readonly Column<AuditItem>[]>(
    () => [
      { name: "Time", width: "12.5rem", cell: (e) => <Instant at={e.timeUnixNs} /> },
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
      { name: "Generation", width: "5.5rem", right: true, wide: true, cell: (e) => (e.generation === null || e.generation === undefined ? "–" : count(e.generation)) },
      { name: "Fields", width: "minmax(8rem, 2fr)", wide: true, cell: (e) => <code title={fields(e)}>{fields(e)}</code> },
    ],
    [],
  );
  const filtered = Object.values(search).some(Boolean);
  return (
    <Page title="Audit" tab="Audit">
      <div className="tools">
        <input type="search" aria-label="Written by" placeholder="by" value={search.by ?? ""} onChange={(event) => set("by", event.target.value)} />
        <Choice label="Action" every="every action" values={ACTIONS} value={search.action} onChange={(value) => set("action", value)} />
        <Choice label="Kind" every="every kind" values={KINDS} value={search.kind} onChange={(value) => set("kind", value)} />
        <input type="search" aria-label="Name of the object" placeholder="whole name" value={search.name ?? ""} onChange={(event) => set("name", event.target.value)} />
        <select aria-label="Time" value={search.within ?? ""} onChange={(event) => set("within", event.target.value)}>
          <option value="">any time</option>
          {Object.entries(WITHIN).map(([value, [, name]]) => (
            <option key={value} value={value}>{name}</option>
          ))}
        </select>
        <Command line={auditCommand(search)} />
      </div>
      <p className="faint" role="status">
        {count(rows.length)} {rows.length === 1 ? "write" : "writes"}, the newest first{hasNextPage ? "; more follow" : ""}
      </p>
      {query.error && <ErrorNote error={query.error} />}
      {rows.length > 0 ? (
        <Table label="Audit" columns={columns} rows={rows} rowKey={(e) => String(e.sequence)} onEnd={more} />
      ) : query.data && hasNextPage ? (
        // A page ends after 10,000 entries that were searched, also without one that is wanted.
        <button type="button" disabled={isFetching} onClick={more}>Search earlier writes</button>
      ) : query.data ? (
        <Empty>{filtered ? "No write that is kept passes the filter." : "No operator has written anything yet."}</Empty>
      ) : (
        !query.error && <p className="faint" role="status">Reading…</p>
      )}
      {open && <Entry entry={open} onClose={() => setOpen(null)} />}
    </Page>
  );
}

interface ChoiceProps {
  label: string;
  every: string;
  values: readonly string[];
  value: string | undefined;
  onChange: (value: string) => void;
}

function Choice({ label, every, values, value, onChange }: ChoiceProps) {
  return (
    <select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
      <option value="">{every}</option>
      {values.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
