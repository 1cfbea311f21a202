// SPDX-License-Identifier: Apache-2.0
// Takes a link or node out of service. The controller checks it first, without changing anything; what it answers is shown, then confirmed.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, ApiError, data } from "../../api/client";
import * as queries from "../../api/queries";
import type { Group } from "../../api/types";
import { drainCommand, drainName, targetName, type Target } from "../../lib/drain";
import { counted } from "../../lib/format";
import { Command } from "../../ui/Command";
import { Dialog } from "../../ui/Dialog";
import { ErrorNote } from "../../ui/Page";

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
  const post = (dryRun: boolean) =>
    data(
      api.POST("/api/v1/drains", {
        params: { query: { dryRun } },
        body: {
          apiVersion: "canopy/v1",
          kind: "Drain",
          metadata: { name: drainName(target) },
          spec: { ...target, reason: reason.trim(), ...(acceptLoss && { acceptLoss }) },
        },
      }),
    );
  const check = useMutation({ mutationFn: () => post(true) });
  const apply = useMutation({
    mutationFn: () => post(false),
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
  const hostsLose = check.error instanceof ApiError && check.error.status === 409 && "node" in target;
  return (
    <Dialog title={`Drain ${"link" in target ? "link" : "node"} ${targetName(target)}`} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (why) return;
          if (check.isSuccess) apply.mutate();
          else check.mutate();
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
        {check.isSuccess && <Effects target={target} />}
        <p>
          <Command line={drainCommand(target, reason.trim(), acceptLoss)} />
        </p>
        <div className="tools">
          {check.isSuccess ? (
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

/** What the drain would take out of service, from what the controller has now. */
function Effects({ target }: { target: Target }) {
  const links = useQuery(queries.links).data ?? [];
  const pages = useQuery({ queryKey: queries.groups.queryKey, enabled: false }).data as { pages: { items: Group[] }[] } | undefined;
  const names =
    "link" in target
      ? [target.link]
      : [...new Set(links.map((l) => l.spec.link).filter((name) => name.split("--").some((end) => end.startsWith(`${target.node}/`))))];
  const groups = pages?.pages.flatMap((page) => page.items).filter((group) => uses(group, target)) ?? [];
  return (
    <div className="note degraded" role="status">
      <strong>The controller accepts it.</strong> Nothing has changed yet.
      <div>
        Out of service: {counted(names.length, "link")} ({names.slice(0, 8).join(", ")}
        {names.length > 8 ? " …" : ""})
      </div>
      {pages && (
        <div>
          {groups.length ? `Trees that use it now: ${groups.slice(0, 8).map((g) => g.metadata.name).join(", ")}${groups.length > 8 ? ` and ${groups.length - 8} more` : ""}` : "No tree of the groups that this page has read uses it."}
        </div>
      )}
    </div>
  );
}

function uses(group: Group, target: Target): boolean {
  if ("node" in target) return group.status.tree.some((node) => node.node === target.node);
  const ends = target.link.split("--");
  return group.status.tree.some((node) => ends.includes(`${node.node}/${node.upstreamPort}`) && node.parent);
}
