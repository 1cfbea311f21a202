// SPDX-License-Identifier: Apache-2.0
// One problem: what it means, what it was seen by, its causes and what follows from it.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import * as queries from "../api/queries";
import type { Problem, ProblemRef } from "../api/types";
import { OF_PROBLEM } from "../lib/incident";
import { object, sentence } from "../lib/problem";
import { ofSeverity } from "../lib/state";
import { Age, Instant } from "../ui/Age";
import { Command } from "../ui/Command";
import { Known } from "../ui/Known";
import { Empty, Loaded, Page } from "../ui/Page";
import { ObjectLink } from "../ui/ObjectLink";
import { Prose } from "../ui/Prose";
import { StateWord } from "../ui/State";
import { IncidentTable } from "./Incidents";
import { Acknowledge } from "./silences/Acknowledge";

const route = getRouteApi("/problems/$id");

export function ProblemPage() {
  const { id } = route.useParams();
  const query = useQuery(queries.problems);
  return (
    <Loaded query={query} title="Problem">
      {(list) => {
        const problem = list.find((p) => p.id === id);
        return problem ? (
          <Detail problem={problem} />
        ) : (
          <Page title="Problem" tab="Problem">
            <Empty>
              Problem <code>{id}</code> is not open: it has ended, or never was. <Link to="/events" search={{ q: id }}>Events that name it</Link>
            </Empty>
            <Opened problem={id} />
          </Page>
        );
      }}
    </Loaded>
  );
}

function Detail({ problem }: { problem: Problem }) {
  const codes = useQuery(queries.problemCodes).data;
  const info = codes?.find((code) => code.code === problem.code);
  return (
    <Page title={sentence(problem)} tab={`${problem.code} ${problem.object.name}`} aside={<StateWord state={ofSeverity(problem.severity)}>{problem.severity}</StateWord>}>
      {problem.root && (
        <div className="tools">
          <Acknowledge problem={problem} />
        </div>
      )}
      <dl className="facts">
        {problem.silence && (
          <>
            <dt>Silence</dt>
            <dd>
              <Known silence={problem.silence} />
            </dd>
          </>
        )}
        <dt>Object</dt>
        <dd>
          <ObjectLink of={problem.object} />
        </dd>
        <dt>Since</dt>
        <dd>
          <Instant at={problem.sinceUnixNs} />, for <Age since={problem.sinceUnixNs} />
          {problem.count > 1 && `, its symptoms began ${problem.count} times`}
          {problem.closing && "; not seen at present, it ends soon"}
        </dd>
        <dt>Seen</dt>
        <dd>{problem.evidence.length ? problem.evidence.map((line) => <div key={line}>{line}</div>) : "–"}</dd>
        <dt>Meaning</dt>
        <dd>{info?.meaning ?? (codes ? "–" : "…")}</dd>
        <dt>What to do</dt>
        <dd><Prose text={problem.remedy} /></dd>
        <dt>Code</dt>
        <dd>
          <Command line={`canopyctl explain ${problem.code}`} />
        </dd>
      </dl>
      <Refs title="Explained by" none="No other open problem explains it: it is a root." refs={problem.causes} />
      {problem.root && <Refs title="Explains" none="Nothing else follows from it." refs={problem.affects} />}
      <Opened problem={problem.id} />
    </Page>
  );
}

/** What was measured when it opened, now and before. */
function Opened({ problem }: { problem: string }) {
  const list = useQuery(queries.incidentsOf(problem)).data ?? [];
  if (list.length === 0) return null;
  return (
    <section aria-label="Charts around its opening">
      <h2>Charts around its opening</h2>
      <IncidentTable list={list} label="Incidents of this problem" />
      {list.length >= OF_PROBLEM && <p className="faint">The newest {OF_PROBLEM}; earlier ones that are kept are in <Link to="/incidents">Incidents</Link>.</p>}
    </section>
  );
}

function Refs({ title, none, refs }: { title: string; none: string; refs: readonly ProblemRef[] }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      {refs.length === 0 && <p className="faint">{none}</p>}
      <ul>
        {refs.map((ref) => (
          <li key={ref.id}>
            <Link to="/problems/$id" params={{ id: ref.id }}>
              {ref.code}
            </Link>{" "}
            of <ObjectLink of={ref.object} text={object(ref.object)} />
          </li>
        ))}
      </ul>
    </section>
  );
}
