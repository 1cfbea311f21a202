// SPDX-License-Identifier: Apache-2.0
// Takes a link or node out of service. The controller checks it first, without changing anything; what it answers is shown, then confirmed.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data } from "../../api/client";
import type { DryRun } from "../../api/types";
import { drainCommand, drainName, targetName, type Target } from "../../lib/drain";
import { Command } from "../../ui/Command";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/Page";
import { Effects } from "../../write/Effects";
import { WithinCommit } from "../../write/WithinCommit";

const REASON_BYTES = 1024;

interface Props {
  target: Target;
  onClose: () => void;
}

export function DrainDialog({ target, onClose }: Props) {
  const [reason, setReason] = useState("");
  const [acceptLoss, setAcceptLoss] = useState(false);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const post = (dryRun: boolean, plan?: string) =>
    data(
      api.POST("/api/v1/drains", {
        params: { query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
        body: {
          apiVersion: "canopy/v1",
          kind: "Drain",
          metadata: { name: drainName(target) },
          spec:
            "node" in target
              ? { node: target.node, reason: reason.trim(), ...(acceptLoss && { acceptLoss }) }
              : { link: target.link, reason: reason.trim() },
        },
      }),
    );
  const check = useMutation({ mutationFn: async () => (await post(true)) as DryRun });
  const apply = useMutation({
    // Only what was shown: the controller refuses a drain with other effects.
    mutationFn: (plan: string) => post(false, plan),
    onError: (error) => {
      if (error instanceof ApiError && error.document?.code === "PlanChanged") check.reset();
    },
    onSuccess: async () => {
      await cache.invalidateQueries({ queryKey: ["drains"] });
      await cache.invalidateQueries({ queryKey: ["links"] });
      onClose();
      await navigate({ to: "/drains" });
    },
  });
  const change = () => {
    check.reset();
    apply.reset();
  };
  const why = unusable(reason);
  const hostsLose = check.error instanceof ApiError && check.error.document?.code === "InUse" && "node" in target;
  return (
    <Dialog title={`Drain ${"link" in target ? "link" : "node"} ${targetName(target)}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (why) return;
          if (check.data?.plan) {
            apply.mutate(check.data.plan);
          } else {
            apply.reset();
            check.mutate();
          }
        }}
      >
        <p>Trees move away from it before it carries nothing more; a group that has no other way keeps using it.</p>
        <label className="field">
          Reason, for other operators
          <input
            // eslint-disable-next-line jsx-a11y/no-autofocus -- the dialog has one field, and was opened to fill it
            autoFocus
            value={reason}
            aria-describedby="drain-why"
            onChange={(event) => {
              setReason(event.target.value);
              change();
            }}
          />
          <span id="drain-why" className="faint">{why}</span>
        </label>
        {(hostsLose || acceptLoss) && (
          <label className="field">
            <span>
              <input
                type="checkbox"
                checked={acceptLoss}
                onChange={(event) => {
                  setAcceptLoss(event.target.checked);
                  change();
                }}
              />{" "}
              Drain it although hosts behind it lose their groups
            </span>
          </label>
        )}
        <ErrorNote error={check.error ?? apply.error} />
        {check.data && <Effects name={`drain/${drainName(target)}`} of={check.data} />}
        <WithinCommit onChange={() => apply.reset()} />
        <p>
          <Command line={drainCommand(target, reason.trim(), acceptLoss)} />
        </p>
        <div className="tools">
          {check.data?.plan ? (
            <button type="submit" className="danger" disabled={apply.isPending}>
              Drain it
            </button>
          ) : (
            <button type="submit" className="primary" disabled={Boolean(why) || check.isPending}>
              Check
            </button>
          )}
          <button type="button" onClick={onClose}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function unusable(reason: string): string {
  if (!reason.trim()) return "A reason is needed.";
  return new TextEncoder().encode(reason.trim()).length > REASON_BYTES ? `At most ${REASON_BYTES} bytes.` : "";
}
