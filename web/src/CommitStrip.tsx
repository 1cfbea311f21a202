// SPDX-License-Identifier: Apache-2.0
// The commit that waits to be confirmed, on every page; once it has ended, how.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState, useSyncExternalStore } from "react";
import { api, data } from "./api/client";
import * as queries from "./api/queries";
import { setOwnCommit, useOwnCommit } from "./api/tab";
import type { Commit } from "./api/types";
import { controllerNow, everySecond } from "./lib/clock";
import { ending, left, object, principal, rollback } from "./lib/commit";
import { counted } from "./lib/format";
import { Age } from "./ui/Age";
import { Command } from "./ui/Command";
import { Dialog } from "./ui/Dialog";
import { ErrorNote } from "./ui/Page";
import { StateWord } from "./ui/State";
import { WAITS } from "./ui/words";
import { SECONDS } from "./write/WithinCommit";

/** Below it, the time left is shown as urgent. */
const URGENT = 60e9;

export function CommitStrip() {
  const pending = useQuery(queries.status).data?.pendingCommit;
  const [seen, setSeen] = useState<string | null>(null);
  if (pending && pending.id !== seen) setSeen(pending.id);
  const commit = useQuery({ ...queries.commit, enabled: seen !== null }).data;
  if (!commit || commit.id !== seen) return null;
  if (commit.phase === "Pending") return <Pending commit={commit} />;
  return (
    <section className={commit.phase === "Confirmed" ? "strip ok" : "strip degraded"} aria-label="Ended commit">
      <StateWord state={commit.phase === "Confirmed" ? "ok" : "degraded"}>Commit {commit.id} of {principal(commit.by)}</StateWord>
      <span className="text">{ending(commit)}</span>
      {commit.refused.map((refused) => (
        <span key={`${refused.kind}/${refused.name}`} className="text">{object(refused.kind, refused.name)}: {refused.detail}</span>
      ))}
      <button type="button" onClick={() => setSeen(null)}>Dismiss</button>
    </section>
  );
}

function Pending({ commit }: { commit: Commit }) {
  const now = useSyncExternalStore(everySecond, controllerNow);
  const own = useOwnCommit() === commit.id;
  const [cancelling, setCancelling] = useState(false);
  const cache = useQueryClient();
  const ended = async (answer: Commit) => {
    if (own) setOwnCommit(null);
    cache.setQueryData(["commit"], answer);
    await cache.invalidateQueries();
  };
  const confirm = useMutation({ mutationFn: () => data(api.POST("/api/v1/commit/confirm", { body: { id: commit.id } })), onSuccess: ended });
  const extend = useMutation({
    mutationFn: () => data(api.POST("/api/v1/commit/extend", { body: { id: commit.id, timeoutSeconds: SECONDS } })),
    onSuccess: (answer) => cache.setQueryData(["commit"], answer),
  });
  const rest = commit.deadlineUnixNs - now;
  const busy = confirm.isPending || extend.isPending;
  const late = rest <= 0;
  const why = busy ? WAITS : late ? "Its time has passed: it is being taken back." : rest > (SECONDS - 5) * 1e9 ? `It has ${SECONDS / 60} minutes or more.` : "";
  return (
    <section className={rest < URGENT ? "strip failed" : "strip pending"} aria-label="Pending commit">
      <StateWord state={rest < URGENT ? "failed" : "pending"}>Commit of {principal(commit.by)}</StateWord>
      <span className="text">
        begun <Age since={commit.begunUnixNs} /> ago; taken back in <strong className="num">{left(rest)}</strong> unless it is confirmed.{" "}
        {own ? "Writes of this tab are a part of it." : "Other writes are refused until then."}
      </span>
      <Changes commit={commit} />
      <span className="tools">
        <button type="button" className="primary" disabled={busy || late} aria-describedby="commit-why" onClick={() => confirm.mutate()}>Confirm</button>
        <button type="button" disabled={busy || late} aria-describedby="commit-why" onClick={() => setCancelling(true)}>Cancel it…</button>
        <button type="button" disabled={busy || Boolean(why)} aria-describedby="commit-why" onClick={() => extend.mutate()}>{SECONDS / 60} min from now</button>
        <button type="button" className="quiet" onClick={() => setOwnCommit(own ? null : commit.id)}>{own ? "Keep my writes out of it" : "Make my writes a part of it"}</button>
        <span id="commit-why" className="faint">{why}</span>
      </span>
      <ErrorNote error={confirm.error ?? extend.error} />
      {cancelling && <Cancel commit={commit} onClose={() => setCancelling(false)} onEnded={ended} />}
    </section>
  );
}

function Changes({ commit }: { commit: Commit }) {
  if (commit.changes.length === 0) return <span className="faint">It has changed nothing yet.</span>;
  return (
    <details>
      <summary>{counted(commit.changes.length, "change")}</summary>
      <ul>
        {commit.changes.map((change) => (
          <li key={object(change.kind, change.name)}>{object(change.kind, change.name)}{change.rollback === "delete" ? ", which is new" : ""}</li>
        ))}
      </ul>
    </details>
  );
}

/** What the rollback does, tried on a copy by the controller, then the button. */
function Cancel({ commit, onClose, onEnded }: { commit: Commit; onClose: () => void; onEnded: (answer: Commit) => Promise<void> }) {
  const tried = useQuery({
    queryKey: ["rollback", commit.id],
    queryFn: () => data(api.GET("/api/v1/commit", { params: { query: { check: true } } })),
    staleTime: 0,
    gcTime: 0,
  });
  const cancel = useMutation({
    mutationFn: () => data(api.POST("/api/v1/commit/cancel", { body: { id: commit.id } })),
    onSuccess: async (answer) => {
      onClose();
      await onEnded(answer);
    },
  });
  const shown = tried.data;
  return (
    <Dialog title={`Take commit ${commit.id} back`} onClose={onClose}>
      <ErrorNote error={tried.error ?? cancel.error} />
      {shown && (
        <div className="note degraded" role="status">
          {shown.changes.length === 0 && "It has changed nothing: nothing is taken back."}
          <ul>{shown.changes.map((change) => <li key={object(change.kind, change.name)}>{rollback(change)}</li>)}</ul>
          {shown.refused.map((refused) => (
            <div key={object(refused.kind, refused.name)}>{object(refused.kind, refused.name)} could not be put back: {refused.detail}</div>
          ))}
        </div>
      )}
      <p><Command line={`canopyctl commit cancel ${commit.id}`} /></p>
      <div className="tools">
        <button type="button" className="danger" disabled={!shown || cancel.isPending} aria-describedby="cancel-why" onClick={() => cancel.mutate()}>Take it back</button>
        <span id="cancel-why" className="faint">{tried.isPending ? "The controller tries it on a copy." : cancel.isPending ? WAITS : ""}</span>
        <button type="button" onClick={onClose}>Keep it pending</button>
      </div>
    </Dialog>
  );
}
