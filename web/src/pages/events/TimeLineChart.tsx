// SPDX-License-Identifier: Apache-2.0
// How many events there were over time. A range of it is grabbed with the pointer or with keys; the same is a table.
import { useState, type KeyboardEvent, type PointerEvent } from "react";
import { count, counted, instant } from "../../lib/format";
import { partsOf, rangeOf, stepWord, type TimeLine, type TimeRange } from "../../lib/timeLine";
import { useUtc } from "../../ui/settings";

const HEIGHT = 56;

interface Props {
  line: TimeLine;
  range: TimeRange | null;
  onRange: (range: TimeRange | null) => void;
}

/** A selection that is being made: the part where it began, and where it is now. */
type Grab = readonly [anchor: number, at: number];

export function TimeLineChart({ line, range, onRange }: Props) {
  const { counts, start, step } = line;
  const utc = useUtc();
  const [grab, setGrab] = useState<Grab | null>(null);
  const [isDragged, setDragged] = useState(false);
  const most = Math.max(...counts);
  const chosen = grab ?? (range && partsOf(line, range));
  const [low, high] = chosen ? [Math.min(...chosen), Math.max(...chosen)] : [0, -1];
  const sum = counts.slice(low, high + 1).reduce((all, one) => all + one, 0);
  const at = (part: number) => instant((start + part * step) * 1e9, utc);
  const words = chosen ? `${at(low)} to ${at(high + 1)}: ${counted(sum, "event")}` : "";

  const partAt = (event: PointerEvent) => {
    const box = event.currentTarget.getBoundingClientRect();
    return Math.min(counts.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * counts.length)));
  };
  const choose = ([a, b]: Grab) => {
    setGrab(null);
    onRange(rangeOf(line, a, b));
  };
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [anchor, now] = grab ?? (chosen ? [low, high] : [counts.length, counts.length]);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: counts.length - 1 }[event.key];
    if (to !== undefined) {
      const part = Math.min(counts.length - 1, Math.max(0, to));
      setGrab(event.shiftKey && chosen ? [anchor, part] : [part, part]);
    } else if (event.key === "Enter" && grab) choose(grab);
    else if (event.key === "Escape" && chosen) {
      setGrab(null);
      onRange(null);
    } else return;
    event.preventDefault();
  };
  return (
    <figure className="time-line">
      <svg
        role="application"
        aria-label={`Events over time, ${stepWord(step)} per bar. Arrow keys go over it, with Shift they extend a range; Enter shows its events, Escape all. ${words}`}
        tabIndex={0}
        viewBox={`0 0 ${counts.length} ${HEIGHT}`}
        preserveAspectRatio="none"
        onKeyDown={key}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          const part = partAt(event);
          setDragged(true);
          setGrab([part, part]);
        }}
        onPointerMove={(event) => {
          if (isDragged && grab) setGrab([grab[0], partAt(event)]);
        }}
        onPointerUp={() => {
          setDragged(false);
          if (grab) choose(grab);
        }}
        onPointerCancel={() => {
          setDragged(false);
          setGrab(null);
        }}
      >
        <rect className="all" x={0} y={0} width={counts.length} height={HEIGHT} />
        {high >= low && <rect className="chosen" x={low} y={0} width={high - low + 1} height={HEIGHT} />}
        {counts.map((one, part) => one > 0 && <rect key={start + part * step} className="bar" x={part + 0.1} width={0.8} y={HEIGHT - height(one, most)} height={height(one, most)} />)}
      </svg>
      <figcaption className="faint">
        <span>{at(0)}</span>
        <span role="status">{words || `${stepWord(step)} per bar, at most ${counted(most, "event")}; drag over it, or use arrow keys, for a range`}</span>
        <span>{at(counts.length)}</span>
      </figcaption>
      <Counts line={line} onRange={onRange} />
    </figure>
  );
}

/** One event is seen beside thousands. */
const height = (one: number, most: number): number => Math.max(3, (one / most) * (HEIGHT - 4));

/** The parts with events, the newest first. */
function Counts({ line, onRange }: Pick<Props, "line" | "onRange">) {
  const utc = useUtc();
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Values<span className="hidden"> of events over time</span></summary>
      {isOpen && (
        <table className="plain" aria-label={`Events per ${stepWord(line.step)}`}>
          <thead>
            <tr><th scope="col">From</th><th scope="col" className="right">Events</th><th scope="col"><span className="hidden">Action</span></th></tr>
          </thead>
          <tbody>
            {line.counts
              .map((one, part) => [one, part] as const)
              .filter(([one]) => one > 0)
              .reverse()
              .map(([one, part]) => (
                <tr key={line.start + part * line.step}>
                  <th scope="row" className="num">{instant((line.start + part * line.step) * 1e9, utc)}</th>
                  <td className="right num">{count(one)}</td>
                  <td><button type="button" className="quiet" onClick={() => onRange(rangeOf(line, part, part))}>Show these<span className="hidden"> from {instant((line.start + part * line.step) * 1e9, utc)}</span></button></td>
                </tr>
              ))}
          </tbody>
        </table>
      )}
    </details>
  );
}
