// SPDX-License-Identifier: Apache-2.0
// Charts of a page with what they have in common, which is in the URL: how far back they go, and the instant at which they are frozen.
import { useQuery } from "@tanstack/react-query";
import { useMemo, useSyncExternalStore, type ReactNode } from "react";
import type { RangeName } from "../../api/charts";
import * as queries from "../../api/queries";
import type { Moment } from "../../lib/chart";
import { controllerNow, everySecond } from "../../lib/clock";
import { counted } from "../../lib/format";
import { concerns, marks, within, type Charted } from "../../lib/marks";
import { Instant } from "../../ui/Age";
import { CopyButton } from "../../ui/Command";

const SPANS: Record<RangeName, number> = { "5m": 300, "1h": 3600 };
/** Events that are listed. */
const SHOWN = 20;

export interface ChartSearch {
  range?: RangeName | undefined;
  /** Seconds since the Unix epoch. */
  at?: number | undefined;
}

export interface ChartTime extends ChartSearch {
  instants: readonly Moment[];
}

interface Props {
  title: string;
  of: Charted;
  search: ChartSearch;
  onSearch: (search: ChartSearch) => void;
  children: (time: ChartTime) => ReactNode;
}

export function OverTime({ title, of, search, onSearch, children }: Props) {
  const { range, at } = search;
  const span = SPANS[range ?? "5m"];
  const events = useQuery(queries.events).data;
  const { kind, name } = of;
  const own = useMemo(() => (events ?? []).filter((event) => concerns(event, { kind, name })), [events, kind, name]);
  const now = useSyncExternalStore(everySecond, controllerNow);
  const end = at ?? Math.ceil(now / 1e9);
  const shown = useMemo(() => within(own, end - span, end), [own, end, span]);
  const instants = useMemo(() => marks(shown, span), [shown, span]);
  return (
    <section aria-label={title}>
      <div className="section-head">
        <h2>{title}</h2>
        <select aria-label="Time range of the charts" value={range ?? "5m"} onChange={(event) => onSearch({ at, range: event.target.value === "1h" ? "1h" : undefined })}>
          <option value="5m">{at === undefined ? "last 5 min, by 1 s" : "5 min"}</option>
          <option value="1h">{at === undefined ? "last hour, by 10 s" : "an hour"}</option>
        </select>
        {at === undefined ? (
          <button type="button" onClick={() => onSearch({ range, at: Math.floor(controllerNow() / 1e9) })}>
            Freeze
          </button>
        ) : (
          <>
            <span role="status">Charts until <Instant at={at * 1e9} />; the rest of the page is of now.</span>
            <CopyButton text={() => location.href} label="Copy link" />
            <button type="button" onClick={() => onSearch({ range })}>
              Live
            </button>
          </>
        )}
      </div>
      {shown.length > 0 && (
        <details className="values">
          <summary>{counted(shown.length, "event")} in this time</summary>
          <ul>
            {shown.slice(-SHOWN).map((event) => (
              <li key={event.sequence}>
                <Instant at={event.timeUnixNs} /> <code>{event.code}</code> {event.detail}
              </li>
            ))}
          </ul>
        </details>
      )}
      {children({ range, at, instants })}
    </section>
  );
}
