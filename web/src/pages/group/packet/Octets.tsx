// SPDX-License-Identifier: Apache-2.0
// Octets of a frame in lines of 16; those that changed since the place before are marked. A field is marked here and in the table at once, and
// below is what it has at this place, who changed it, and why.
import { useId, type KeyboardEvent } from "react";
import { extents, LINE, lines, next, where, type Octet } from "../../../lib/octets";
import { useChosenField } from "./chosen";

/** A field at a place. */
export interface About {
  value: string;
  /** Who changed it, and why: "n2, End.MT: TLV entry 1, r1". */
  changes: readonly string[];
}

interface Props {
  place: string;
  caption: string;
  octets: readonly Octet[];
  /** What a field has here; `undefined` if the place has no such field. */
  about: (field: string) => About | undefined;
}

export function Octets({ place, caption, octets, about }: Props) {
  const { field, point, choose } = useChosenField();
  const id = useId();
  const all = extents(octets);
  const chosen = all.find((one) => one.field === field);
  const idOf = (at: number) => `${id}-${at}`;
  const go = (event: KeyboardEvent) => {
    const to = next(all.map((one) => one.field), field, event.key);
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  };
  const label = (of: string) => {
    const extent = all.find((one) => one.field === of);
    return extent ? `${of}, ${where(extent)}` : of;
  };
  return (
    <figure className="octets" aria-label={`Octets at ${place}`}>
      <figcaption className="faint">{caption}</figcaption>
      <div
        className="dump"
        role="listbox"
        aria-label={`Fields by their octets at ${place}`}
        tabIndex={0}
        {...(chosen && { "aria-activedescendant": idOf(chosen.at) })}
        onKeyDown={go}
        onFocus={() => choose(chosen?.field ?? all[0]?.field ?? "")}
        onMouseLeave={() => point("")}
      >
        {lines(octets).map((line, i) => (
          <div key={i} role="presentation">
            <span className="faint" aria-hidden="true">{(LINE * i).toString(16).padStart(4, "0")} </span>
            {line.map((run) => (
              <span
                key={run.at}
                {...(run.isFirst ? { id: idOf(run.at), role: "option", "aria-selected": run.field === field } : { "aria-hidden": true })}
                className={run.field !== "" && run.field === field ? "run marked" : "run"}
                title={[run.field, ...(about(run.field)?.changes ?? [])].join("; ")}
                onMouseEnter={() => point(run.field)}
              >
                {run.isFirst && <span className="hidden">{label(run.field)}</span>}
                {run.octets.map(({ text, isMarked }, j) => (isMarked ? <mark key={j}>{` ${text}`}</mark> : ` ${text}`))}
              </span>
            ))}
          </div>
        ))}
      </div>
      <p className="about" role="status">{field ? <Here field={field} extent={chosen && where(chosen)} of={about(field)} place={place} /> : <span className="faint">Point at a field or at octets; by keyboard, the arrow keys go from field to field.</span>}</p>
    </figure>
  );
}

function Here({ field, extent, of, place }: { field: string; extent: string | undefined; of: About | undefined; place: string }) {
  if (!of) return <><strong>{field}</strong>{extent ? `, ${extent}` : `: not at ${place}`}</>;
  return (
    <>
      <strong>{field}</strong>, {extent ?? "behind the octets that are shown"}: <code>{of.value}</code>
      {of.changes.length > 0 ? `. Changed by ${of.changes.join("; ")}` : ". As at the place before"}
    </>
  );
}
