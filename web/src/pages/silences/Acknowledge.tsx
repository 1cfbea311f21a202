// SPDX-License-Identifier: Apache-2.0
// The button that writes down that an operator knows of a problem, or ends that.
import { useState } from "react";
import { api, data } from "../../api/client";
import type { Problem, SilenceRef } from "../../api/types";
import { CheckedDialog } from "../../write/CheckedDialog";
import { AckDialog } from "./AckDialog";

export function Acknowledge({ problem }: { problem: Problem }) {
  // What was open stays so when the problem changes below it.
  const [open, setOpen] = useState<SilenceRef | "new" | null>(null);
  const close = () => setOpen(null);
  const { silence } = problem;
  return (
    <>
      <button type="button" onClick={() => setOpen(silence ?? "new")}>
        {silence ? "Unsilence…" : "Acknowledge…"}
      </button>
      {open === "new" && <AckDialog problem={problem} onClose={close} />}
      {open && open !== "new" && <EndDialog silence={open} onClose={close} />}
    </>
  );
}

function EndDialog({ silence, onClose }: { silence: SilenceRef; onClose: () => void }) {
  return (
    <CheckedDialog
      title={`End silence ${silence.name}`}
      name={`silence/${silence.name}`}
      command={`canopyctl unsilence ${silence.name}`}
      action="End it"
      send={(dryRun, plan) =>
        data(
          api.DELETE("/api/v1/silences/{silence}", {
            params: { path: { silence: silence.name }, query: { dryRun }, ...(plan && { header: { "If-Plan-Match": plan } }) },
          }),
        )
      }
      changes={["problems"]}
      onClose={onClose}
    >
      <p>The problems that it covers raise alerts again.</p>
    </CheckedDialog>
  );
}
