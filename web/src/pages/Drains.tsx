// SPDX-License-Identifier: Apache-2.0
// What operators took out of service, and whether trees have left it.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data } from "../api/client";
import * as queries from "../api/queries";
import type { Drain, DryRun } from "../api/types";
import { counted } from "../lib/format";
import { Command } from "../ui/Command";
import { Dialog } from "../ui/Dialog";
import { Empty, ErrorNote, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { Effects } from "./drains/Effects";

export function Drains() {
  const query = useQuery(queries.drains);
  const [ending, setEnding] = useState<Drain | null>(null);
  return (
    <Page title="Drains" tab="Drains">
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
                    <th>Name</th>
                    <th>Target</th>
                    <th>State</th>
                    <th>Reason</th>
                    <th>Hosts behind it</th>
                    <th>
                      <span className="faint">Action</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {list.map((drain) => (
                    <tr key={drain.metadata.name}>
                      <td>{drain.metadata.name}</td>
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
                      <td>{drain.spec.reason}</td>
                      <td>{drain.status.hosts.join(", ") || "–"}</td>
                      <td>
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
      {ending && <Undrain drain={ending} onClose={() => setEnding(null)} />}
    </Page>
  );
}

function DrainTarget({ drain }: { drain: Drain }) {
  const { link, node } = drain.spec;
  if (node) return <Link to="/nodes/$node" params={{ node }}>node {node}</Link>;
  const [device = "", port = ""] = (link ?? "").split("--")[0]?.split("/") ?? [];
  return <Link to="/links/$node/$port" params={{ node: device, port }}>link {link}</Link>;
}

function Undrain({ drain, onClose }: { drain: Drain; onClose: () => void }) {
  const cache = useQueryClient();
  const name = drain.metadata.name;
  const remove = (dryRun: boolean, plan?: string) =>
    data(api.DELETE("/api/v1/drains/{drain}", { params: { path: { drain: name }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) } }));
  const check = useQuery({ queryKey: ["undrain", name], queryFn: async () => (await remove(true)) as DryRun, staleTime: 0, gcTime: 0 });
  const plan = check.data?.plan;
  const end = useMutation({
    mutationFn: (shown: string) => remove(false, shown),
    onError: async (error) => {
      if (error instanceof ApiError && error.document?.code === "PlanChanged") await check.refetch();
    },
    onSuccess: async () => {
      await cache.invalidateQueries({ queryKey: ["drains"] });
      await cache.invalidateQueries({ queryKey: ["links"] });
      onClose();
    },
  });
  return (
    <Dialog title={`Put ${drain.metadata.name} back into service`} onClose={onClose}>
      <p>
        Back in service, unless the topology or another drain has it drained: {drain.status.links.join(", ") || "nothing, the topology has no such target"}. Trees may move back.
      </p>
      <ErrorNote error={check.error ?? end.error} />
      {check.data && <Effects name={`drain/${name}`} of={check.data} />}
      <p>
        <Command line={`canopyctl undrain ${name}`} />
      </p>
      <div className="tools">
        <button type="button" className="danger" disabled={!plan || end.isPending} aria-describedby="undrain-why" onClick={() => plan && end.mutate(plan)}>
          Put it back
        </button>
        {check.isPending && (
          <span id="undrain-why" className="faint">
            The controller is asked what that does.
          </span>
        )}
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
