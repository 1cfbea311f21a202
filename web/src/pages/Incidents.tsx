// SPDX-License-Identifier: Apache-2.0
// Problems that opened, the newest first: what happened in the night, in the morning.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as queries from "../api/queries";
import type { IncidentItem } from "../api/types";
import { counted } from "../lib/format";
import { keptWords, lasted, sentenceOf } from "../lib/incident";
import { ofSeverityName } from "../lib/state";
import { Instant } from "../ui/Age";
import { Empty, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";

export function Incidents() {
  const query = useQuery(queries.incidents);
  return (
    <Page title={<Term of="incident">Incidents</Term>} tab="Incidents">
      <Loaded query={query}>
        {(list) =>
          list.length === 0 ? (
            <Empty>No problem has opened since this store was made. When one opens, the charts around that time are kept here.</Empty>
          ) : (
            <>
              <p className="faint" role="status">{keptWords(list.length)}</p>
              <IncidentTable list={list} label="Incidents" />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

export function IncidentTable({ list, label }: { list: readonly IncidentItem[]; label: string }) {
  const isOpen = new Set(useQuery(queries.problems).data?.map(({ id }) => id));
  return (
    <div className="scroll">
      <table className="plain" aria-label={label}>
        <thead>
          <tr>
            <th scope="col">Opened</th>
            <th scope="col">Lasted</th>
            <th scope="col">What</th>
            <th scope="col" className="wide">Affected</th>
          </tr>
        </thead>
        <tbody>
          {list.map((incident) => (
            <tr key={incident.id}>
              <td>
                <Instant at={incident.openedUnixNs} />
              </td>
              <td className="num">{lasted(incident) ?? (isOpen.has(incident.problem) ? <strong>still open</strong> : <span className="faint">no end known</span>)}</td>
              <td>
                <div><StateWord state={ofSeverityName(incident.severity)}>{incident.severity}</StateWord></div>
                <Link to="/incidents/$incident" params={{ incident: incident.id }}>
                  {sentenceOf(incident)}
                </Link>
              </td>
              <td className="num wide">{incident.affects.length ? counted(incident.affects.length, "problem") : "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
