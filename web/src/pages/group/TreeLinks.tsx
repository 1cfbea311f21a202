// SPDX-License-Identifier: Apache-2.0
// Which ports of the tree are congested? Thresholds and queues of those that are not quiet.
import { useQuery } from "@tanstack/react-query";
import { Link as To } from "@tanstack/react-router";
import { useMemo } from "react";
import * as queries from "../../api/queries";
import { isOfDomain } from "../../api/session";
import type { TreeNode } from "../../api/types";
import { bytes, count, counted } from "../../lib/format";
import { busyPorts, directions, type BusyPort } from "../../lib/treeLinks";
import { ReportedAgo } from "../../ui/Age";
import { Loaded } from "../../ui/Page";
import { StateWord } from "../../ui/State";
import type { Column } from "../../ui/Table";
import { Some } from "./Some";

const FIRST = 10;

const limit = (r: BusyPort, which: "kMinBytes" | "kMaxBytes") => r.link.status.thresholds?.[which];
const octets = (value: number | null | undefined) => (value === null || value === undefined ? "–" : bytes(value));

const COLUMNS: readonly Column<BusyPort>[] = [
  { name: "Port", width: "minmax(5.4rem, 1fr)", cell: ({ link }) => <Name name={link.metadata.name} />, sort: (r) => r.link.metadata.name },
  { name: "To", width: "minmax(6rem, 1fr)", wide: true, cell: (r) => r.link.spec.to, sort: (r) => r.link.spec.to },
  { name: "Carries", width: "4.6rem", wide: true, cell: (r) => r.carries, sort: (r) => r.carries },
  { name: "Queue is", width: "minmax(6.4rem, 1fr)", cell: (r) => <StateWord state={r.state}>{r.word}</StateWord>, sort: (r) => r.word },
  { name: "Queue", width: "4.2rem", right: true, wide: true, cell: (r) => octets(r.link.status.congestion?.queueBytes), sort: (r) => r.link.status.congestion?.queueBytes ?? 0 },
  { name: "Peak", width: "3.9rem", right: true, cell: (r) => octets(r.link.status.congestion?.peakQueueBytes), sort: (r) => r.link.status.congestion?.peakQueueBytes ?? 0 },
  { name: "K_min", width: "3.8rem", right: true, wide: true, cell: (r) => octets(limit(r, "kMinBytes")), sort: (r) => limit(r, "kMinBytes") ?? 0 },
  { name: "K_max", width: "3.8rem", right: true, cell: (r) => octets(limit(r, "kMaxBytes")), sort: (r) => limit(r, "kMaxBytes") ?? 0 },
  { name: "Level, peak", width: "5.6rem", right: true, wide: true, cell: ({ link: { status } }) => (status.congestion ? `${status.congestion.level}, ${status.congestion.peakLevel}` : "–"), sort: (r) => r.link.status.congestion?.peakLevel ?? 0 },
  { name: "CE marks", width: "4.6rem", right: true, wide: true, cell: (r) => count(r.link.status.congestion?.marked ?? 0), sort: (r) => r.link.status.congestion?.marked ?? 0 },
  { name: "Reported", width: "4.7rem", right: true, wide: true, cell: (r) => <ReportedAgo ns={r.link.status.congestion?.reportedAgoNs} /> },
];

function Name({ name }: { name: string }) {
  const [node = "", port = ""] = name.split("/");
  return <To to="/links/$node/$port" params={{ node, port }}>{name}</To>;
}

export function TreeLinks({ tree }: { tree: readonly TreeNode[] }) {
  const query = useQuery(queries.linksCongested);
  const all = useMemo(() => directions(tree).size, [tree]);
  const rows = useMemo(() => busyPorts(tree, query.data?.items ?? []), [tree, query.data]);
  // Links are the domain's: a tenant does not read them.
  if (tree.length === 0 || !isOfDomain()) return null;
  return (
    <section aria-label="Congestion of the tree">
      <h2>Congestion of the tree</h2>
      <Loaded query={query}>
        {({ more }) => (
          <>
            <p>
              {rows.length ? `${count(rows.length)} of ${counted(all, "port")} that the tree sends through ${rows.length === 1 ? "is" : "are"} or ${rows.length === 1 ? "was" : "were"} congested.` : `None of the ${counted(all, "port")} that the tree sends through has a queue over K_min, or has marked packets since its agent started.`}{" "}
              <span className="faint">
                Ports that report no queue are not counted as congested.{more && " The domain has more congested ports than are read here."} <To to="/congestion">Congestion of the domain</To>
              </span>
            </p>
            {rows.length > 0 && <Some label="Congestion of the tree" columns={COLUMNS} rows={rows} rowKey={(r) => r.link.metadata.name} first={FIRST} noun="ports" />}
          </>
        )}
      </Loaded>
    </section>
  );
}
