// SPDX-License-Identifier: Apache-2.0
// Octets of a frame in lines of 16; those that changed since the place before are marked, each has its field as title.
import type { Octet } from "../../../lib/expected";

export function Octets({ place, caption, octets }: { place: string; caption: string; octets: readonly Octet[] }) {
  const lines = Array.from({ length: Math.ceil(octets.length / 16) }, (_, i) => octets.slice(16 * i, 16 * i + 16));
  return (
    <figure className="octets" aria-label={`Octets at ${place}`}>
      <figcaption className="faint">{caption}</figcaption>
      <pre>
        {lines.map((line, i) => (
          <div key={i}>
            <span className="faint">{(16 * i).toString(16).padStart(4, "0")} </span>
            {line.map(({ text, isMarked, field }, j) => (
              <span key={j} title={field}>
                {isMarked ? <mark>{` ${text}`}</mark> : ` ${text}`}
              </span>
            ))}
          </div>
        ))}
      </pre>
    </figure>
  );
}
