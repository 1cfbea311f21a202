// SPDX-License-Identifier: Apache-2.0
// Who is in a group: hosts join and are removed here.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { api, data } from "../../api/client";
import * as queries from "../../api/queries";
import type { Group, Member } from "../../api/types";
import { principal } from "../../lib/commit";
import { quoted } from "../../lib/drain";
import { Mono } from "../../ui/Command";
import { Empty, Loaded } from "../../ui/Page";
import { Table, type Column } from "../../ui/Table";
import { CheckedDialog } from "../../write/CheckedDialog";
import { JoinDialog } from "./JoinDialog";

export function Members({ group }: { group: Group }) {
  const { name } = group.metadata;
  const query = useQuery(queries.members(name));
  const [joins, setJoins] = useState(false);
  const [removed, setRemoved] = useState<Member | null>(null);
  const columns = useMemo(() => [...COLUMNS, removal(setRemoved)], []);
  return (
    <section aria-label="Members">
      <div className="section-head">
        <h2>Members</h2>
        <button type="button" onClick={() => setJoins(true)}>Join…</button>
      </div>
      <Loaded query={query}>
        {(list) => (list.length ? <Table label="Members" columns={columns} rows={list} rowKey={(m) => m.spec.host} /> : <Empty command="canopyctl apply -f member.yaml">No host has joined yet; applications join by canopy-host.</Empty>)}
      </Loaded>
      {joins && <JoinDialog group={name} hasSource={Boolean(group.status.source)} onClose={() => setJoins(false)} />}
      {removed && <Remove group={name} member={removed} onClose={() => setRemoved(null)} />}
    </section>
  );
}

const COLUMNS: readonly Column<Member>[] = [
  { name: "Host", width: "minmax(4rem, 1fr)", cell: (m) => <Link to="/hosts/$host" params={{ host: m.spec.host }}>{m.spec.host}</Link>, sort: (m) => m.spec.host },
  { name: "Role", width: "4rem", cell: (m) => m.spec.role, sort: (m) => m.spec.role },
  { name: "Node", width: "minmax(5rem, 1fr)", cell: (m) => `${m.status.node}/${m.status.port}`, sort: (m) => `${m.status.node}/${m.status.port}` },
  { name: "State", term: "late receiver", width: "minmax(4.5rem, 1fr)", cell: (m) => (m.status.ended ? "session ended" : m.status.late ? "late" : "in time"), sort: (m) => Number(m.status.late) },
  { name: "QPN", term: "QPN", width: "6rem", right: true, wide: true, cell: (m) => <Mono>{m.spec.qpn}</Mono> },
  { name: "Address", width: "minmax(9rem, 1.5fr)", wide: true, cell: (m) => <Mono>{m.status.address}</Mono> },
  { name: "Joined by", width: "minmax(8rem, 1fr)", wide: true, cell: (m) => principal(m.metadata.writtenBy) },
  { name: "Receiver list", term: "provisioned", width: "7rem", wide: true, cell: (m) => m.status.encoding ?? "–" },
];

const removal = (remove: (member: Member) => void): Column<Member> => ({
  name: "Action",
  width: "5.5rem",
  // A phone is for reading.
  wide: true,
  cell: (m) => (
    <button type="button" className="quiet" aria-haspopup="dialog" aria-label={`Remove ${m.spec.host}…`} onClick={() => remove(m)}>
      Remove…
    </button>
  ),
});

function Remove({ group, member, onClose }: { group: string; member: Member; onClose: () => void }) {
  const { host, role } = member.spec;
  return (
    <CheckedDialog
      title={`Remove ${host} from group ${group}`}
      name={`member/${group}/${host}`}
      command={`canopyctl delete member ${quoted(host)} -g ${quoted(group)}`}
      action="Remove it"
      send={(dryRun, plan) =>
        data(
          api.DELETE("/api/v1/groups/{group}/members/{host}", {
            params: { path: { group, host }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
          }),
        )
      }
      changes={["members", "group", "host"]}
      onClose={onClose}
    >
      <p>
        {role === "source"
          ? "Its session ends: receivers get no more data of it, and their queue pairs have to be reset before they join again."
          : "It gets no more data, and the source does not wait for it any more. Its application is not asked; it can join again."}
      </p>
    </CheckedDialog>
  );
}
