// SPDX-License-Identifier: Apache-2.0
// On the page of an object: the button that silences its problems, and the silences that it has.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import * as queries from "../../api/queries";
import type { Silence } from "../../api/types";
import { principal } from "../../lib/commit";
import { covers, type SilencedKind } from "../../lib/silence";
import { Instant } from "../../ui/Age";
import { EndSilence } from "./EndSilence";
import { SilenceDialog } from "./SilenceDialog";

interface Props {
  kind: SilencedKind;
  name: string;
}

export function SilenceButton({ kind, name }: Props) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>Silence…</button>
      {isOpen && <SilenceDialog of={{ kind, name }} onClose={() => setOpen(false)} />}
    </>
  );
}

export function SilencesOf({ kind, name }: Props) {
  const found = useQuery(queries.silences).data?.filter(({ spec }) => covers(spec, kind, name)) ?? [];
  return (
    <>
      {found.map((silence) => (
        <One key={silence.metadata.name} silence={silence} />
      ))}
    </>
  );
}

function One({ silence }: { silence: Silence }) {
  const [isOpen, setOpen] = useState(false);
  const { metadata, spec, status } = silence;
  return (
    <div className="note pending" role="note">
      {status.active ? "Silenced" : "To be silenced"} by {metadata.writtenBy ? principal(metadata.writtenBy) : "an operator"}: {spec.note}
      {!status.active && spec.from && <>, from <Instant at={Date.parse(spec.from) * 1e6} /></>}
      {spec.until && <>, until <Instant at={Date.parse(spec.until) * 1e6} /></>}{" "}
      <button type="button" onClick={() => setOpen(true)}>Unsilence…</button>
      {isOpen && <EndSilence name={metadata.name} onClose={() => setOpen(false)} />}
    </div>
  );
}
