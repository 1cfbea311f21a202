// SPDX-License-Identifier: Apache-2.0
// Takes a link or node out of service.
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, data } from "../../api/client";
import { controllerNow } from "../../lib/clock";
import { drainCommand, drainName, targetName, type Target } from "../../lib/drain";
import { endsAt, TIMES } from "../../lib/silence";
import { SelectField, TextField } from "../../write/Field";
import { WriteDialog } from "../../write/WriteDialog";

const REASON_BYTES = 1024;

interface Props {
  target: Target;
  /** The page stays after the drain was made. Without it, Drains is shown. */
  stays?: boolean;
  onClose: () => void;
}

export function DrainDialog({ target, stays = false, onClose }: Props) {
  const [reason, setReason] = useState("");
  const [acceptLoss, setAcceptLoss] = useState(false);
  // An instant, not how long: what was checked is what is written a moment later.
  const [end, setEnd] = useState<{ time: string; until?: string }>({ time: "" });
  const navigate = useNavigate();
  const choose = (time: string) => {
    const seconds = TIMES.find((one) => one.time === time)?.seconds;
    setEnd({ time, ...(seconds && { until: endsAt(controllerNow() / 1e6, seconds) }) });
  };
  const common = { reason: reason.trim(), ...(end.until && { until: end.until }) };
  const spec = "node" in target ? { node: target.node, ...common, ...(acceptLoss && { acceptLoss }) } : { link: target.link, ...common };
  const send = (dryRun: boolean, plan?: string) =>
    data(
      api.POST("/api/v1/drains", {
        params: { query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
        body: { apiVersion: "canopy/v1", kind: "Drain", metadata: { name: drainName(target) }, spec },
      }),
    );
  const why = unusable(reason);
  return (
    <WriteDialog
      title={`Drain ${"link" in target ? "link" : "node"} ${targetName(target)}`}
      name={`drain/${drainName(target)}`}
      command={drainCommand(target, reason.trim(), acceptLoss, end.time)}
      action="Drain it"
      danger
      content={JSON.stringify(spec)}
      fields={["spec.reason", "spec.until"]}
      missing={why ? { "spec.reason": why } : {}}
      send={send}
      changes={["drains", "links", "link"]}
      onClose={onClose}
      onDone={stays ? undefined : () => navigate({ to: "/drains" })}
    >
      {(refusal) => (
        <>
          <p>Trees move away from it before it carries nothing more; a group that has no other way keeps using it.</p>
          <TextField name="spec.reason" label="Reason, for other operators" first value={reason} onChange={setReason} />
          <SelectField name="spec.until" label="Lasts" hint={end.until && `Until ${end.until}; then the controller puts it back.`} value={end.time} onChange={choose} options={[["", "until an operator puts it back"], ...TIMES.map(({ time, label }) => [time, label] as const)]} />
          {((refusal?.document?.code === "InUse" && "node" in target) || acceptLoss) && (
            <label className="field">
              <span>
                <input type="checkbox" checked={acceptLoss} onChange={(event) => setAcceptLoss(event.target.checked)} /> Drain it although hosts behind it lose their groups
              </span>
            </label>
          )}
        </>
      )}
    </WriteDialog>
  );
}

function unusable(reason: string): string {
  if (!reason.trim()) return "A reason is needed.";
  return new TextEncoder().encode(reason.trim()).length > REASON_BYTES ? `At most ${REASON_BYTES} bytes.` : "";
}
