// SPDX-License-Identifier: Apache-2.0
// What was checked before Overview writes that nothing is wrong.
import { useQuery } from "@tanstack/react-query";
import * as queries from "../../api/queries";
import type { DomainStatus } from "../../api/types";
import { usePages } from "../../api/usePages";
import { reports } from "../../lib/checked";
import { count, counted } from "../../lib/format";
import { isLate } from "../../lib/late";

/** Up to so many links their reports are counted here. */
const LINKS = 2000;

export function Checked({ domain }: { domain: DomainStatus }) {
  const readiness = useQuery(queries.readiness).data ?? [];
  const store = readiness.find((line) => line.includes("store:"));
  const groups = Object.values(domain.groups).reduce((a, b) => a + b, 0);
  const checked = [
    `${counted(domain.connectedNodes, "agent")} of ${count(domain.nodes)} connected`,
    `${counted(domain.syncedNodes, "node")} in sync`,
    store && `store: ${store.replace(/^\[.\] store: /, "")}`,
  ].filter(Boolean);
  return (
    <p className="faint checked">
      Checked: {checked.join("; ")}
      {/* The lists of a large fabric are too much for one line of text. */}
      {groups > 0 && groups <= queries.PROGRESS && <Progress />}
      {domain.links > 0 && domain.links <= LINKS && <Agents />}.
    </p>
  );
}

/** In how many groups data progresses. */
function Progress() {
  const words = useQuery(queries.groupsProgress).data;
  return words ? `; ${words}` : null;
}

/** How much of the links is measured, and how old that is. */
function Agents() {
  const { items, hasMore } = usePages(queries.links, 0, LINKS);
  if (hasMore || items.length === 0) return null;
  const { fresh, late } = reports(items);
  const reported = items.filter((link) => !isLate(link.status.congestion?.reportedAgoNs ?? Infinity)).length;
  const probed = items.filter((link) => (link.status.loss?.requests ?? 0) > 0).length;
  return (
    <>
      {fresh && `; ${fresh}`}
      {late && <>; <span className="stale">{late}</span></>}; {count(reported)} of {counted(items.length, "link direction")} reported within 5 s, {count(probed)} probed
    </>
  );
}
