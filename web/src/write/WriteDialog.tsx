// SPDX-License-Identifier: Apache-2.0
// A write with a form. The controller checks it first, without changing anything; what it answers is shown, then confirmed.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useMemo, useRef, type ReactNode } from "react";
import { ApiError } from "../api/client";
import { useReadOnly } from "../api/session";
import type { DryRun } from "../api/types";
import type { Wrong } from "../lib/form";
import { Command } from "../ui/Command";
import { Dialog } from "../ui/Dialog";
import { ErrorNote } from "../ui/Page";
import { WAITS } from "../ui/words";
import { Effects } from "./Effects";
import { FormErrors } from "./Field";
import { WithinCommit } from "./WithinCommit";

interface Props {
  title: string;
  /** The resource, as `canopyctl` writes it: "drain/n4". */
  name: string;
  /** The command that does the same. */
  command: string;
  /** Label of the button that does it. */
  action: string;
  /** It takes something away. */
  danger?: boolean;
  /** What is sent, as text: what was checked counts for this only. */
  content: string;
  /** Fields that the form has, by their names in the API. */
  fields: readonly string[];
  /** Why fields cannot be sent as they are. */
  missing: Wrong;
  /** The write, as a dry run or only if its effects are those of a plan. */
  send: (dryRun: boolean, plan?: string) => Promise<unknown>;
  /** Lists that are other ones afterwards. */
  changes: readonly string[];
  onClose: () => void;
  /** After it was done. */
  onDone?: (() => void | Promise<void>) | undefined;
  /** `refusal`: why the controller refused what the form has. */
  children: (refusal: ApiError | undefined) => ReactNode;
}

export function WriteDialog({ title, name, command, action, danger, content, fields, missing, send, changes, onClose, onDone, children }: Props) {
  const cache = useQueryClient();
  const form = useRef<HTMLFormElement>(null);
  // What is sent is the variable, so that an answer to what the form had before is not taken for one to what it has.
  const check = useMutation({ mutationFn: async (of: string) => ({ of, run: (await send(true)) as DryRun }) });
  const apply = useMutation({
    // Only what was shown: the controller refuses a write with other effects.
    mutationFn: ({ plan }: { of: string; plan: string }) => send(false, plan),
    onError: (error) => {
      if (error instanceof ApiError && error.document?.code === "PlanChanged") check.reset();
    },
    onSuccess: async () => {
      for (const key of changes) await cache.invalidateQueries({ queryKey: [key] });
      onClose();
      await onDone?.();
    },
  });
  const checked = check.data?.of === content ? check.data.run : undefined;
  const error = (check.variables === content ? check.error : null) ?? (apply.variables?.of === content ? apply.error : null);
  const refusal = error instanceof ApiError ? error : undefined;
  const errors = useMemo(() => ({ missing, refused: Object.fromEntries(refusal?.document?.errors?.map(({ field, detail }) => [field, detail]) ?? []) }), [missing, refusal]);
  // The first field that was refused is the one to correct.
  useEffect(() => {
    if (refusal) form.current?.querySelector<HTMLElement>("[aria-invalid='true']")?.focus();
  }, [refusal]);
  const isIncomplete = Object.keys(missing).length > 0;
  const isNothing = checked?.outcome === "unchanged";
  const readOnly = useReadOnly();
  const why = readOnly ? readOnly : isIncomplete ? "A field above is not complete." : isNothing ? "Nothing would change." : "";
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          if (why || check.isPending || apply.isPending) return;
          if (checked?.plan) {
            apply.mutate({ of: content, plan: checked.plan });
          } else {
            apply.reset();
            check.mutate(content);
          }
        }}
      >
        <FormErrors value={errors}>{children(refusal)}</FormErrors>
        <ErrorNote error={error} except={fields} />
        {checked && <Effects name={name} of={checked} />}
        <WithinCommit onChange={() => apply.reset()} />
        <p>
          <Command line={command} />
        </p>
        <div className="tools">
          {checked?.plan ? (
            <button type="submit" className={danger ? "danger" : "primary"} disabled={Boolean(why) || apply.isPending} aria-describedby="write-why">
              {action}
            </button>
          ) : (
            <button type="submit" className="primary" disabled={isIncomplete || Boolean(readOnly) || check.isPending} aria-describedby="write-why">
              Check
            </button>
          )}
          <span id="write-why" className="faint">{why || ((check.isPending || apply.isPending) && WAITS)}</span>
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}
