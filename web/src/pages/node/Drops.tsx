// SPDX-License-Identifier: Apache-2.0
// What a node dropped before it knew the group, by reason: in all, and per second between its last two samples.
import { useState } from "react";
import type { NodeSample } from "../../api/types";
import { dropRows } from "../../lib/drops";
import { count, perSecond } from "../../lib/format";

export function Drops({ sample }: { sample: NodeSample }) {
  const [[now, before], setSamples] = useState<readonly [NodeSample, NodeSample | undefined]>([sample, undefined]);
  // One that was read twice is no second one.
  if (sample !== now && sample.timeUnixNs !== now.timeUnixNs) setSamples([sample, now]);
  const rows = dropRows(now, before);
  if (rows.length === 0) return <p className="faint">{sample.timeUnixNs ? "None." : "The node has sent no sample."}</p>;
  return (
    <div className="scroll">
      <table className="plain" aria-label="Drops by reason">
        <thead>
          <tr><th scope="col">Reason</th><th scope="col">Port</th><th scope="col" className="right">Now</th><th scope="col" className="right">Packets</th></tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.name} ${row.port ?? ""}`}>
              <td><code>{row.name}</code></td>
              <td>{row.port ?? "–"}</td>
              <td className="right num">{row.perSecond === null ? "–" : perSecond(row.perSecond)}</td>
              <td className="right num">{count(row.packets)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
