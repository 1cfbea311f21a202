// SPDX-License-Identifier: Apache-2.0
// The last events of what is picked on the map.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import * as queries from "../../api/queries";
import { concerns, type Charted } from "../../lib/marks";
import { Instant } from "../../ui/Age";

const SHOWN = 5;

export function LastEvents({ kind, name }: Charted) {
  const { data } = useQuery(queries.events);
  const last = useMemo(() => (data ?? []).filter((event) => concerns(event, { kind, name })).slice(-SHOWN).reverse(), [data, kind, name]);
  return (
    <>
      <h3>Last events</h3>
      {last.length === 0 ? (
        <p className="faint">{data ? "None among those that the controller has in memory." : "Reading…"}</p>
      ) : (
        <ul className="plain-list" aria-label={`Last events of ${name}`}>
          {last.map((event) => (
            <li key={event.sequence}>
              <Instant at={event.timeUnixNs} /> <code>{event.code}</code> {event.detail}
            </li>
          ))}
        </ul>
      )}
      {last.length > 0 && <p><Link to="/events" search={kind === "node" ? { node: name } : { q: kind === "link" ? name.split("--")[0] : name }}>{kind === "node" ? "All of its events" : "Events with its name in them"}</Link></p>}
    </>
  );
}
