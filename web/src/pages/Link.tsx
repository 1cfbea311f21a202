// SPDX-License-Identifier: Apache-2.0
// One direction of a link: its queue against the thresholds, loss, RTT.
import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useMemo, type ReactNode } from "react";
import * as queries from "../api/queries";
import type { Link } from "../api/types";
import { bytes, count, counted, permille, rate, span } from "../lib/format";
import { loadOf, stateOf } from "../lib/link";
import { Reported, ReportedAgo } from "../ui/Age";
import { Command } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Loaded, Page } from "../ui/Page";
import { ProblemsOf } from "../ui/ProblemsOf";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";
import { Charts } from "./charts/Charts";
import { linkCharts } from "./charts/linkCharts";
import { OverTime, type ChartTime } from "./charts/OverTime";
import { DrainButton } from "./drains/DrainButton";
import { SilenceButton, SilencesOf } from "./silences/SilencesOf";

const route = getRouteApi("/links/$node/$port");

export function LinkPage() {
  const { node, port } = route.useParams();
  const name = `${node}/${port}`;
  const query = useQuery(queries.link(name));
  return (
    <>
      <Crumbs to="/links" />
      <Loaded query={query} title={name}>
        {(link) => (link ? <Detail link={link} /> : <Page title={name} tab={name}><p>No link leaves a port of this name.</p></Page>)}
      </Loaded>
    </>
  );
}

const dash = <T,>(value: T | null | undefined, write: (value: T) => string): string => (value === null || value === undefined ? "–" : write(value));

function Detail({ link }: { link: Link }) {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { spec, status, metadata } = link;
  const { congestion, loss, rtt, thresholds } = status;
  const [state, word] = stateOf(link);
  const load = loadOf(link);
  const ago = congestion?.reportedAgoNs;
  const [a = "", b = ""] = spec.link.split("--");
  // Out of a host none is measured.
  const back = useQuery(queries.link(spec.to)).data;
  const betweenNodes = Boolean(back);
  return (
    <Page
      title={`${metadata.name} to ${spec.to}`}
      tab={`${metadata.name}: ${word}`}
      aside={
        <>
          <StateWord state={state}>{word}</StateWord>
          <DrainButton target={{ link: spec.link }} why={back === undefined ? "Its other end is not read yet." : betweenNodes ? "" : "A link to a host cannot be drained: the host has no other."} />
          {betweenNodes && <SilenceButton kind="link" name={spec.link} />}
        </>
      }
    >
      <SilencesOf kind="link" name={spec.link} />
      <ProblemsOf kind="link" name={spec.link} />
      <ProblemsOf kind="port" name={metadata.name} />
      <div className="columns">
        <Facts title="Queue">
          <dt>Now, peak</dt>
          <dd><Reported ns={ago}>{dash(congestion?.queueBytes, bytes)}, {dash(congestion?.peakQueueBytes, bytes)}</Reported></dd>
          <dt><Term of="K_min" />, <Term of="K_max" /></dt>
          <dd>{dash(thresholds?.kMinBytes, bytes)}, {dash(thresholds?.kMaxBytes, bytes)} {thresholds && <span className="faint">(decided by {thresholds.bound.by})</span>}</dd>
          <dt>Buffer</dt>
          <dd>{dash(spec.bufferBytes, bytes)}</dd>
          <dt><Term of="CE">Marked CE here</Term></dt>
          <dd><Reported ns={ago}>{dash(congestion?.marked, (packets) => counted(packets, "packet"))}, {dash(congestion?.emrPermille, permille)} in the last sample</Reported></dd>
          <dt><Term of="Congestion Level" /></dt>
          <dd><Reported ns={ago}>{dash(congestion?.level, count)} of 255, peak {dash(congestion?.peakLevel, count)}</Reported></dd>
          <dt><Term of="Long-haul CNP">Long-haul CNPs</Term></dt>
          <dd>{congestion ? `Notify ${count(congestion.cnps.notify)}, Rate Reduce ${count(congestion.cnps.rateReduce)}, Pause ${count(congestion.cnps.pause)}, Resume ${count(congestion.cnps.resume)}` : "–"}</dd>
          <dt>Depth from</dt>
          <dd>{congestion?.depthSource ?? "–"}</dd>
          <dt>Reported</dt>
          <dd><ReportedAgo ns={congestion?.reportedAgoNs} /></dd>
        </Facts>
        <Facts title="Loss and delay">
          <dt>Loss</dt>
          <dd>{loss ? `${loss.permille ? permille(loss.permille) : "none known"}; ${count(loss.lost)} of ${count(loss.requests)} probes, ${count(loss.dataLost)} data packets, ${count(loss.queueDrops)} dropped by the queue` : "not measured"}</dd>
          <dt><Term of="RTT_est">RTT estimate</Term></dt>
          <dd>{dash(rtt.estimateNs, span)}</dd>
          <dt>RTT measured, filtered</dt>
          <dd>{dash(rtt.measuredNs, span)}, {dash(rtt.filteredNs, span)}</dd>
          <dt><Term of="STAMP">Samples</Term></dt>
          <dd>{count(rtt.samples)}, {count(rtt.lost)} lost, {count(rtt.refused)} refused</dd>
          <dt>Rate, load</dt>
          <dd>{rate(spec.rateBps)}, <Reported ns={ago}>{dash(congestion?.loadBps, rate)}</Reported> {load !== null && <span className="faint">{permille(load * 10)}</span>}</dd>
          <dt>Link</dt>
          <dd>{a} to {b}{spec.drained ? ", drained" : ""}</dd>
          <dt>The same by command</dt>
          <dd><Command line={`canopyctl describe link ${metadata.name}`} /></dd>
        </Facts>
      </div>
      <OverTime title="Over time" of={{ kind: "link", name: spec.link }} search={search} onSearch={(to) => void navigate({ search: to, replace: true })}>
        {(time) => (
          <div className="columns">
            <Direction link={link} time={time} />
            {back && <Direction link={back} time={time} />}
          </div>
        )}
      </OverTime>
    </Page>
  );
}

function Direction({ link, time }: { link: Link; time: ChartTime }) {
  const { metadata, spec, status } = link;
  const plans = useMemo(() => linkCharts(status.thresholds), [status.thresholds]);
  return (
    <section aria-label={`${metadata.name} to ${spec.to}, over time`}>
      <h3>{metadata.name} to {spec.to}</h3>
      {status.reason && <p className="faint">Its queue, bytes and marks are not measured: {status.reason}</p>}
      <Charts object={`link/${metadata.name}`} time={time} plans={plans} of={metadata.name} className="" />
    </section>
  );
}

function Facts({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <dl className="facts">{children}</dl>
    </section>
  );
}
