// SPDX-License-Identifier: Apache-2.0
// One write: old and new value of each field, and the way back.
import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../../api/client";
import * as queries from "../../api/queries";
import type { AuditItem, Version } from "../../api/types";
import { object, principal } from "../../lib/commit";
import { counted } from "../../lib/format";
import { around, changed, hasVersions, undo, undoCommand, type Undo } from "../../lib/undo";
import { Instant } from "../../ui/Age";
import { Command } from "../../ui/Command";
import { Dialog } from "../../ui/Dialog";
import { Loaded } from "../../ui/Page";
import { CheckedDialog } from "../../write/CheckedDialog";
import { Diff } from "../../write/Diff";

export function Entry({ entry, onClose }: { entry: AuditItem; onClose: () => void }) {
  const [back, setBack] = useState<Exclude<Undo, string> | null>(null);
  const versioned = hasVersions(entry.kind);
  const search = useSearch({ strict: false });
  const versions = useQuery({ ...queries.versions(entry.kind, entry.name), enabled: versioned });
  if (back) return <Back entry={entry} back={back} onClose={onClose} />;
  return (
    <Dialog title={`${entry.action} ${object(entry.kind, entry.name)}`} onClose={onClose}>
      <p className="faint">
        By {principal(entry.by)}, <Instant at={entry.timeUnixNs} />
        {entry.generation ? `, generation ${entry.generation}` : ""}
        {entry.lastUnixNs && <>, {counted(entry.count ?? 1, "time")} until <Instant at={entry.lastUnixNs} /></>}
      </p>
      {entry.kind === "ChangeSet" && <p><Link to="/change-sets/$set" params={{ set: entry.name }}>The change set, its resources and the way back</Link></p>}
      {entry.kind === "Member" && <p><Link to="/groups/$group" params={{ group: entry.name.split("/")[0] ?? entry.name }}>The group</Link></p>}
      {entry.requestId && !search.request && !search.hosts && <p><Link to="/audit" search={{ request: entry.requestId }}>What else the same request wrote</Link></p>}
      {versioned ? (
        <Loaded query={versions}>{(list) => <Changed entry={entry} versions={list} onBack={setBack} onClose={onClose} />}</Loaded>
      ) : (
        <>
          <p>{entry.fields?.length ? <>Fields with other values since: <code>{entry.fields.join(" ")}</code></> : "It has no fields."}</p>
          <Buttons why={entry.kind === "ChangeSet" ? "It is taken back as a whole, on its own page." : "Only topology, drains and groups have versions."} onClose={onClose} />
        </>
      )}
      {versioned && <p><Command line={`canopyctl history ${entry.kind.toLowerCase()} ${entry.kind === "Topology" ? "" : entry.name}`.trim()} /></p>}
    </Dialog>
  );
}

interface ChangedProps {
  entry: AuditItem;
  versions: readonly Version[];
  onBack: (back: Exclude<Undo, string>) => void;
  onClose: () => void;
}

function Changed({ entry, versions, onBack, onClose }: ChangedProps) {
  const changes = changed(entry, around(entry, versions));
  const back = undo(entry, versions);
  return (
    <>
      {typeof changes === "string" ? <p className="faint">{changes}</p> : <Diff changes={changes} />}
      {typeof back === "string" ? <Buttons why={back} onClose={onClose} /> : <Buttons why="" onUndo={() => onBack(back)} onClose={onClose} />}
    </>
  );
}

function Buttons({ why, onUndo, onClose }: { why: string; onUndo?: () => void; onClose: () => void }) {
  return (
    <div className="tools">
      <button type="button" disabled={!onUndo} aria-describedby="undo-why" onClick={onUndo}>Undo…</button>
      <span id="undo-why" className="faint">{why}</span>
      <button type="button" onClick={onClose}>Close</button>
    </div>
  );
}

function Back({ entry, back, onClose }: { entry: AuditItem; back: Exclude<Undo, string>; onClose: () => void }) {
  const { to, condition, isThere, also } = back;
  const send = (dryRun: boolean, plan?: string) => {
    const header = { ...condition, ...(plan && { "If-Plan-Match": plan }) };
    const body = { apiVersion: "canopy/v1" as const, kind: entry.kind, metadata: { name: entry.name, labels: to.labels }, spec: to.spec };
    // Specs are sent as they were read; the versions of all kinds have one type.
    const sent = { params: { query: { dryRun }, header }, body: body as never };
    switch (entry.kind) {
      case "Topology":
        return data(api.PUT("/api/v1/topology", sent));
      case "Drain":
        return data(api.PUT("/api/v1/drains/{drain}", { ...sent, params: { ...sent.params, path: { drain: entry.name } } }));
      default:
        return data(api.PUT("/api/v1/groups/{group}", { ...sent, params: { ...sent.params, path: { group: entry.name } } }));
    }
  };
  return (
    <CheckedDialog
      title={`Undo ${entry.action} of ${object(entry.kind, entry.name)}`}
      name={object(entry.kind, entry.name)}
      command={undoCommand(entry, to)}
      action="Put it back"
      send={send}
      changes={["audit", "versions", "groups", "drains", "topology", "links"]}
      onClose={onClose}
    >
      <p>
        Generation {to.generation} is written again, as a new one{isThere ? "" : "; its members, if it had any, have to join again"}.
        {also > 0 && ` This also takes back ${counted(also, "later write")}.`}
      </p>
    </CheckedDialog>
  );
}
