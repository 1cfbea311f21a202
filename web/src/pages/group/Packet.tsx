// SPDX-License-Identifier: Apache-2.0
// One packet on its way to a receiver, as each node saw it: fields by place, with what changed and why, and the octets.
import { useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { api, data } from "../../api/client";
import { save } from "../../api/save";
import type { Capture, CaptureHop } from "../../api/types";
import { counted } from "../../lib/format";
import { fields, names, octets, place, reasons, receivers, way, type Field } from "../../lib/packet";
import { Command } from "../../ui/Command";
import { ErrorNote } from "../../ui/Page";

/** Time between two reads of a capture that is under way, ms. */
const EVERY = 250;
/** What nodes report at the end arrives within so long, ms. */
const LATE = 2000;

const wait = (ms: number) => new Promise((done) => window.setTimeout(done, ms));

/** Arms a capture, and reads it once nothing more is waited for. */
async function captured(group: string): Promise<Capture> {
  const armed = await data(api.POST("/api/v1/groups/{group}/captures", { params: { path: { group } }, body: {} }));
  const read = async () => (await data(api.GET("/api/v1/groups/{group}/captures/{capture}", { params: { path: { group, capture: armed.id } } }))) as Capture;
  let capture = await read();
  while (capture.state === "armed") {
    await wait(EVERY);
    capture = await read();
  }
  if (capture.state === "complete") return capture;
  await wait(LATE);
  return read();
}

export function Packet({ group }: { group: string }) {
  const capture = useMutation({ mutationFn: () => captured(group) });
  return (
    <section aria-label="Packet">
      <h2>Packet</h2>
      <div className="tools">
        <button type="button" disabled={capture.isPending} aria-describedby="packet-state" onClick={() => capture.mutate()}>
          Capture a packet
        </button>
        <span id="packet-state" role="status" className="faint">
          {capture.isPending ? "Waiting for a packet, 5 s at most." : capture.data ? summary(capture.data) : "Headers only, at every place of the tree; never the payload."}
        </span>
      </div>
      <ErrorNote error={capture.error} />
      {capture.data?.hops.some((hop) => hop.frame) && <Anatomy capture={capture.data} />}
      <p>
        <Command line={`canopyctl packet ${group}`} />
      </p>
    </section>
  );
}

function summary(capture: Capture): string {
  const seen = capture.hops.filter((hop) => hop.frame).length;
  if (seen) return `PSN ${capture.psn}: seen at ${seen} of ${counted(capture.hops.length, "place")}.`;
  if (capture.sent === 0) return "The source sent nothing: send data, and try again.";
  return `The packet with PSN ${capture.psn} did not pass: try again.`;
}

function Anatomy({ capture }: { capture: Capture }) {
  const hosts = useMemo(() => receivers(capture.hops), [capture.hops]);
  const [host, setHost] = useState(hosts[0] ?? "");
  const places = useMemo(() => way(capture.hops, hosts.includes(host) ? host : (hosts[0] ?? "")), [capture.hops, hosts, host]);
  const [shown, setShown] = useState("");
  const of = useMemo(() => places.map((hop) => (hop.frame ? fields(hop.frame) : [])), [places]);
  const all = useMemo(() => names(of), [of]);
  const chosen = places.find((hop) => place(hop) === shown) ?? places.findLast((hop) => hop.frame);
  const download = useMutation({ mutationFn: () => save(`/api/v1/groups/${encodeURIComponent(capture.group)}/captures/${capture.id}?format=pcapng`, `${capture.group}-${capture.id}.pcapng`) });
  return (
    <>
      <div className="tools">
        <label>
          To{" "}
          <select value={host} onChange={(event) => setHost(event.target.value)}>
            {hosts.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <button type="button" disabled={download.isPending} onClick={() => download.mutate()}>
          Save pcapng
        </button>
      </div>
      <ErrorNote error={download.error} />
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- a region that scrolls is reached by keyboard */}
      <div className="scroll" role="region" aria-label="Fields by place" tabIndex={0}>
        <table className="plain packet" aria-label={`Packet to ${host}`}>
          <thead>
            <tr>
              <th scope="col">Field</th>
              {places.map((hop) => (
                <th key={place(hop)} scope="col">
                  <button type="button" className="quiet" aria-pressed={hop === chosen} onClick={() => setShown(place(hop))}>
                    {place(hop)}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {all.map((name) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                {places.map((hop, i) => (
                  <Cell key={place(hop)} hop={hop} all={of[i] ?? []} name={name} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {chosen?.frame && <Octets hop={chosen} />}
    </>
  );
}

/** Link-layer addresses are other ones behind every hop: that is no news. */
const isNews = (field: Field): boolean => field.at >= 12;

function Cell({ hop, all, name }: { hop: CaptureHop; all: readonly Field[]; name: string }) {
  const { frame } = hop;
  const at = all.findIndex((field) => field.name === name);
  const field = all[at];
  if (!frame) return <td className="faint">not seen</td>;
  if (!field) return <td className="faint">–</td>;
  const of = (one: Field | undefined): string[] => (one && isNews(one) ? reasons(one, frame.changes) : []);
  const why = of(field);
  // A header that is new has one reason, not one per field.
  const isAsAbove = why.join() === of(all[at - 1]).join();
  const isWrong = why.some((reason) => reason.startsWith("not expected"));
  return (
    <td className={isWrong ? "failed" : why.length ? "changed" : undefined} title={why.join("; ") || undefined}>
      <code>{field.value}</code>
      {!isAsAbove &&
        why.map((reason) => (
          <div key={reason} className="why">
            {reason}
          </div>
        ))}
    </td>
  );
}

/** The captured octets of a place; those that changed are marked. */
function Octets({ hop }: { hop: CaptureHop }) {
  const { frame } = hop;
  if (!frame) return null;
  const isChanged = (at: number) => at >= 12 && frame.changes.some((change) => at >= change.at && at < change.at + change.after.length / 2);
  const head = octets(frame.head);
  const lines = Array.from({ length: Math.ceil(head.length / 16) }, (_, i) => head.slice(16 * i, 16 * i + 16));
  return (
    <figure className="octets" aria-label={`Octets at ${place(hop)}`}>
      <figcaption className="faint">
        {place(hop)}: the first {head.length} of {counted(frame.lengthBytes, "octet")}; marked ones changed since the place before
      </figcaption>
      <pre>
        {lines.map((line, i) => (
          <div key={i}>
            <span className="faint">{(16 * i).toString(16).padStart(4, "0")} </span>
            {line.map((octet, j) => {
              const text = octet.toString(16).padStart(2, "0");
              return isChanged(16 * i + j) ? <mark key={j}>{` ${text}`}</mark> : ` ${text}`;
            })}
          </div>
        ))}
      </pre>
    </figure>
  );
}
