// SPDX-License-Identifier: Apache-2.0
// One node: what it was given, what it has, and what is wrong with it.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import * as queries from "../api/queries";
import type { Node } from "../api/types";
import { bytes, count, rate, span } from "../lib/format";
import { labelsOf, syncWord } from "../lib/node";
import { ofCondition } from "../lib/state";
import { Instant } from "../ui/Age";
import { Command, Mono } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";
import { Charts, type Plan } from "./charts/Charts";
import { OverTime } from "./charts/OverTime";
import { DrainButton } from "./drains/DrainButton";
import { Certificate } from "./node/Certificate";
import { Drops } from "./node/Drops";
import { SilenceButton, SilencesOf } from "./silences/SilencesOf";

const route = getRouteApi("/nodes/$node");
const CHARTS: readonly Plan[] = [{ title: "Drops for any reason", unit: "perSecond", lines: [{ series: "drops", label: "packets" }] }];

export function NodePage() {
  const { node: name } = route.useParams();
  const query = useQuery(queries.node(name));
  return (
    <>
      <Crumbs to="/nodes" />
      <Loaded query={query} title={name}>
        {(node) => (node ? <Detail node={node} /> : <Page title={name} tab={name}><p>There is no node of this name in the topology.</p></Page>)}
      </Loaded>
    </>
  );
}

function Detail({ node }: { node: Node }) {
  const { spec, status, metadata } = node;
  const [state, word] = syncWord(node);
  const labels = labelsOf(node);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const read = useQuery(queries.nodeTelemetry(metadata.name));
  const telemetry = read.data;
  return (
    <Page
      title={metadata.name}
      tab={`${metadata.name}: ${word}`}
      aside={
        <>
          <StateWord state={state}>{word}</StateWord>
          <DrainButton target={{ node: metadata.name }} />
          <SilenceButton kind="node" name={metadata.name} />
        </>
      }
    >
      <SilencesOf kind="node" name={metadata.name} />
      <ProblemsOf kind="node" name={metadata.name} />
      <div className="columns">
        <section aria-label="State">
          <h2>State</h2>
          <table className="plain">
            <tbody>
              {status.conditions.map((condition) => (
                <tr key={condition.type}>
                  <td><StateWord state={ofCondition(condition.type, condition.status)}>{condition.type}: {condition.status}</StateWord></td>
                  <td>{condition.message}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {status.errors.map((error) => (
            <p key={`${error.kind} ${error.name}`} className="degraded">
              {error.kind} <code>{error.name}</code>: {error.detail}
            </p>
          ))}
        </section>
        <section aria-label="Configuration">
          <h2>Configuration</h2>
          <dl className="facts">
            <dt><Term of="generation">Desired, applied</Term></dt>
            <dd className="num">generation {spec.generation} of term {spec.term}, {status.observedGeneration ?? "–"} of {status.observedTerm ?? "–"}</dd>
            <dt>Groups, routes</dt>
            <dd>{count(spec.groups)}, {count(spec.routes)}</dd>
            <dt>Address</dt>
            <dd><Mono>{spec.nodeAddress}</Mono></dd>
            <dt><Term of="locator">Locator</Term></dt>
            <dd><Mono>{spec.un}</Mono></dd>
            <dt><Term of="End.MT" /></dt>
            <dd><Mono>{spec.endMt}</Mono></dd>
            {labels.length > 0 && (
              <>
                <dt>Labels</dt>
                <dd>{labels.map((label) => <div key={label}><Mono>{label}</Mono></div>)}</dd>
              </>
            )}
            <dt>Agent, kernel</dt>
            <dd>{status.agentVersion || "–"}, {status.kernel || "–"}</dd>
            <dt>Contract, metrics</dt>
            <dd>{status.contract ? `version ${status.contract} of the southbound contract` : "–"}, {status.metricsAddress ? <Mono>{status.metricsAddress}</Mono> : "none served"}</dd>
            <dt>Last sample</dt>
            <dd>{telemetry?.timeUnixNs ? <Instant at={telemetry.timeUnixNs} /> : telemetry ? "none" : "–"}</dd>
            <dt>The same by command</dt>
            <dd><Command line={`canopyctl describe node ${metadata.name}`} /></dd>
          </dl>
        </section>
      </div>
      <h2>Ports</h2>
      <div className="scroll">
        <table className="plain">
          <thead>
            <tr>
              <th>Port</th><th>To</th><th className="right">Rate</th><th className="right wide">MTU, bytes</th><th className="right wide"><Term of="K_min" /></th><th className="right"><Term of="K_max" /></th><th className="right"><Term of="RTT_est" /></th>
            </tr>
          </thead>
          <tbody>
            {spec.ports.map((port) => (
              <tr key={port.name}>
                <td><Link to="/links/$node/$port" params={{ node: metadata.name, port: port.name }}>{port.name}</Link></td>
                <td>{port.peer}</td>
                <td className="right num">{port.thresholds ? rate(port.thresholds.portRateBps) : "–"}</td>
                <td className="right num wide">{count(port.mtu)}</td>
                <td className="right num wide">{port.thresholds ? bytes(port.thresholds.kMinBytes) : "–"}</td>
                <td className="right num">{port.thresholds ? bytes(port.thresholds.kMaxBytes) : "–"}</td>
                <td className="right num">{port.thresholds ? span(port.thresholds.rttNs) : "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <OverTime title="Drops over time" of={{ kind: "node", name: metadata.name }} search={search} onSearch={(to) => void navigate({ search: to, replace: true })}>
        {(time) => <Charts object={`node/${metadata.name}`} time={time} plans={CHARTS} />}
      </OverTime>
      <h2>Drops that belong to no group</h2>
      <Loaded query={read}>{(sample) => <Drops sample={sample} />}</Loaded>
      <Certificate node={metadata.name} />
    </Page>
  );
}
