// SPDX-License-Identifier: Apache-2.0
// One change set: how far it is, what it wrote, what was refused, and the way back.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../api/client";
import * as queries from "../api/queries";
import { useReadOnly } from "../api/session";
import type { ChangeSet } from "../api/types";
import { notUndone, ofChangeSet, progress, refusal, undoing } from "../lib/changeSet";
import { object, principal } from "../lib/commit";
import { count, counted } from "../lib/format";
import { Instant } from "../ui/Age";
import { Command } from "../ui/Command";
import { Crumbs } from "../ui/Crumbs";
import { Dialog } from "../ui/Dialog";
import { ErrorNote, Loaded, Page } from "../ui/Page";
import { StateWord } from "../ui/State";
import { WAITS } from "../ui/words";
import { Writes } from "./audit/Writes";

const route = getRouteApi("/change-sets/$set");

export function ChangeSetPage() {
  const { set: id } = route.useParams();
  const query = useQuery(queries.changeSet(id));
  return (
    <>
      <Crumbs to="/change-sets" />
      <Loaded query={query} title={id}>{(set) => <One set={set} />}</Loaded>
    </>
  );
}

function One({ set }: { set: ChangeSet }) {
  const [isUndoing, setUndoing] = useState(false);
  const readOnly = useReadOnly();
  const why = readOnly || notUndone(set);
  return (
    <Page title={set.id} tab={`${set.id}: ${set.phase}`} aside={<Command line={`canopyctl change-set show ${set.id}`} />}>
      <p role="status">
        <StateWord state={ofChangeSet(set)}>{set.phase}</StateWord> {progress(set)}
        {set.waitsFor && <>; it waits: {set.waitsFor}</>}
      </p>
      <dl className="facts">
        <dt>By</dt>
        <dd>{principal(set.by)}, <Instant at={set.begunUnixNs} /></dd>
        {set.undoneBy && (
          <>
            <dt>Taken back by</dt>
            <dd>
              {principal(set.undoneBy)}
              {set.undoneUnixNs && <>, <Instant at={set.undoneUnixNs} /></>}: {count(set.putBack)} of {counted(set.created + set.updated, "resource")} put back
            </dd>
          </>
        )}
        {set.endedUnixNs && (
          <>
            <dt>Ended</dt>
            <dd><Instant at={set.endedUnixNs} /></dd>
          </>
        )}
      </dl>
      {set.refused.length > 0 && (
        <div className="note failed">
          <ul aria-label="Refused">
            {set.refused.map((one) => (
              <li key={object(one.kind, one.name)}>{object(one.kind, one.name)} {refusal(set)}: {one.detail}</li>
            ))}
          </ul>
        </div>
      )}
      <div className="tools">
        <button type="button" className="danger" disabled={Boolean(why)} aria-describedby="undo-set-why" onClick={() => setUndoing(true)}>Undo…</button>
        <span id="undo-set-why" className="faint">{why}</span>
      </div>
      <h2>Writes of its request</h2>
      {set.requestId ? (
        <Writes search={{ request: set.requestId, ...(set.by.name && { by: set.by.name }) }} none="It has written nothing, or the audit has forgotten it." />
      ) : (
        <p className="faint">An earlier version of the controller began it: the audit does not name its resources.</p>
      )}
      {isUndoing && <Undo set={set} onClose={() => setUndoing(false)} />}
    </Page>
  );
}

/** The controller has no dry run of it: what it does follows from the set. */
function Undo({ set, onClose }: { set: ChangeSet; onClose: () => void }) {
  const cache = useQueryClient();
  const undo = useMutation({
    mutationFn: () => data(api.POST("/api/v1/change-sets/{set}/undo", { params: { path: { set: set.id } } })),
    onSuccess: async (answer) => {
      cache.setQueryData(queries.changeSet(set.id).queryKey, answer as ChangeSet);
      onClose();
      await cache.invalidateQueries();
    },
  });
  return (
    <Dialog title={`Take change set ${set.id} back`} onClose={onClose}>
      <div className="note degraded" role="status">{undoing(set)}</div>
      <p>What others have written since stays as it is, and is named. The audit has it in your name.</p>
      <ErrorNote error={undo.error} />
      <p><Command line={`canopyctl change-set undo ${set.id}`} /></p>
      <div className="tools">
        <button type="button" className="danger" disabled={undo.isPending} aria-describedby="take-back-why" onClick={() => undo.mutate()}>Take it back</button>
        <span id="take-back-why" className="faint">{undo.isPending && WAITS}</span>
        <button type="button" onClick={onClose}>Cancel</button>
      </div>
    </Dialog>
  );
}
