// SPDX-License-Identifier: Apache-2.0
// Who is slowed down, by which link, and is that right?
import { useQuery, useInfiniteQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import * as queries from "../api/queries";
import type { Link } from "../api/types";
import { congested, finder, type Congested } from "../lib/congestion";
import { count, counted } from "../lib/format";
import { Command } from "../ui/Command";
import { Empty, Loaded, Page } from "../ui/Page";
import { Shape } from "../ui/State";
import { Port } from "./congestion/Port";
import { Undeclared } from "./topology/Undeclared";

/** Ports with a chart; more are counted. */
const SHOWN = 12;

export function Congestion() {
  const links = useQuery(queries.links);
  return (
    <Page title="Congestion" tab="Congestion">
      <Loaded query={links}>
        {(list) =>
          list.length === 0 ? (
            <Undeclared>There is no link: links are part of the topology.</Undeclared>
          ) : list.every((link) => !link.status.thresholds) ? (
            <Empty command="canopyctl get links">No port has thresholds: {list[0]?.status.reason || "their rates are not known"}.</Empty>
          ) : (
            <Ports links={list} />
          )
        }
      </Loaded>
    </Page>
  );
}

function Ports({ links }: { links: readonly Link[] }) {
  const problems = useQuery(queries.problems).data;
  const topology = useQuery(queries.topology).data;
  const groups = useInfiniteQuery(queries.groups).data;
  const found = useMemo(() => congested(links, problems ?? []), [links, problems]);
  const find = useMemo(() => finder(topology, groups?.pages.flatMap((page) => page.items) ?? []), [topology, groups]);
  return (
    <>
      <Verdict found={found} links={links} />
      {found.slice(0, SHOWN).map((port) => <Port key={port.link.metadata.name} port={port} find={find} />)}
      {found.length > SHOWN && (
        <p className="faint">
          {count(found.length - SHOWN)} more ports: <Command line="canopyctl get links" />
        </p>
      )}
    </>
  );
}

/** The answer, and what it rests on. */
function Verdict({ found, links }: { found: readonly Congested[]; links: readonly Link[] }) {
  const names = (rank: Congested["rank"]) => found.filter((port) => port.rank === rank).map((port) => port.link.metadata.name);
  const [over, marking] = [names("over"), names("marking")];
  const measured = links.filter((link) => link.status.thresholds);
  const fresh = measured.filter((link) => (link.status.congestion?.reportedAgoNs ?? Infinity) < 5e9);
  const list = (ports: readonly string[]) => (ports.length > 5 ? `${ports.slice(0, 5).join(", ")} and ${count(ports.length - 5)} more` : ports.join(", "));
  const state = over.length ? "failed" : marking.length ? "degraded" : fresh.length ? "ok" : "pending";
  return (
    <>
      <p className="clear">
        <span className={state}><Shape state={state} /></span>
        <span>
          {over.length > 0 && `Above K_max, sources are slowed down: ${list(over)}. `}
          {marking.length > 0 && `Above K_min, packets are marked: ${list(marking)}.`}
          {state === "ok" && "No queue that was reported is above K_min now."}
          {state === "pending" && "No port has reported its queue in the last 5 s."}
        </span>
      </p>
      <p className="faint">
        Checked: {count(fresh.length)} of {counted(measured.length, "port")} with thresholds reported within 5 s
        {links.length > measured.length && `; ${counted(links.length - measured.length, "port")} have none`}.
      </p>
    </>
  );
}
