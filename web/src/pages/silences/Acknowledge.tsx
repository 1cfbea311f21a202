// SPDX-License-Identifier: Apache-2.0
// The button that writes down that an operator knows of a problem, or ends that.
import { useState } from "react";
import type { Problem, SilenceRef } from "../../api/types";
import { EndSilence } from "./EndSilence";
import { SilenceDialog } from "./SilenceDialog";

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
      {open === "new" && <SilenceDialog of={{ problem }} onClose={close} />}
      {open && open !== "new" && <EndSilence name={open.name} onClose={close} />}
    </>
  );
}
