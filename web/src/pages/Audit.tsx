// SPDX-License-Identifier: Apache-2.0
// Who wrote what, and how is it taken back?
import { getRouteApi } from "@tanstack/react-router";
import { auditCommand, WITHIN, type AuditSearch } from "../lib/undo";
import { Command } from "../ui/Command";
import { Page } from "../ui/Page";
import { Writes } from "./audit/Writes";

const route = getRouteApi("/audit");

const KINDS = ["Topology", "Drain", "Silence", "Group", "Member", "Hmac", "Commit", "ChangeSet", "Identity", "LogLevel"];
const ACTIONS = ["create", "update", "delete", "rotate", "begin", "confirm", "extend", "cancel", "expire", "enroll", "revoke", "retire"];
const OF_HOSTS = ["join", "leave"];

export function Audit() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const set = (name: keyof AuditSearch, value: string) => void navigate({ search: (old) => ({ ...old, [name]: value || undefined }), replace: true });
  // The two books have other kinds of writes.
  const show = (hosts: boolean) => void navigate({ search: ({ by, name, within }) => ({ ...(by && { by }), ...(name && { name }), ...(within && { within }), ...(hosts && { hosts }) }) });
  const filtered = Object.entries(search).some(([name, value]) => name !== "hosts" && Boolean(value));
  const none = filtered ? "No write that is kept passes the filter." : search.hosts ? "No host has joined or left a group yet." : "No operator has written anything yet.";
  return (
    <Page title="Audit" tab="Audit">
      <div className="tools">
        <select aria-label="Whose writes" value={search.hosts ? "hosts" : ""} onChange={(event) => show(event.target.value === "hosts")}>
          <option value="">of operators</option>
          <option value="hosts">joins and leaves of hosts</option>
        </select>
        <input type="search" aria-label="Written by" placeholder="by" value={search.by ?? ""} onChange={(event) => set("by", event.target.value)} />
        <Choice label="Action" every="every action" values={search.hosts ? OF_HOSTS : ACTIONS} value={search.action} onChange={(value) => set("action", value)} />
        {!search.hosts && <Choice label="Kind" every="every kind" values={KINDS} value={search.kind} onChange={(value) => set("kind", value)} />}
        <input type="search" aria-label="Name of the object" placeholder={search.hosts ? "group/host" : "whole name"} value={search.name ?? ""} onChange={(event) => set("name", event.target.value)} />
        <select aria-label="Time" value={search.within ?? ""} onChange={(event) => set("within", event.target.value)}>
          <option value="">any time</option>
          {Object.entries(WITHIN).map(([value, [, name]]) => (
            <option key={value} value={value}>{name}</option>
          ))}
        </select>
        {search.request && (
          <button type="button" title={search.request} onClick={() => set("request", "")}>of request {search.request.slice(0, 8)}… ✕</button>
        )}
        <Command line={auditCommand(search)} />
      </div>
      {search.hosts && <p className="faint">What one principal did to one group within a minute is one entry.</p>}
      <Writes search={search} none={none} />
    </Page>
  );
}

interface ChoiceProps {
  label: string;
  every: string;
  values: readonly string[];
  value: string | undefined;
  onChange: (value: string) => void;
}

function Choice({ label, every, values, value, onChange }: ChoiceProps) {
  return (
    <select aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.target.value)}>
      <option value="">{every}</option>
      {values.map((name) => (
        <option key={name}>{name}</option>
      ))}
    </select>
  );
}
