// SPDX-License-Identifier: Apache-2.0
// A lane per receiver. Samples are written into the rows as they come; React makes the rows and never sees a sample.
import { Link } from "@tanstack/react-router";
import { useCallback, useMemo, useRef, type RefObject } from "react";
import { useTelemetry } from "../../api/useTelemetry";
import type { Group, GroupSample } from "../../api/types";
import { controllerNow } from "../../lib/clock";
import { age, count, rate } from "../../lib/format";
import { isLate } from "../../lib/late";
import { psn } from "../../lib/psn";
import { Race as Positions, verdict, waitedFor } from "../../lib/race";
import { Term } from "../../ui/Term";

/** Lanes that are drawn; more are counted. */
const LANES = 64;

interface Props {
  group: Group;
  /** The element that has the verdict as text. */
  line: RefObject<HTMLElement | null>;
  /** Addresses of the branches that are waited for, from the headend on; and the rate of each branch, bits per second. */
  onPath: (path: readonly string[], rates: ReadonlyMap<string, number>) => void;
}

export function Race({ group, line, onPath }: Props) {
  const { tree } = group.status;
  const receivers = useMemo(
    () => tree.flatMap((node) => node.branches.filter((b) => b.kind === "receiver").map((b) => ({ host: b.name, address: b.address, edge: node.node }))),
    [tree],
  );
  const root = tree.find((node) => !node.parent)?.node;
  const childOf = useMemo(() => new Map(tree.flatMap((node) => node.branches.filter((b) => b.kind === "node").map((b) => [b.address, b.name] as const))), [tree]);
  const positions = useMemo(() => new Positions(receivers.map((r) => r.address)), [receivers]);
  const branches = useMemo(() => tree.flatMap((node) => node.branches.map((b) => b.address)), [tree]);
  const all = useMemo(() => new Positions(branches), [branches]);
  const rows = useRef<HTMLDivElement>(null);

  const onSamples = useCallback(
    (samples: GroupSample[]) => {
      positions.update(samples);
      all.update(samples);
      const path = root ? waitedFor(root, samples, childOf) : [];
      const outstanding = positions.furthest();
      const now = controllerNow();
      for (const row of rows.current?.querySelectorAll<HTMLElement>("[data-lane]") ?? []) {
        const at = Number(row.dataset["lane"]);
        writeLane(row, positions, at, outstanding, now, path.at(-1) === receivers[at]?.address);
      }
      if (line.current) line.current.textContent = verdict(positions, receivers, path.at(-1));
      onPath(path, new Map(branches.map((address, at) => [address, all.rate[at] ?? Number.NaN])));
    },
    [positions, all, receivers, branches, root, childOf, line, onPath],
  );
  useTelemetry(group.metadata.name, onSamples);

  if (receivers.length === 0) return <p className="faint">No receiver is in the tree.</p>;
  return (
    <>
      <div role="table" aria-label="Race" className="race" ref={rows}>
        <div role="row">
          <div role="columnheader">Receiver</div>
          <div role="columnheader"><Term of="outstanding">Share acknowledged</Term></div>
          <div role="columnheader" className="right">Packets behind</div>
          <div role="columnheader" className="right wide"><Term of="AckPSN" /></div>
          <div role="columnheader" className="right wide">Rate of copies</div>
        </div>
        {receivers.slice(0, LANES).map((receiver, at) => (
          <div role="row" key={receiver.address} data-lane={at}>
            <div role="rowheader">
              <Link to="/hosts/$host" params={{ host: receiver.host }}>{receiver.host}</Link> <span className="faint">at {receiver.edge}</span>
            </div>
            <div role="cell" className="lane">
              <div className="track" aria-hidden="true">
                <div className="bar" />
              </div>
            </div>
            <div role="cell" className="right num" data-cell="behind">–</div>
            <div role="cell" className="right num wide mono" data-cell="psn">–</div>
            <div role="cell" className="right num wide" data-cell="rate">–</div>
          </div>
        ))}
      </div>
      {receivers.length > LANES && <p className="faint">{count(receivers.length - LANES)} more receivers are not drawn.</p>}
      <p className="faint">Both ends of a lane are of one sample of the receiver's edge.</p>
    </>
  );
}

function writeLane(row: HTMLElement, positions: Positions, at: number, outstanding: number, now: number, isWaitedFor: boolean): void {
  const behind = positions.behind[at] ?? Number.NaN;
  const sampledAgo = now - (positions.sampledAt[at] ?? Number.NaN);
  const set = (name: string, text: string) => {
    const cell = row.querySelector<HTMLElement>(`[data-cell="${name}"]`);
    if (cell && cell.textContent !== text) cell.textContent = text;
    cell?.classList.toggle("stale", isLate(sampledAgo));
  };
  row.querySelector<HTMLElement>(".lane")?.classList.toggle("behind", isWaitedFor);
  const bar = row.querySelector<HTMLElement>(".bar");
  if (bar) bar.style.transform = `scaleX(${positions.share(at, outstanding)})`;
  const old = isLate(sampledAgo) ? `, ${age(sampledAgo)} ago` : "";
  set("behind", Number.isNaN(behind) ? "not active" : `${count(behind)}${old}`);
  const next = positions.next[at] ?? Number.NaN;
  set("psn", Number.isNaN(next) ? "–" : psn(next - 1));
  const bits = positions.rate[at] ?? Number.NaN;
  set("rate", Number.isNaN(bits) ? "–" : rate(bits));
}
