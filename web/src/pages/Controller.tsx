// SPDX-License-Identifier: Apache-2.0
// Can what the other pages show be trusted?
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import * as queries from "../api/queries";
import type { DomainStatus, StoreStatus } from "../api/types";
import { useLive } from "../api/useLive";
import { clockDifference } from "../lib/clock";
import { age, bytes, count, counted, span } from "../lib/format";
import { inWords, within, type Own } from "../lib/metrics";
import { commitTimes, unsaved } from "../lib/store";
import { syncWord } from "../lib/node";
import { byName } from "../lib/order";
import { worst, WORST_FIRST } from "../lib/state";
import { check, CHARTS, doubts, type Doubt } from "../lib/trust";
import { Age } from "../ui/Age";
import { Command } from "../ui/Command";
import { ErrorNote, Loaded, Page } from "../ui/Page";
import { ProblemSentence } from "../ui/ProblemSentence";
import { Shape, StateWord } from "../ui/State";

/** Nodes with a row; more are counted. */
const ROWS = 20;

export function ControllerPage() {
  const status = useQuery(queries.status);
  const readiness = useQuery(queries.readiness);
  const problems = useQuery(queries.problems);
  const metrics = useQuery(queries.metrics);
  const controller = useQuery(queries.controller);
  const isLive = useLive().phase === "live";
  const values = metrics.data ?? (metrics.error ? null : undefined);
  const found = doubts({ readiness: readiness.data, status: status.data, problems: problems.data, own: values, isLive });
  const own = problems.data?.filter(({ object }) => object.kind === "controller") ?? [];
  return (
    <Page title="Controller" tab={found?.length ? `Controller: ${counted(found.length, "doubt")}` : "Controller"}>
      <ErrorNote error={status.error ?? readiness.error} />
      <ErrorNote error={metrics.error} />
      <Verdict found={found} status={status.data} />
      {own.map((problem) => <ProblemSentence key={problem.id} problem={problem} />)}
      <div className="columns">
        <section aria-label="Checks">
          <h2>Checks</h2>
          <Loaded query={readiness}>{(lines) => <Checks lines={lines} />}</Loaded>
        </section>
        <section aria-label="Completeness">
          <h2>Completeness</h2>
          <Loaded query={metrics}>{(values) => <Completeness own={values} leftOut={status.data?.leftOut ?? 0} />}</Loaded>
        </section>
      </div>
      <Behind />
      <div className="columns">
        <section aria-label="Controller">
          <h2>Controller</h2>
          <Loaded query={status}>{(domain) => <Facts domain={domain} own={metrics.data} uptimeNs={controller.data?.uptimeNs} />}</Loaded>
        </section>
        <section aria-label="Store">
          <h2>Store</h2>
          <Loaded query={controller}>{({ store }) => <StoreFacts store={store} />}</Loaded>
        </section>
      </div>
    </Page>
  );
}

/** The answer in one sentence, or the reasons against it. */
function Verdict({ found, status }: { found: Doubt[] | null; status: DomainStatus | undefined }) {
  if (!found || !status) return null;
  if (found.length === 0) {
    return (
      <p className="clear">
        <span className="ok"><Shape state="ok" /></span>
        What is shown is complete and of now: commands are executed, the store takes changes, {counted(status.connectedNodes, "agent")} of {count(status.nodes)} connected and in sync, nothing is left out.
      </p>
    );
  }
  const state = worst(found.map((doubt) => doubt.state));
  return (
    <>
      <p className="clear">
        <span className={state}><Shape state={state} /></span>
        {state === "pending" ? "What is shown is of now, but:" : "What is shown may be incomplete or old:"}
      </p>
      <ul className="doubts">
        {found.map(({ state: one, text }) => (
          <li key={text}>
            <span className={one}><Shape state={one} /></span> {text}
          </li>
        ))}
      </ul>
    </>
  );
}

function Checks({ lines }: { lines: readonly string[] }) {
  return (
    <table className="plain" aria-label="Checks of the controller">
      <tbody>
        {lines.map(check).map(({ state, name, detail }) => (
          <tr key={name}>
            <td><StateWord state={state}>{name}</StateWord></td>
            <td>{detail}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Completeness({ own: { values, times }, leftOut }: { own: Own; leftOut: number }) {
  const value = (name: string) => values.get(name) ?? 0;
  const changes = times.at(-1)?.[1] ?? 0;
  return (
    <dl className="facts">
      <dt>Changes in the kernels of all nodes</dt>
      <dd>{changes === 0 ? "none since the start" : `${counted(changes, "change")}: ${inWords("half", within(times, 0.5))}, ${inWords("99\u00a0%", within(times, 0.99))}`}</dd>
      <dt>Not confirmed yet</dt>
      <dd className="num">{count(value("canopy_intent_unconfirmed_changes"))}</dd>
      <dt>Chart data</dt>
      <dd>{bytes(value("canopy_charts_bytes"))} of {bytes(CHARTS)}, {counted(value("canopy_charts_series"), "series", "series")}</dd>
      <dt>Series that made room for others</dt>
      <dd className="num">{count(value("canopy_charts_series_evicted_total"))}</dd>
      <dt>Samples not charted</dt>
      <dd className="num">{count(value("canopy_charts_samples_left_out_total"))}</dd>
      <dt>Symptoms not kept</dt>
      <dd className="num">{count(leftOut)}</dd>
      <dt>Series left out of metrics</dt>
      <dd className="num">{count(value("canopy_controller_series_left_out"))}</dd>
    </dl>
  );
}

/** Nodes of which the controller has not what it desires. */
function Behind() {
  const found = useQuery(queries.nodesNotInSync).data;
  const all = (found?.items ?? []).map((node) => ({ name: node.metadata.name, sync: syncWord(node) }));
  const behind = WORST_FIRST.filter((state) => state !== "ok").flatMap((state) => all.filter(({ sync }) => sync[0] === state).sort((a, b) => byName(a.name, b.name)));
  if (behind.length === 0) return null;
  return (
    <section aria-label="Nodes that are not in sync">
      <h2>{counted(behind.length, "node")}{found?.metadata.continue ? " and more" : ""} not in sync</h2>
      <table className="plain" aria-label="Nodes that are not in sync">
        <tbody>
          {behind.slice(0, ROWS).map(({ name, sync: [state, word] }) => (
            <tr key={name}>
              <td><Link to="/nodes/$node" params={{ node: name }}>{name}</Link></td>
              <td><StateWord state={state}>{word}</StateWord></td>
            </tr>
          ))}
        </tbody>
      </table>
      {behind.length > ROWS && <p><Link to="/nodes">{count(behind.length - ROWS)} more</Link></p>}
    </section>
  );
}

/** Where what was acknowledged is, and how long that took. */
function StoreFacts({ store }: { store: StoreStatus }) {
  return (
    <dl className="facts">
      <dt>Engine</dt>
      <dd>{store.engine === "memory" ? "memory: nothing is kept over a restart" : store.engine}</dd>
      <dt>Size</dt>
      <dd>{store.octets === undefined || store.octets === null ? "–" : bytes(store.octets)}</dd>
      <dt>Takes changes</dt>
      <dd>{store.readOnly ? <span className="failed">no: {store.readOnly}</span> : "yes"}</dd>
      <dt>Commits</dt>
      <dd>{count(store.revision)} since it was made</dd>
      <dt>Time of a commit</dt>
      <dd>{commitTimes(store)}</dd>
      <dt>Last backup</dt>
      <dd>{store.backupUnixNs ? <><Age since={store.backupUnixNs} /> ago{unsaved(store)}</> : "none: one is written beside the store once something is committed"}</dd>
      <dt>The same by command</dt>
      <dd><Command line="canopyctl get controllers" /></dd>
    </dl>
  );
}

function Facts({ domain, own, uptimeNs }: { domain: DomainStatus; own: Own | undefined; uptimeNs: number | undefined }) {
  const difference = clockDifference();
  return (
    <dl className="facts">
      <dt>Version</dt>
      <dd>{domain.version}, API {domain.apiVersion}</dd>
      <dt>Runs for</dt>
      <dd className="num">{uptimeNs === undefined ? "–" : age(uptimeNs)}</dd>
      <dt>Term</dt>
      <dd className="num">{count(domain.term)}</dd>
      <dt>Commands since its start</dt>
      <dd className="num">{own ? count(own.values.get("canopy_controller_domain_revision") ?? 0) : "–"}</dd>
      <dt>Agents</dt>
      <dd>{count(domain.connectedNodes)} of {count(domain.nodes)} connected, {count(domain.syncedNodes)} in sync</dd>
      <dt>This browser's clock</dt>
      <dd>{Math.abs(difference) < 2e9 ? "as the controller's" : `${span(Math.abs(difference))} ${difference > 0 ? "behind" : "ahead of"} the controller's; ages are by the controller's`}</dd>
      <dt>The same by command</dt>
      <dd><Command line="canopyctl status" /> <Command line="canopyctl version" /></dd>
    </dl>
  );
}
