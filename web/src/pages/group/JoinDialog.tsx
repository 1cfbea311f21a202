// SPDX-License-Identifier: Apache-2.0
// A host joins a group by hand; applications do so by canopy-host.
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import * as queries from "../../api/queries";
import { isOfDomain } from "../../api/session";
import { applyCommand } from "../../lib/form";
import { MEMBER, MEMBER_FIELDS, memberResource, type MemberForm } from "../../lib/group";
import { SelectField, TextField } from "../../write/Field";
import { WriteDialog } from "../../write/WriteDialog";

interface Props {
  group: string;
  hasSource: boolean;
  onClose: () => void;
}

export function JoinDialog({ group, hasSource, onClose }: Props) {
  const [form, setForm] = useState<MemberForm>({ ...MEMBER, role: hasSource ? "receiver" : "source" });
  const hosts = useQuery({ ...queries.hostsLike(form.host.trim()), enabled: isOfDomain(), placeholderData: keepPreviousData }).data ?? [];
  const { resource, missing } = memberResource(group, form);
  const set = (name: keyof MemberForm) => (to: string) => setForm({ ...form, [name]: to });
  const isSource = form.role === "source";
  const send = (dryRun: boolean, plan?: string) =>
    data(
      api.POST("/api/v1/groups/{group}/members", {
        params: { path: { group }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
        body: resource as never,
      }),
    );
  return (
    <WriteDialog
      title={`Join group ${group}`}
      name={`member/${group}/${form.host.trim()}`}
      command={applyCommand(resource)}
      action="Join"
      content={JSON.stringify(resource)}
      fields={MEMBER_FIELDS}
      missing={missing}
      send={send}
      changes={["members", "group", "host"]}
      onClose={onClose}
    >
      {() => (
        <>
          <p>Its application has set up, or sets up, a queue pair with the group’s connection. One that uses canopy-host joins by itself.</p>
          <datalist id="join-hosts">
            {hosts.map((host) => (
              <option key={host} value={host} />
            ))}
          </datalist>
          <div className="fields">
            <TextField name="spec.host" label="Host" first list="join-hosts" value={form.host} onChange={set("host")} />
            <SelectField name="spec.role" label="Role" value={form.role} onChange={set("role")} options={[["receiver", "receiver"], ["source", "source"]]} />
            <TextField name="spec.qpn" label="QPN" value={form.qpn} onChange={set("qpn")} />
            <TextField name="spec.address" label="Address of the QP" hint="Left empty, the host’s own." value={form.address} onChange={set("address")} />
            {isSource ? (
              <TextField name="spec.startPsn" label="Start PSN" hint="Left empty, the session’s." value={form.startPsn} onChange={set("startPsn")} />
            ) : (
              <>
                <TextField name="spec.memory.va" label="Memory for WRITEs: address" hint="Left empty, it has none." value={form.va} onChange={set("va")} />
                <TextField name="spec.memory.rkey" label="R_Key" value={form.rkey} onChange={set("rkey")} />
                <TextField name="spec.memory.length" label="Length, bytes" value={form.length} onChange={set("length")} />
              </>
            )}
          </div>
        </>
      )}
    </WriteDialog>
  );
}
