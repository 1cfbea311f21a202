// SPDX-License-Identifier: Apache-2.0
// What operators took out of service, and whether trees have left it.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import * as queries from "../api/queries";
import type { Drain } from "../api/types";
import { counted } from "../lib/format";
import { Instant } from "../ui/Age";
import { Empty, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Term } from "../ui/Term";
import { PutBackDialog } from "./drains/PutBackDialog";

export function Drains() {
  const query = useQuery(queries.drains);
  const [ending, setEnding] = useState<Drain | null>(null);
  return (
    <Page title={<Term of="drain">Drains</Term>} tab="Drains">
      <Loaded query={query}>
        {(list) =>
          list.length === 0 ? (
            <Empty command="canopyctl drain link n1/eth1 --reason optics">
              Everything is in service. A link or node is drained on its own page, or by command:
            </Empty>
          ) : (
            <div className="scroll">
              <table className="plain" aria-label="Drains">
                <thead>
                  <tr>
                    <th className="wide">Name</th>
                    <th>Target</th>
                    <th>State</th>
                    <th>Ends</th>
                    <th>Reason</th>
                    <th className="wide">Hosts behind it</th>
                    <th className="wide">
                      <span className="faint">Action</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map((drain) => (
                    <tr key={drain.metadata.name}>
                      <td className="wide">{drain.metadata.name}</td>
                      <td>
                        <DrainTarget drain={drain} />
                        <div className="faint">{counted(drain.status.links.length, "link")}</div>
                      </td>
                      <td>
                        {drain.status.links.length === 0 ? (
                          <StateWord state="degraded">target not in the topology</StateWord>
                        ) : drain.status.groups ? (
                          <StateWord state="pending">{counted(drain.status.groups, "group")} still there</StateWord>
                        ) : (
                          <StateWord state="ok">no group uses it</StateWord>
                        )}
                      </td>
                      <td>{drain.spec.until ? <Instant at={Date.parse(drain.spec.until) * 1e6} /> : <span className="faint">by hand</span>}</td>
                      <td>{drain.spec.reason}</td>
                      <td className="wide">{drain.status.hosts.join(", ") || "–"}</td>
                      {/* A phone is for reading. */}
                      <td className="wide">
                        <button type="button" onClick={() => setEnding(drain)}>
                          Put back…
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {ending && <PutBackDialog drain={ending} onClose={() => setEnding(null)} />}
    </Page>
  );
}

function DrainTarget({ drain }: { drain: Drain }) {
  const { link, node } = drain.spec;
  if (node) return <Link to="/nodes/$node" params={{ node }}>node {node}</Link>;
  const [device = "", port = ""] = (link ?? "").split("--")[0]?.split("/") ?? [];
  return <Link to="/links/$node/$port" params={{ node: device, port }}>link {link}</Link>;
}
