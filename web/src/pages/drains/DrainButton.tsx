// SPDX-License-Identifier: Apache-2.0
// The button of a link or node that takes it out of service, or puts it back where a drain has taken it out.
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useId, useState } from "react";
import * as queries from "../../api/queries";
import type { Drain } from "../../api/types";
import { drainOf, nodesDrained, type Target } from "../../lib/drain";
import { DrainDialog } from "./DrainDialog";
import { PutBackDialog } from "./PutBackDialog";

interface Props {
  target: Target;
  /** Why it cannot be drained; empty if it can. */
  why?: string;
  /** The page stays after a drain was made. Without it, Drains is shown. */
  stays?: boolean;
}

export function DrainButton({ target, why = "", stays = false }: Props) {
  const { data: drains, isPending } = useQuery(queries.drains);
  const drain = drainOf(drains ?? [], target);
  const [open, setOpen] = useState<"drain" | Drain | null>(null);
  const reason = useId();
  // One that the controller could not be asked for is no reason: it refuses a second drain of the same name.
  const wait = isPending ? "Drains are not read yet." : why;
  const nodes = "link" in target ? nodesDrained(drains ?? [], target.link) : [];
  const note = drain ? `drained: ${drain.spec.reason}` : wait || (nodes.length > 0 && <ByNodes nodes={nodes} />);
  const close = () => setOpen(null);
  return (
    <>
      {drain ? (
        <button type="button" onClick={() => setOpen(drain)}>Put back…</button>
      ) : (
        <button type="button" disabled={Boolean(wait)} {...(note && { "aria-describedby": reason })} onClick={() => setOpen("drain")}>Drain…</button>
      )}
      {note && <span id={reason} className="faint">{note}</span>}
      {open === "drain" && <DrainDialog target={target} stays={stays} onClose={close} />}
      {open !== null && open !== "drain" && <PutBackDialog drain={open} onClose={close} />}
    </>
  );
}

/** A link that is out of service with a node is put back there. */
function ByNodes({ nodes }: { nodes: readonly string[] }) {
  return (
    <>
      out of service with{" "}
      {nodes.map((node, at) => (
        <span key={node}>
          {at > 0 && ", "}node <Link to="/nodes/$node" params={{ node }}>{node}</Link>
        </span>
      ))}
    </>
  );
}
