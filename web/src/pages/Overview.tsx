// SPDX-License-Identifier: Apache-2.0
// Is anything wrong, and what is the cause?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import * as queries from "../api/queries";
import type { DomainStatus, Problem, RestartingAgent } from "../api/types";
import { count, counted } from "../lib/format";
import { kinds } from "../lib/problem";
import { ofPhase, ofSeverity, PHASE_ORDER } from "../lib/state";
import { Command } from "../ui/Command";
import { ObjectLink } from "../ui/ObjectLink";
import { Loaded, Page } from "../ui/Page";
import { ProblemSentence } from "../ui/ProblemSentence";
import { Shape, StateWord } from "../ui/State";
import { Term } from "../ui/Term";
import { Checked } from "./overview/Checked";
import { DrainNow } from "./overview/DrainNow";
import { FirstSteps } from "./overview/FirstSteps";
import { Fleet } from "./overview/Fleet";
import { SinceVisit } from "./overview/SinceVisit";
import { Acknowledge } from "./silences/Acknowledge";

/** Root problems on this page; more are counted. */
const SHOWN = 50;
/** The first are shown with what was seen and what to do; of the others that is on a page of their own. */
const WHOLE = 8;

export function Overview() {
  const status = useQuery(queries.status);
  const problems = useQuery(queries.problems);
  return (
    <Page title="Overview" tab={tab(problems.data)}>
      <SinceVisit />
      <Loaded query={problems}>{(list) => <Causes problems={list} status={status.data} />}</Loaded>
      <Loaded query={status}>{(domain) => <Totals domain={domain} />}</Loaded>
    </Page>
  );
}

function tab(problems: Problem[] | undefined): string {
  const roots = problems?.filter((problem) => problem.root && !problem.silence).length ?? 0;
  return roots ? counted(roots, "problem") : "Overview";
}

function Causes({ problems, status }: { problems: Problem[]; status: DomainStatus | undefined }) {
  const roots = problems.filter((problem) => problem.root);
  const silenced = roots.filter((problem) => problem.silence).length;
  const left = status?.leftOut ?? 0;
  return (
    <section aria-label="What is wrong">
      {roots.length === 0 ? (
        <p className="clear">
          <span className="ok">
            <Shape state="ok" />
          </span>
          No problem is open.
        </p>
      ) : (
        <p className="faint" role="status">
          {count(roots.length)} <Term of="root problem">{roots.length === 1 ? "root problem" : "root problems"}</Term>
          {silenced > 0 && `, ${silenced === roots.length ? "all" : count(silenced)} known to operators`}
          {problems.length > roots.length && `, ${count(problems.length - roots.length)} more that follow from ${roots.length === 1 ? "it" : "them"}`}
        </p>
      )}
      {roots.length > WHOLE && <Kinds roots={roots} />}
      {roots.slice(0, SHOWN).map((problem, at) => (
        <ProblemSentence key={problem.id} problem={problem} isShort={at >= WHOLE}>
          <DrainNow problem={problem} />
          <Acknowledge problem={problem} />
        </ProblemSentence>
      ))}
      {roots.length > SHOWN && (
        <p className="faint">
          {count(roots.length - SHOWN)} more: <Command line="canopyctl get problems" />
        </p>
      )}
      {status?.restarting?.length ? <Restarting agents={status.restarting} all={status.restartingAgents ?? 0} /> : null}
      {left > 0 && <p className="degraded">{counted(left, "symptom")} not kept: there were too many problems.</p>}
    </section>
  );
}

/** What is wrong, where there is too much of it to be read one by one. */
function Kinds({ roots }: { roots: readonly Problem[] }) {
  return (
    <ul className="doubts" aria-label="Root problems by code">
      {kinds(roots).map(({ severity, code, objects }) => (
        <li key={`${severity} ${code}`}>
          <StateWord state={ofSeverity(severity)}>{severity}</StateWord> <code>{code}</code>, {objects}
        </li>
      ))}
    </ul>
  );
}

/** Agents that are gone and to be back soon, in the words of `canopyctl status`. */
function Restarting({ agents, all }: { agents: RestartingAgent[]; all: number }) {
  const shown = agents.slice(0, SHOWN);
  const more = all - shown.length;
  return (
    <p role="status">
      <StateWord state="pending">Agents that restart</StateWord>:{" "}
      {shown.map(({ node, announced }, at) => (
        <Fragment key={node}>
          {at > 0 && ", "}
          <ObjectLink of={{ kind: "node", name: node }} text={node} /> ({announced ? "stopped" : "killed or cut off"})
        </Fragment>
      ))}
      {more > 0 && (
        <>
          , <Link to="/nodes">{count(more)} more</Link>
        </>
      )}
      . Their nodes continue to forward.
    </p>
  );
}

function Totals({ domain }: { domain: DomainStatus }) {
  if (domain.nodes === 0) return <FirstSteps domain={domain} />;
  const total = Object.values(domain.groups).reduce((a, b) => a + b, 0);
  return (
    <>
      <Checked domain={domain} />
      <section aria-label="Totals">
        <h2>Domain</h2>
        <dl className="totals">
          <Total name="Groups" to="/groups" value={total} />
          <Total name="Nodes" to="/nodes" value={domain.nodes} />
          <Total name="Links" to="/links" value={domain.links} />
          <Total name="Hosts" to="/hosts" value={domain.hosts} />
        </dl>
        <Fleet />
        {total === 0 ? (
          <FirstSteps domain={domain} />
        ) : (
          <>
            <h2>Groups by phase</h2>
            <dl className="totals">
              {PHASE_ORDER.filter((phase) => domain.groups[phase]).map((phase) => (
                <div key={phase}>
                  <dt>
                    <StateWord state={ofPhase(phase)}>{phase}</StateWord>
                  </dt>
                  <dd className="num">
                    <Link to="/groups" search={{ phase }}>
                      {count(domain.groups[phase] ?? 0)}
                    </Link>
                  </dd>
                </div>
              ))}
            </dl>
          </>
        )}
      </section>
    </>
  );
}

function Total({ name, to, value }: { name: string; to: "/groups" | "/nodes" | "/links" | "/hosts"; value: number }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="num">
        <Link to={to}>{count(value)}</Link>
      </dd>
    </div>
  );
}
