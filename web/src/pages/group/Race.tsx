// SPDX-License-Identifier: Apache-2.0
// A lane per receiver. Samples are written into the rows as they come; React makes the rows and never sees a sample.
import { Link } from "@tanstack/react-router";
import { useEffect, useRef, type RefObject } from "react";
import { age, count, rate } from "../../lib/format";
import { OLD, type GroupFlow } from "../../lib/groupFlow";
import { psn } from "../../lib/psn";
import { verdict, type Race as Positions } from "../../lib/race";

/** Lanes that are drawn; more are counted. */
const LANES = 64;

interface Props {
  flow: GroupFlow;
  /** The element that has the verdict as text. */
  line: RefObject<HTMLElement | null>;
}

export function Race({ flow, line }: Props) {
  const { receivers } = flow;
  const rows = useRef<HTMLDivElement>(null);
  useEffect(
    () =>
      flow.subscribe(() => {
        const { race, path, now } = flow;
        const outstanding = race.furthest();
        for (const row of rows.current?.querySelectorAll<HTMLElement>("[data-lane]") ?? []) {
          const at = Number(row.dataset["lane"]);
          writeLane(row, race, at, outstanding, now, path.at(-1) === receivers[at]?.address);
        }
        if (line.current) line.current.textContent = verdict(race, receivers, path.at(-1));
      }),
    [flow, receivers, line],
  );

  if (receivers.length === 0) return <p className="faint">No receiver is in the tree.</p>;
  return (
    <>
      <div role="table" aria-label="Race" className="race" ref={rows}>
        <div role="row">
          <div role="columnheader">Receiver</div>
          <div role="columnheader">Share acknowledged</div>
          <div role="columnheader" className="right">Packets behind</div>
          <div role="columnheader" className="right wide">AckPSN</div>
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
    cell?.classList.toggle("stale", sampledAgo > OLD);
  };
  row.querySelector<HTMLElement>(".lane")?.classList.toggle("behind", isWaitedFor);
  const bar = row.querySelector<HTMLElement>(".bar");
  if (bar) bar.style.transform = `scaleX(${positions.share(at, outstanding)})`;
  const old = sampledAgo > OLD ? `, ${age(sampledAgo)} ago` : "";
  set("behind", Number.isNaN(behind) ? "not active" : `${count(behind)}${old}`);
  const next = positions.next[at] ?? Number.NaN;
  set("psn", Number.isNaN(next) ? "–" : psn(next - 1));
  const bits = positions.rate[at] ?? Number.NaN;
  set("rate", Number.isNaN(bits) ? "–" : rate(bits));
}
