// SPDX-License-Identifier: Apache-2.0
// Fields of a resource, before and after.
import type { FieldChange } from "../api/types";
import { written } from "../lib/diff";
import { counted } from "../lib/format";

const SHOWN = 100;

export function Diff({ changes, none = "Nothing is different." }: { changes: readonly FieldChange[]; none?: string }) {
  if (changes.length === 0) return <p className="faint">{none}</p>;
  return (
    <div className="scroll">
      <table className="plain diff" aria-label="Changes">
        <thead>
          <tr>
            <th>Field</th>
            <th>Old</th>
            <th>New</th>
          </tr>
        </thead>
        <tbody>
          {changes.slice(0, SHOWN).map(({ pointer, old, new: now }) => (
            <tr key={pointer}>
              <td><code>{pointer || "the whole resource"}</code></td>
              <td>{old === undefined ? <span className="faint">nothing</span> : <code>{written(old)}</code>}</td>
              <td>{now === undefined ? <span className="faint">nothing</span> : <code>{written(now)}</code>}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {changes.length > SHOWN && <p className="faint">and {counted(changes.length - SHOWN, "field")} more</p>}
    </div>
  );
}
