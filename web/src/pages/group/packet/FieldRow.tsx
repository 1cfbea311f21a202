// SPDX-License-Identifier: Apache-2.0
// A row of the table: a field at every place. It is marked together with its octets; arrow keys go from field to field.
import type { KeyboardEvent, ReactNode } from "react";
import { next } from "../../../lib/octets";
import { useChosenField } from "./chosen";

/** `isTab`: the row that the tabulator key comes to while no field is chosen. */
export function FieldRow({ name, isTab, children }: { name: string; isTab: boolean; children: ReactNode }) {
  const { field, point, choose } = useChosenField();
  const go = (event: KeyboardEvent<HTMLButtonElement>) => {
    const buttons = [...(event.currentTarget.closest("tbody")?.querySelectorAll<HTMLButtonElement>("th button") ?? [])];
    const to = next(buttons.map((button) => button.textContent), name, event.key);
    if (to === undefined) return;
    event.preventDefault();
    buttons.find((button) => button.textContent === to)?.focus();
  };
  return (
    <tr className={field === name ? "marked" : undefined} onMouseEnter={() => point(name)} onMouseLeave={() => point("")}>
      <th scope="row">
        <button type="button" className="quiet" aria-pressed={field === name} tabIndex={field === name || isTab ? 0 : -1} onFocus={() => choose(name)} onClick={() => choose(name)} onKeyDown={go}>
          {name}
        </button>
      </th>
      {children}
    </tr>
  );
}
