// SPDX-License-Identifier: Apache-2.0
// One incident: what was seen, and what was measured from 5 min before to 5 min after.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import * as queries from "../api/queries";
import type { Incident, IncidentProblem } from "../api/types";
import { counted } from "../lib/format";
import { chartObject, charted, lasted, objectOf, sentenceOf, title, type Charted } from "../lib/incident";
import { object } from "../lib/problem";
import { ofSeverityName } from "../lib/state";
import { Instant } from "../ui/Age";
import { Chart } from "../ui/Chart";
import { Command } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Loaded, Page } from "../ui/Page";
import { ObjectLink } from "../ui/ObjectLink";
import { StateWord } from "../ui/State";

const route = getRouteApi("/incidents/$incident");
/** Objects whose charts are shown at once; the others are opened by hand. */
const OPEN = 3;

export function IncidentPage() {
  const { incident } = route.useParams();
  const query = useQuery(queries.incident(incident));
  return (
    <>
      <Crumbs to="/incidents" />
      <Loaded query={query} title="Incident">
        {(found) => <Detail found={found} />}
      </Loaded>
    </>
  );
}

function Detail({ found }: { found: Incident }) {
  const { incident } = found;
  const objects = useMemo(() => charted(found), [found]);
  const opened = useMemo(() => [{ at: incident.openedUnixNs / 1e9, label: "opened" }], [incident.openedUnixNs]);
  return (
    <Page title={sentenceOf(incident)} tab={`${incident.of.code} ${incident.of.name}`} aside={<StateWord state={ofSeverityName(incident.severity)}>{incident.severity}</StateWord>}>
      <dl className="facts">
        <dt>Object</dt>
        <dd>
          <ObjectLink of={objectOf(incident.of)} />
        </dd>
        <dt>Opened</dt>
        <dd>
          <Instant at={incident.openedUnixNs} />
          {incident.reopened > 0 && `, and again ${counted(incident.reopened, "time")}`}
        </dd>
        <dt>Closed</dt>
        <dd>
          {incident.closedUnixNs ? (
            <>
              <Instant at={incident.closedUnixNs} />, after {lasted(incident)}
            </>
          ) : (
            <span className="prose">
              no end known: it is <Link to="/problems/$id" params={{ id: incident.problem }}>still open</Link>, or the controller ended before
            </span>
          )}
        </dd>
        <dt>Seen</dt>
        <dd>{incident.evidence.length ? incident.evidence.map((line) => <div key={line}>{line}</div>) : "–"}</dd>
        <dt>Explained by</dt>
        <dd>
          <Problems all={incident.causes} none="no other problem of that time" />
        </dd>
        <dt>Affected</dt>
        <dd>
          <Problems all={incident.affects} none="nothing else" />
        </dd>
        <dt>As text</dt>
        <dd>
          <Command line={`canopyctl chart --incident ${incident.id}`} />
        </dd>
      </dl>
      {objects.length === 0 && <p className="faint">Nothing was measured of it around that time.</p>}
      {objects.map((of, at) => (
        <ChartsOf key={of.object} of={of} opened={opened} isOpen={at < OPEN} />
      ))}
    </Page>
  );
}

function ChartsOf({ of, opened, isOpen }: { of: Charted; opened: readonly { at: number; label: string }[]; isOpen: boolean }) {
  const name = chartObject(of.object);
  return (
    <details open={isOpen} className="of-object">
      <summary>
        <h2>{name}</h2>
      </summary>
      <div className="charts">
        {of.data.series.map(({ name: series, unit }) => (
          <Chart key={series} title={title(series)} of={name} data={of.data} lines={[{ series, label: title(series) }]} unit={unit} instants={opened} cursor="page" />
        ))}
      </div>
    </details>
  );
}

function Problems({ all, none }: { all: readonly IncidentProblem[]; none: string }) {
  if (all.length === 0) return <>{none}</>;
  return (
    <>
      {all.map((one) => (
        <div key={`${one.code} ${one.kind} ${one.name}`}>
          {one.code} of <ObjectLink of={objectOf(one)} text={object(objectOf(one))} />
        </div>
      ))}
    </>
  );
}
