// SPDX-License-Identifier: Apache-2.0
// One packet on its way to a receiver, in two modes that are never mixed: as the programs have it, or as each node saw it.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data } from "../../api/client";
import * as queries from "../../api/queries";
import type { Capture, CaptureItem } from "../../api/types";
import { counted } from "../../lib/format";
import { Instant } from "../../ui/Age";
import { Command } from "../../ui/Command";
import { ErrorNote } from "../../ui/Page";
import { Captured } from "./packet/Captured";
import { Expected } from "./packet/Expected";

/** Time between two reads of a capture that is under way, ms. */
const EVERY = 250;
/** What nodes report at the end arrives within so long, ms. */
const LATE = 2000;

const wait = (ms: number) => new Promise((done) => window.setTimeout(done, ms));
const read = async (group: string, capture: string) => (await data(api.GET("/api/v1/groups/{group}/captures/{capture}", { params: { path: { group, capture } } }))) as Capture;

/** Arms a capture, and reads it once nothing more is waited for. */
async function captured(group: string): Promise<Capture> {
  const armed = await data(api.POST("/api/v1/groups/{group}/captures", { params: { path: { group } }, body: {} }));
  let capture = await read(group, armed.id);
  while (capture.state === "armed") {
    await wait(EVERY);
    capture = await read(group, armed.id);
  }
  if (capture.state === "complete") return capture;
  await wait(LATE);
  return read(group, armed.id);
}

export function Packet({ group, epoch }: { group: string; epoch: number }) {
  const cache = useQueryClient();
  const [isExpected, setExpected] = useState(true);
  // Without a name, one is captured now; with one, it is an earlier one.
  const capture = useMutation({
    mutationFn: (id?: string) => (id === undefined ? captured(group) : read(group, id)),
    onSuccess: async (_, id) => {
      if (id === undefined) await cache.invalidateQueries({ queryKey: ["captures", group] });
    },
  });
  const earlier = useQuery(queries.captures(group)).data ?? [];
  const show = (id?: string) => {
    setExpected(false);
    capture.mutate(id);
  };
  const isWaiting = capture.isPending && capture.variables === undefined;
  return (
    <section aria-label="Packet">
      <div className="section-head">
        <h2>Packet</h2>
        <button type="button" aria-pressed={isExpected} onClick={() => setExpected(true)}>
          As expected
        </button>
        <button type="button" aria-pressed={!isExpected && !isWaiting} disabled={isWaiting} aria-describedby="packet-state" onClick={() => show()}>
          Capture a packet
        </button>
        <span id="packet-state" role="status" className="faint">
          {isWaiting ? "Waiting for a packet, 5 s at most." : isExpected || !capture.data ? "From the programs of the nodes; captures have headers only, never the payload." : summary(capture.data)}
        </span>
      </div>
      {earlier.length > 0 && <Earlier captures={earlier} shown={isExpected ? undefined : capture.data?.id} onShow={show} />}
      {isExpected ? (
        <Expected group={group} epoch={epoch} />
      ) : (
        <>
          <ErrorNote error={capture.error} />
          {capture.data?.hops.some((hop) => hop.frame) && <Captured key={capture.data.id} capture={capture.data} />}
        </>
      )}
      <p>
        <Command line={`canopyctl packet ${group}${isExpected ? " --expected" : ""}`} />
      </p>
    </section>
  );
}

function Earlier({ captures, shown, onShow }: { captures: readonly CaptureItem[]; shown: string | undefined; onShow: (id: string) => void }) {
  return (
    <details>
      <summary>{counted(captures.length, "capture")}</summary>
      <ul className="captures" aria-label="Captures">
        {captures.map((one) => (
          <li key={one.id}>
            <button type="button" className="quiet" aria-pressed={one.id === shown} onClick={() => onShow(one.id)}>
              PSN {one.psn}
            </button>{" "}
            <Instant at={one.armedUnixNs} />, seen at {one.seen} of {counted(one.places, "place")}, by {one.by}
          </li>
        ))}
      </ul>
    </details>
  );
}

function summary(capture: Capture): string {
  const seen = capture.hops.filter((hop) => hop.frame).length;
  const differ = capture.hops.filter((hop) => hop.frame?.unexpected.length).length;
  if (seen) return `PSN ${capture.psn}: seen at ${seen} of ${counted(capture.hops.length, "place")}, ${differ ? `not as expected at ${differ}` : "everywhere as expected"}.`;
  if (capture.sent === 0) return "The source sent nothing: send data, and try again.";
  return `The packet with PSN ${capture.psn} did not pass: try again.`;
}
