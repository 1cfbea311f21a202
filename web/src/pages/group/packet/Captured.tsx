// SPDX-License-Identifier: Apache-2.0
// A captured packet: fields by place, with what changed and why, what is not as expected, and the octets.
import { useMutation } from "@tanstack/react-query";
import { useMemo } from "react";
import { save } from "../../../api/save";
import type { Capture, CaptureFrame, CaptureHop } from "../../../api/types";
import { elsewhere, wanted } from "../../../lib/expected";
import { counted } from "../../../lib/format";
import type { Octet } from "../../../lib/octets";
import { fields, names, octets, place, reasons, type Field } from "../../../lib/packet";
import { capturedScapy } from "../../../lib/scapy";
import { CopyButton } from "../../../ui/Command";
import { ErrorNote } from "../../../ui/Page";
import { WAITS } from "../../../ui/words";
import { FieldRow } from "./FieldRow";
import { Octets, type About } from "./Octets";
import { Way, Why } from "./Way";

export function Captured({ capture }: { capture: Capture }) {
  const read = useMemo(() => new Map(capture.hops.map((hop) => [hop, hop.frame ? fields(hop.frame) : []])), [capture]);
  const of = (hop: CaptureHop) => read.get(hop) ?? [];
  const download = useMutation({ mutationFn: () => save(`/api/v1/groups/${encodeURIComponent(capture.group)}/captures/${capture.id}?format=pcapng`, `${capture.group}-${capture.id}.pcapng`) });
  const differ = capture.hops.flatMap((hop) => elsewhere(of(hop), hop.frame?.unexpected ?? []).map((one) => `${place(hop)}: expected ${one.expected}`));
  return (
    <>
      <ErrorNote error={download.error} />
      {differ.map((text) => (
        <p key={text} className="failed">{text}</p>
      ))}
      <Way
        hops={capture.hops}
        first={(places) => places.findLast((hop) => hop.frame)}
        tools={
          <>
            <button type="button" disabled={download.isPending} aria-describedby="save-why" onClick={() => download.mutate()}>
              Save pcapng
            </button>
            <span id="save-why" className="faint">{download.isPending && WAITS}</span>
          </>
        }
        rows={(places) =>
          names(places.map(of)).map((name, at) => (
            <FieldRow key={name} name={name} isTab={at === 0}>
              {places.map((hop) => (
                <Cell key={place(hop)} hop={hop} all={of(hop)} name={name} />
              ))}
            </FieldRow>
          ))
        }
      >
        {(chosen) =>
          chosen.frame ? (
            <>
              <Octets place={place(chosen)} caption={`${place(chosen)}: the first ${chosen.frame.head.length / 2} of ${counted(chosen.frame.lengthBytes, "octet")}; marked ones changed since the place before`} octets={dump(chosen.frame, of(chosen))} about={(name) => about(chosen, of(chosen), name)} />
              <CopyButton text={capturedScapy(chosen.frame)} label="Copy as scapy" />
            </>
          ) : (
            <p className="faint">Nothing was seen at {place(chosen)}.</p>
          )
        }
      </Way>
    </>
  );
}

/** Link-layer addresses are other ones behind every hop: that is no news. */
const NEWS = 12;

function dump(frame: CaptureFrame, all: readonly Field[]): Octet[] {
  const isMarked = (at: number) => at >= NEWS && frame.changes.some((change) => at >= change.at && at < change.at + change.after.length / 2);
  const nameAt = (at: number) => all.find((field) => at >= field.at && at < field.at + field.octets)?.name ?? "";
  return octets(frame.head).map((octet, at) => ({ text: octet.toString(16).padStart(2, "0"), isMarked: isMarked(at), field: nameAt(at) }));
}

/** Why a field has what it has; link-layer addresses have no news. */
const why = (field: Field, frame: CaptureFrame): string[] => (field.at >= NEWS ? reasons(field, frame.changes) : []);

function about(hop: CaptureHop, all: readonly Field[], name: string): About | undefined {
  const field = all.find((one) => one.name === name);
  return field && hop.frame ? { value: field.value, changes: why(field, hop.frame).map((reason) => `${hop.node}, ${reason}`) } : undefined;
}

function Cell({ hop, all, name }: { hop: CaptureHop; all: readonly Field[]; name: string }) {
  const { frame } = hop;
  const at = all.findIndex((field) => field.name === name);
  const field = all[at];
  if (!frame) return <td className="faint">not seen</td>;
  if (!field) return <td className="faint">–</td>;
  const because = why(field, frame);
  const wrong = wanted(field, frame.unexpected);
  // A header that is new has one reason, not one per field.
  const above = all[at - 1];
  const isAsAbove = above !== undefined && because.join() === why(above, frame).join();
  const isWrong = wrong.length > 0 || because.some((reason) => reason.startsWith("not expected"));
  return (
    <td className={isWrong ? "failed" : because.length ? "changed" : undefined} title={[...wrong, ...because].join("; ") || undefined}>
      <code className={field.at < NEWS ? "pair" : undefined}>{field.value}</code>
      {wrong.map((text) => (
        <div key={text} className="wrong">{text}</div>
      ))}
      {!isAsAbove && because.map((reason) => <Why key={reason} text={reason} />)}
    </td>
  );
}
