// SPDX-License-Identifier: Apache-2.0
// Who is slowed down, by which link, and is that right?
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo } from "react";
import { map } from "../api/map";
import * as queries from "../api/queries";
import type { FabricMap } from "../api/types";
import { useLayer } from "../api/useLayer";
import { congested, measuredPorts, type Congested } from "../lib/congestion";
import { count } from "../lib/format";
import { Command } from "../ui/Command";
import { Empty, Loaded, Page, ReadFailed } from "../ui/Page";
import { Shape } from "../ui/State";
import { Port } from "./congestion/Port";
import { Undeclared } from "./topology/Undeclared";

/** Ports with a chart; more are counted. */
const SHOWN = 12;

export function Congestion() {
  const fabric = useQuery(map);
  return (
    <Page title="Congestion" tab="Congestion">
      <Loaded query={fabric}>{(of) => (of?.links.length ? <Ports of={of} /> : <Undeclared>There is no link: links are part of the topology.</Undeclared>)}</Loaded>
    </Page>
  );
}

function Ports({ of }: { of: FabricMap }) {
  const problems = useQuery(queries.problems).data;
  const links = useQuery(queries.linksCongested);
  const [, { phase, words }] = useLayer(of, "queue", useCallback((values: Uint8Array) => measuredPorts(of, values), [of]));
  const isUnmeasured = phase === "there" && words === "";
  const first = useQuery({ ...queries.firstLink, enabled: isUnmeasured }).data;
  const found = useMemo(() => congested(links.data?.items ?? [], problems ?? []), [links.data, problems]);
  const more = found.length - SHOWN;
  if (isUnmeasured && found.length === 0) {
    return <Empty command="canopyctl get links">No port has reported its queue within a minute{first?.status.reason ? `; ${first.metadata.name} has no thresholds: ${first.status.reason}` : ""}.</Empty>;
  }
  return (
    <>
      <ReadFailed query={links} />
      {links.data && words && <Verdict found={found} checked={words} />}
      {found.slice(0, SHOWN).map((port) => <Port key={port.link.metadata.name} port={port} />)}
      {(more > 0 || links.data?.more) && (
        <p className="faint">
          {count(Math.max(more, 0))} more ports{links.data?.more && ", and others"}: <Command line="canopyctl get links --field-selector 'queue!=Quiet,queue!=Unknown'" />
        </p>
      )}
    </>
  );
}

/** The answer, and what it rests on. */
function Verdict({ found, checked }: { found: readonly Congested[]; checked: string }) {
  const names = (rank: Congested["rank"]) => found.filter((port) => port.rank === rank).map((port) => port.link.metadata.name);
  const [over, marking] = [names("over"), names("marking")];
  const list = (ports: readonly string[]) => (ports.length > 5 ? `${ports.slice(0, 5).join(", ")} and ${count(ports.length - 5)} more` : ports.join(", "));
  const state = over.length ? "failed" : marking.length ? "degraded" : "ok";
  return (
    <>
      <p className="clear">
        <span className={state}><Shape state={state} /></span>
        <span>
          {over.length > 0 && `Above K_max, sources are slowed down: ${list(over)}. `}
          {marking.length > 0 && `Above K_min, packets are marked: ${list(marking)}.`}
          {state === "ok" && "No queue that was reported is above K_min now."}
        </span>
      </p>
      <p className="faint">Checked: {checked}.</p>
    </>
  );
}
