// SPDX-License-Identifier: Apache-2.0
// One host: where it is attached, and the groups that it sends to and receives from.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo } from "react";
import * as queries from "../api/queries";
import type { Host, HostAgent } from "../api/types";
import { count, counted } from "../lib/format";
import { linksOf, worstPort } from "../lib/host";
import { ofPort } from "../lib/state";
import { Command, Mono } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { Charts } from "./charts/Charts";
import { linkCharts } from "./charts/linkCharts";
import { OverTime, type ChartTime } from "./charts/OverTime";
import { SilenceButton, SilencesOf } from "./silences/SilencesOf";

const route = getRouteApi("/hosts/$host");

export function HostPage() {
  const { host: name } = route.useParams();
  const query = useQuery(queries.host(name));
  return (
    <>
      <Crumbs to="/hosts" />
      <Loaded query={query} title={name}>
        {(host) => <Detail host={host} />}
      </Loaded>
    </>
  );
}

/** By which agent applications of the host join groups. */
function Agent({ of, node }: { of: HostAgent; node: string }) {
  switch (of) {
    case "OfNode":
      return <>that of node {node}</>;
    case "Connected":
      return <StateWord state="ok">its own, connected</StateWord>;
    case "NotConnected":
      return <StateWord state="degraded">its own, not connected: applications can neither join nor leave</StateWord>;
  }
}

/** What the node sends to the host. Of the other direction nothing is measured. */
function PortCharts({ node, port, time }: { node: string; port: string; time: ChartTime }) {
  const link = useQuery(queries.link(`${node}/${port}`)).data;
  const thresholds = link?.status.thresholds;
  const plans = useMemo(() => linkCharts(thresholds), [thresholds]);
  return (
    <>
      <p className="faint">What <Link to="/links/$node/$port" params={{ node, port }}>{node}/{port}</Link> sends to it.{link?.status.reason && ` Queue, bytes and marks are not measured: ${link.status.reason}`}</p>
      <Charts object={`link/${node}/${port}`} time={time} plans={plans} />
    </>
  );
}

function Detail({ host }: { host: Host }) {
  const { metadata, spec, status } = host;
  const [links, worst] = [linksOf(host), worstPort(host)];
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const more = status.sources + status.receivers - status.groups.length;
  return (
    <Page title={metadata.name} tab={`${metadata.name}: ${worst}`} aside={<><StateWord state={ofPort(worst)}>{links.length > 1 && worst === "Up" ? "ports" : "port"} {worst.toLowerCase()}</StateWord><SilenceButton kind="host" name={metadata.name} /></>}>
      <SilencesOf kind="host" name={metadata.name} />
      {links.map(({ node, port }) => <ProblemsOf key={node} kind="port" name={`${node}/${port}`} />)}
      {links.map(({ node, state, reason }) => reason && <p key={node} className={ofPort(state)}>{links.length > 1 && `${node}: `}{reason}</p>)}
      <dl className="facts">
        <dt>Node, port</dt>
        <dd>
          {links.map(({ node, port, state }, at) => (
            <div key={node}>
              <Link to="/nodes/$node" params={{ node }}>{node}</Link>,{" "}
              <Link to="/links/$node/$port" params={{ node, port }}>{port}</Link>
              {links.length > 1 && <>{" "}<StateWord state={ofPort(state)}>{state.toLowerCase()}</StateWord>{at === 0 && <span className="faint"> groups take this one</span>}</>}
            </div>
          ))}
        </dd>
        <dt>Agent</dt>
        <dd><Agent of={status.agent ?? "OfNode"} node={spec.node} /></dd>
        <dt>Address</dt>
        <dd><Mono>{spec.address}</Mono></dd>
        <dt>Prefix</dt>
        <dd><Mono>{spec.prefix}</Mono></dd>
        <dt>MTU</dt>
        <dd className="num">{counted(spec.mtu, "byte")}</dd>
        <dt>Path programs</dt>
        <dd>{spec.pathPrograms ? "permitted" : "refused at the port"}</dd>
        <dt>The same by command</dt>
        <dd><Command line={`canopyctl describe host ${metadata.name}`} /></dd>
        <dt>Why something fails</dt>
        <dd><Command line={`canopyctl why host ${metadata.name}`} /></dd>
      </dl>
      <div className="section-head">
        <h2>Groups</h2>
        <Link to="/audit" search={{ hosts: true, by: metadata.name }}>Joins and leaves of this host</Link>
      </div>
      {status.groups.length === 0 ? (
        <p className="faint">It is a member of no group.</p>
      ) : (
        <table className="plain" aria-label="Groups">
          <thead>
            <tr><th>Group</th><th>Role</th><th>Session</th></tr>
          </thead>
          <tbody>
            {status.groups.map((group) => (
              <tr key={group.name}>
                <td><Link to="/groups/$group" params={{ group: group.name }}>{group.name}</Link></td>
                <td>{group.role}</td>
                <td>{group.ended ? <StateWord state="degraded">ended: the application has to join again</StateWord> : "present"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {more > 0 && <p className="faint">and {count(more)} more</p>}
      <OverTime title="Over time" of={{ kind: "host", name: metadata.name }} search={search} onSearch={(to) => void navigate({ search: to, replace: true })}>
        {(time) => links.map(({ node, port }) => <PortCharts key={node} node={node} port={port} time={time} />)}
      </OverTime>
    </Page>
  );
}
