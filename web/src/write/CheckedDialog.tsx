// SPDX-License-Identifier: Apache-2.0
// A write without a form: the controller is asked what it does, that is shown, and only that is carried out.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { ApiError } from "../api/client";
import { useReadOnly } from "../api/session";
import type { DryRun } from "../api/types";
import { Command } from "../ui/Command";
import { Dialog } from "../ui/Dialog";
import { ErrorNote } from "../ui/Page";
import { WAITS } from "../ui/words";
import { Effects } from "./Effects";
import { WithinCommit } from "./WithinCommit";

interface Props {
  title: string;
  /** The resource, as `canopyctl` writes it: "drain/n4". */
  name: string;
  /** The command that does the same. */
  command: string;
  /** Label of the button that does it. */
  action: string;
  /** The write, as a dry run or only if its effects are those of a plan. */
  send: (dryRun: boolean, plan?: string) => Promise<unknown>;
  /** Lists that are other ones afterwards. */
  changes: readonly string[];
  onClose: () => void;
  /** After it was done. */
  onDone?: () => void | Promise<void>;
  children?: ReactNode;
}

export function CheckedDialog({ title, name, command, action, send, changes, onClose, onDone, children }: Props) {
  const cache = useQueryClient();
  const readOnly = useReadOnly();
  const check = useQuery({ queryKey: ["check", name, command], enabled: !readOnly, queryFn: async () => (await send(true)) as DryRun, staleTime: 0, gcTime: 0, retry: false });
  const plan = check.data?.plan;
  const isNothing = check.data?.outcome === "unchanged";
  const apply = useMutation({
    mutationFn: (shown: string) => send(false, shown),
    onError: async (error) => {
      if (error instanceof ApiError && error.document?.code === "PlanChanged") await check.refetch();
    },
    onSuccess: async () => {
      for (const key of changes) await cache.invalidateQueries({ queryKey: [key] });
      onClose();
      await onDone?.();
    },
  });
  const why = readOnly ? readOnly : check.isPending ? "The controller is asked what that does." : check.error ? "The controller refuses it." : isNothing ? "Nothing would change." : apply.isPending ? WAITS : "";
  return (
    <Dialog title={title} onClose={onClose}>
      {children}
      <ErrorNote error={check.error ?? apply.error} />
      {check.data && <Effects name={name} of={check.data} />}
      <WithinCommit onChange={() => apply.reset()} />
      <p>
        <Command line={command} />
      </p>
      <div className="tools">
        <button type="button" className="danger" disabled={!plan || Boolean(why) || apply.isPending} aria-describedby="checked-why" onClick={() => plan && apply.mutate(plan)}>
          {action}
        </button>
        <span id="checked-why" className="faint">{why}</span>
        <button type="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}
