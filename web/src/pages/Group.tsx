// SPDX-License-Identifier: Apache-2.0
// One group: where its data is, who is behind, and what it was given.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import * as queries from "../api/queries";
import type { Group, Problem } from "../api/types";
import { count, counted } from "../lib/format";
import { psn } from "../lib/psn";
import { ofCondition, ofPhase } from "../lib/state";
import { firstOver, overThreshold, portsTo } from "../lib/treeLinks";
import { Age } from "../ui/Age";
import { Command, Mono } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";
import { Charts, type Plan } from "./charts/Charts";
import { OverTime } from "./charts/OverTime";
import { Applied } from "./group/Applied";
import { History } from "./group/History";
import { Members } from "./group/Members";
import { Packet } from "./group/Packet";
import { Race } from "./group/Race";
import { Tree } from "./group/Tree";
import { TreeLinks } from "./group/TreeLinks";
import { useGroupFlow } from "./group/useGroupFlow";
import { Waited } from "./group/Waited";
import { DeleteGroup } from "./groups/DeleteGroup";
import { GroupDialog } from "./groups/GroupDialog";
import { SilenceButton, SilencesOf } from "./silences/SilencesOf";

const route = getRouteApi("/groups/$group");
const NONE: readonly Problem[] = [];
const CHARTS: readonly Plan[] = [
  { title: "Data", unit: "bytesPerSecond", lines: [{ series: "goodput", label: "acknowledged by all", term: "goodput" }, { series: "bytes", label: "from the source" }] },
  { title: "Outstanding", term: "outstanding", unit: "packets", lines: [{ series: "outstanding", label: "not acknowledged by all" }] },
  { title: "Feedback", term: "feedback", unit: "perSecond", lines: [{ series: "naks", label: "NAKs", term: "NAK" }, { series: "cnps", label: "CNPs", term: "CNP" }] },
  { title: "Retransmissions", unit: "perSecond", lines: [{ series: "retransmissions", label: "packets sent again" }] },
];

export function GroupPage() {
  const { group: name } = route.useParams();
  const query = useQuery(queries.group(name));
  return (
    <>
      <Crumbs to="/groups" />
      <Loaded query={query} title={name}>{(group) => <Detail group={group} />}</Loaded>
    </>
  );
}

function Detail({ group }: { group: Group }) {
  const { name } = group.metadata;
  const { phase, reason, delivery } = group.status;
  const problems = useQuery(queries.problems).data ?? NONE;
  // What is edited stays as it was when the form was opened, which reads it: the stream may be behind a write of another operator.
  const [edited, setEdited] = useState<Group | null>(null);
  const client = useQueryClient();
  const edit = () => client.fetchQuery({ ...queries.group(name), staleTime: 0 }).then(setEdited, () => setEdited(group));
  const [deleting, setDeleting] = useState(false);
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const behind = useRef<HTMLParagraphElement>(null);
  const flow = useGroupFlow(group);
  const congested = useQuery(queries.linksCongested).data;
  const over = useMemo(() => overThreshold(congested?.items ?? []), [congested]);
  useEffect(() => {
    flow.over = over;
  }, [flow, over]);
  const overTo = useCallback(
    (host: string) => {
      const of = flow.receivers.find((receiver) => receiver.host === host);
      return of ? firstOver(portsTo(group.status.tree, of.edge, of.address), over) : "";
    },
    [flow, group.status.tree, over],
  );
  return (
    <Page
      title={name}
      tab={`${name}: ${phase}`}
      aside={
        <>
          <StateWord state={ofPhase(phase)}>{phase}</StateWord>
          <button type="button" onClick={() => void edit()}>Edit…</button>
          <button type="button" onClick={() => setDeleting(true)}>Delete…</button>
          <SilenceButton kind="group" name={name} />
        </>
      }
    >
      {edited && <GroupDialog of={edited} onClose={() => setEdited(null)} />}
      {deleting && <DeleteGroup name={name} onClose={() => setDeleting(false)} />}
      <p>
        {reason ? `${phase}: ${reason}. ` : phase === "Ready" ? "Every node of the tree confirmed its program. " : ""}
        {delivery ? (
          <>
            {delivery.state === "Stalled" ? "AckPSN has not advanced for" : `${delivery.state} for`} <Age since={delivery.sinceUnixNs} />, {counted(delivery.outstandingPackets, "packet")} not
            acknowledged.
          </>
        ) : (
          <span className="faint">The headend has not reported yet.</span>
        )}
      </p>
      <SilencesOf kind="group" name={name} />
      <ProblemsOf kind="group" name={name} />
      {/* The receiver that the data waits for, above the tree, which is higher than a screen where many receive. */}
      {flow.receivers.length > 0 && <p ref={behind}>Reading who is behind…</p>}
      <h2><Term of="tree">Tree</Term></h2>
      <Tree group={group} problems={problems} flow={flow} />
      <h2>Race</h2>
      <Race flow={flow} line={behind} />
      <h2><Term of="waited-for share">Waited for</Term></h2>
      <Waited group={name} over={overTo} />
      <OverTime title="Over time" of={{ kind: "group", name }} search={search} onSearch={(to) => void navigate({ search: to, replace: true })}>
        {(time) => <Charts object={`group/${name}`} time={time} plans={CHARTS} />}
      </OverTime>
      <TreeLinks tree={group.status.tree} />
      <Applied group={group} problems={problems} />
      <History group={name} epoch={group.status.epoch} />
      <Members group={group} />
      <div className="columns">
        <Conditions group={group} />
        <Facts group={group} />
      </div>
      <Packet key={name} group={name} epoch={group.status.epoch} />
    </Page>
  );
}

function Conditions({ group }: { group: Group }) {
  return (
    <section aria-label="Conditions">
      <h2>Conditions</h2>
      <table className="plain">
        <tbody>
          {group.status.conditions.map((condition) => (
            <tr key={condition.type}>
              <td>
                <StateWord state={ofCondition(condition.type, condition.status)}>
                  {condition.type}: {condition.status}
                </StateWord>
              </td>
              <td>{condition.message}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Facts({ group }: { group: Group }) {
  const { connection, encoding, epoch, groupId, treeId, evicted } = group.status;
  return (
    <section aria-label="Connection and configuration">
      <h2>Connection and configuration</h2>
      <dl className="facts">
        <dt><Term of="Proxy Address" /></dt>
        <dd><Mono>{connection.proxyAddress}</Mono></dd>
        <dt><Term of="Designated QPN" /></dt>
        <dd><Mono>{connection.designatedQpn}</Mono></dd>
        <dt><Term of="start PSN">Start PSN</Term></dt>
        <dd><Mono>{psn(connection.startPsn)}</Mono></dd>
        <dt><Term of="path MTU">Path MTU</Term></dt>
        <dd>{count(connection.pathMtu)} bytes of payload per packet</dd>
        <dt><Term of="epoch">Epoch</Term>, group, tree</dt>
        <dd>{epoch}, <Mono>{groupId}</Mono>, <Mono>{treeId}</Mono></dd>
        <dt>Replication</dt>
        <dd>{group.spec.replication}</dd>
        <dt><Term of="in band">Receiver lists</Term></dt>
        <dd>{encoding ? `${encoding.mode}: ${encoding.reason}` : "–"}</dd>
        <dt><Term of="SRH">Overhead</Term></dt>
        <dd>{encoding ? `${count(encoding.overheadBytes)} bytes per packet, of these ${count(encoding.srhBytes)} of the SRH` : "–"}</dd>
        <dt><Term of="stall">Stall policy</Term></dt>
        <dd>{group.spec.stallPolicy} after {count(group.spec.stallAfterMs)} ms</dd>
        <dt>Evicted</dt>
        <dd>{evicted.length ? evicted.map((e) => <div key={e.host}>{e.host}: {e.reason}</div>) : "none"}</dd>
        <dt>The same by command</dt>
        <dd><Command line={`canopyctl describe group ${group.metadata.name}`} /></dd>
      </dl>
    </section>
  );
}
