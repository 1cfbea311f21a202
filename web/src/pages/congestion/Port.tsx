// SPDX-License-Identifier: Apache-2.0
// One port: how long its queue was over the thresholds, its depth over time, and the sources of what leaves there.
import { useQuery } from "@tanstack/react-query";
import { Link as To } from "@tanstack/react-router";
import { useEffect, useMemo, useRef, useState } from "react";
import { RANGES, type Range } from "../../api/charts";
import { useCharts } from "../../api/useCharts";
import * as queries from "../../api/queries";
import type { Flow } from "../../api/types";
import { heaviest, isQuiet, notified, overTime, reaction, sent, sources, type Congested } from "../../lib/congestion";
import { bytes, count, counted, permille, rate } from "../../lib/format";
import { ReportedAgo } from "../../ui/Age";
import { Chart } from "../../ui/Chart";
import { Command } from "../../ui/Command";
import { ErrorNote } from "../../ui/Page";
import { StateWord } from "../../ui/State";
import { Term } from "../../ui/Term";
import { queueChart } from "../charts/linkCharts";
import { Notified } from "./Notified";

const NO_FLOWS: readonly Flow[] = [];
const RANGE: Range = { ...RANGES["5m"], series: "queue" };
/** Sources with a row; more are counted. */
const ROWS = 10;
const WORDS = { over: ["failed", "above K_max"], marking: ["degraded", "above K_min"], earlier: ["ok", "below K_min"] } as const;
/** What decided K_max. */
const BOUNDS = { bandwidthDelay: "the bandwidth-delay product", base: "K_base", buffer: "the port's buffer" } as const;

interface Props {
  port: Congested;
}

export function Port({ port: { link, rank, problem } }: Props) {
  const { name } = link.metadata;
  const { congestion, thresholds } = link.status;
  const [feed, { phase, error }] = useCharts(`link/${name}`, RANGE);
  const time = useRef<HTMLSpanElement>(null);
  const [quiet, setQuiet] = useState(false);
  useEffect(
    () =>
      feed.subscribe((data) => {
        const queue = data.series.find((series) => series.name === "queue");
        if (!time.current || !thresholds || !queue) return;
        const text = overTime(queue.points, data.step, thresholds);
        if (time.current.textContent !== text) time.current.textContent = text;
        setQuiet(isQuiet(queue.points, thresholds));
      }),
    [feed, thresholds],
  );
  const [node = "", interfaceName = ""] = name.split("/");
  const flows = useQuery(queries.flows(node, interfaceName));
  const found = useMemo(() => sources(flows.data ?? NO_FLOWS), [flows.data]);
  const [state, word] = WORDS[rank];
  return (
    <section className="port" aria-label={`${name} to ${link.spec.to}`}>
      <h2>
        <To to="/links/$node/$port" params={{ node, port: interfaceName }}>{name}</To> to {link.spec.to} <StateWord state={state}>{word}</StateWord>
      </h2>
      <p>
        <span ref={time} /> {heaviest(found)} {congestion && `Since its agent started: ${notified(congestion)}, ${counted(congestion.marked, "packet")} marked CE.`}{" "}
        {problem && <To to="/problems/$id" params={{ id: problem.id }}>{problem.code}</To>}
      </p>
      {(!quiet || rank !== "earlier") && <><div className="columns">
        <div className={phase === "failed" ? "stale-block" : undefined}>
          {phase === "failed" && <ErrorNote error={error} />}
          <Chart {...queueChart(thresholds)} of={name} data={feed} cursor="page" />
          <p className="faint">
            {thresholds && `K_max ${bytes(thresholds.kMaxBytes)}, by ${BOUNDS[thresholds.bound.by]}, at ${rate(link.spec.rateBps)}. `}
            Reported <ReportedAgo ns={congestion?.reportedAgoNs} />.
          </p>
        </div>
        <div className={flows.error ? "stale-block" : undefined}>
          <ErrorNote error={flows.error} />
          {flows.data ? <Sources found={found} name={name} /> : !flows.error && <p className="faint" role="status">Reading…</p>}
          <Command line={`canopyctl get flows ${name}`} />
        </div>
      </div>
      <Notified name={name} congestion={congestion} /></>}
    </section>
  );
}

function Sources({ found, name }: { found: ReturnType<typeof sources>; name: string }) {
  if (found.length === 0) return <p className="faint">No flow is counted there now.</p>;
  return (
    <>
      <table className="plain" aria-label={`Sources of what leaves ${name}`}>
        <thead>
          <tr>
            <th scope="col">Source</th>
            <th scope="col" className="right">Share</th>
            <th scope="col" className="right wide">Rate</th>
            <th scope="col"><Term of="Long-haul CNP">Notified</Term></th>
          </tr>
        </thead>
        <tbody>
          {found.slice(0, ROWS).map((source) => (
            <tr key={`${source.address} ${source.group ?? ""}`}>
              <th scope="row" title={source.address}>
                {source.name}
                {source.group && <> for <To to="/groups/$group" params={{ group: source.group }}>{source.group}</To></>}
                {source.flows > 1 && <span className="faint"> {counted(source.flows, "flow")}</span>}
              </th>
              <td className="right num">
                {permille(source.permille)}
                <meter min={0} max={1000} value={source.permille} aria-hidden="true" />
              </td>
              <td className="right num wide">{rate(source.rateBps)}</td>
              <td>{reaction(source.counts)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {found.some((source) => source.group) && <p className="faint">Copies of a group are counted by flow only while the queue is above K_min.</p>}
      {found.length > ROWS && <p className="faint">{count(found.length - ROWS)} more sources.</p>}
      {found.some((source) => sent(source.counts) > 0) && (
        <p className="faint">
          A source keeps to the lowest of the limits that it was sent. Which one that is, its pacer knows; on the host: <Command line="canopy-pacer status" />
        </p>
      )}
    </>
  );
}
