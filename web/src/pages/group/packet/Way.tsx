// SPDX-License-Identifier: Apache-2.0
// The places of a packet on its way to a receiver that is chosen, one of which is chosen too.
import { useMemo, useState, type ReactNode } from "react";
import { place, receivers, way, type Placed } from "../../../lib/packet";
import { ChosenField, useFieldState } from "./chosen";

interface Props<T> {
  hops: readonly T[];
  /** The place that is chosen first. */
  first: (places: readonly T[]) => T | undefined;
  /** Rows of the table, below the places. */
  rows: (places: readonly T[]) => ReactNode;
  tools?: ReactNode;
  /** What is shown of the chosen place. */
  children: (chosen: T) => ReactNode;
}

export function Way<T extends Placed>({ hops, first, rows, tools, children }: Props<T>) {
  const hosts = useMemo(() => receivers(hops), [hops]);
  const [wanted, setWanted] = useState("");
  const host = hosts.includes(wanted) ? wanted : (hosts[0] ?? "");
  const places = useMemo(() => way(hops, host), [hops, host]);
  const [shown, setShown] = useState("");
  const chosen = places.find((hop) => place(hop) === shown) ?? first(places);
  return (
    <ChosenField value={useFieldState()}>
      <div className="tools">
        <label>
          To{" "}
          <select value={host} onChange={(event) => setWanted(event.target.value)}>
            {hosts.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        {tools}
      </div>
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
          <tbody>{rows(places)}</tbody>
        </table>
      </div>
      {chosen && children(chosen)}
    </ChosenField>
  );
}

/** Why a field changed; what it names of the standards leads there. */
export function Why({ text }: { text: string }) {
  const [before = "", number, after = ""] = text.split(/RFC (\d+)/);
  if (number === undefined) return <div className="why">{text}</div>;
  return (
    <div className="why">
      {before}
      <a href={`https://www.rfc-editor.org/rfc/rfc${number}`} target="_blank" rel="noreferrer">RFC {number}</a>
      {after}
    </div>
  );
}
