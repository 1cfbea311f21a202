// SPDX-License-Identifier: Apache-2.0
// A lane per receiver; of many, for those that are furthest behind. Samples are written into the rows as they come; React makes the rows of the
// receivers that have one, which change seldom, and never sees a sample.
import { Link } from "@tanstack/react-router";
import { useCallback, useEffect, useLayoutEffect, useRef, useSyncExternalStore, type RefObject } from "react";
import { age, count, rate } from "../../lib/format";
import type { GroupFlow } from "../../lib/groupFlow";
import { others } from "../../lib/lanes";
import { isLate } from "../../lib/late";
import { inWords } from "../../lib/oldest";
import { psn } from "../../lib/psn";
import { verdict } from "../../lib/race";
import { Term } from "../../ui/Term";

interface Props {
  flow: GroupFlow;
  /** The element that has the verdict as text. */
  line: RefObject<HTMLElement | null>;
}

export function Race({ flow, line }: Props) {
  const { receivers } = flow;
  const rows = useRef<HTMLDivElement>(null);
  const rest = useRef<HTMLParagraphElement>(null);
  const lanes = useSyncExternalStore(flow.subscribe, () => flow.lanes);
  const write = useCallback(() => {
    const { race, path, now } = flow;
    const outstanding = race.furthest();
    for (const row of rows.current?.querySelectorAll<HTMLElement>("[data-lane]") ?? []) {
      const at = Number(row.dataset["lane"]);
      writeLane(row, flow, at, outstanding, now, path.at(-1) === receivers[at]?.address);
    }
    if (rest.current) rest.current.textContent = others(flow.lanes, race.behind);
    if (line.current) line.current.textContent = verdict(race, receivers, path.at(-1), (at) => flow.about(at));
  }, [flow, receivers, line]);
  useEffect(() => flow.subscribe(write), [flow, write]);
  // Rows of other receivers are written before they are seen.
  useLayoutEffect(() => {
    if (!Number.isNaN(flow.now)) write();
  }, [flow, lanes, write]);

  if (receivers.length === 0) return <p className="faint">No receiver is in the tree.</p>;
  return (
    <>
      <div role="table" aria-label="Race" className="race" ref={rows}>
        <div role="row">
          <div role="columnheader">Receiver</div>
          <div role="columnheader"><Term of="outstanding">Acknowledged</Term></div>
          <div role="columnheader" className="right">Packets behind</div>
          <div role="columnheader" className="right wide">Oldest unacknowledged</div>
          <div role="columnheader" className="right wide"><Term of="AckPSN" /></div>
          <div role="columnheader" className="right wide">Rate of copies</div>
        </div>
        {lanes.map((at) => (
          <div role="row" key={at} data-lane={at}>
            <div role="rowheader">
              <Link to="/hosts/$host" params={{ host: receivers[at]?.host ?? "" }}>{receivers[at]?.host}</Link> <span className="faint">at {receivers[at]?.edge}</span>
            </div>
            <div role="cell" className="lane">
              <div className="track" aria-hidden="true">
                <div className="bar" />
              </div>
            </div>
            <div role="cell" className="right num" data-cell="behind">–</div>
            <div role="cell" className="right num wide" data-cell="oldest">–</div>
            <div role="cell" className="right num wide mono" data-cell="psn">–</div>
            <div role="cell" className="right num wide" data-cell="rate">–</div>
          </div>
        ))}
      </div>
      {lanes.length < receivers.length && <p ref={rest} className="num" />}
      <p className="faint">
        {lanes.length < receivers.length && `Of ${count(receivers.length)} receivers those ${lanes.length} that are furthest behind. `}
        Both ends of a lane are of one sample of the receiver's edge; the oldest unacknowledged packet is known to a second, the time between two samples.
      </p>
    </>
  );
}

function writeLane(row: HTMLElement, flow: GroupFlow, at: number, outstanding: number, now: number, isWaitedFor: boolean): void {
  const { race: positions } = flow;
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
  const oldest = flow.oldest(at);
  set("oldest", oldest === undefined ? "–" : inWords(oldest));
  const next = positions.next[at] ?? Number.NaN;
  set("psn", Number.isNaN(next) ? "–" : psn(next - 1));
  const bits = positions.rate[at] ?? Number.NaN;
  set("rate", Number.isNaN(bits) ? "–" : rate(bits));
}
