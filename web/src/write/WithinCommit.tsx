// SPDX-License-Identifier: Apache-2.0
// Beside the button of a write: whether it is a part of a commit that is taken back unless it is confirmed, and how to make it one.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { status } from "../api/queries";
import { setOwnCommit, useOwnCommit } from "../api/tab";
import { principal } from "../lib/commit";
import { ErrorNote } from "../ui/Page";
import { WAITS } from "../ui/words";

/** Time that a commit begun here has, seconds. */
export const SECONDS = 600;

/** `onChange`: a write that was refused for a commit may be accepted now. */
export function WithinCommit({ onChange }: { onChange: () => void }) {
  const cache = useQueryClient();
  const own = useOwnCommit();
  const pending = useQuery(status).data?.pendingCommit;
  const begin = useMutation({
    mutationFn: () => data(api.POST("/api/v1/commit", { body: { timeoutSeconds: SECONDS } })),
    onSuccess: async (commit) => {
      setOwnCommit(commit.id);
      cache.setQueryData(["commit"], commit);
      await cache.invalidateQueries({ queryKey: ["status"] });
      onChange();
    },
  });
  if (pending && pending.id === own) return <p className="faint">This becomes a part of commit {pending.id}: it is taken back unless that is confirmed.</p>;
  if (pending) {
    return (
      <p>
        Commit {pending.id} of {principal(pending.by)} waits to be confirmed; other writes are refused until then.{" "}
        <button type="button" className="quiet" onClick={() => { setOwnCommit(pending.id); onChange(); }}>
          Make this a part of it
        </button>
      </p>
    );
  }
  return (
    <>
      <ErrorNote error={begin.error} />
      <p className="faint">
        Unsure?{" "}
        <button type="button" className="quiet" disabled={begin.isPending} aria-describedby="begin-why" onClick={() => begin.mutate()}>
          Begin a commit
        </button>{" "}
        first: what you do then is taken back after {SECONDS / 60} minutes unless you confirm it. <span id="begin-why">{begin.isPending && WAITS}</span>
      </p>
    </>
  );
}
