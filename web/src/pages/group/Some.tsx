// SPDX-License-Identifier: Apache-2.0
// A table whose first rows are shown, and all of them once they are wanted.
import { useState } from "react";
import { count } from "../../lib/format";
import { Table, type Column } from "../../ui/Table";

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Rows that are shown first. */
  first: number;
  /** "nodes". */
  noun: string;
}

export function Some<T>({ label, columns, rows, rowKey, first, noun }: Props<T>) {
  const [all, setAll] = useState(false);
  return (
    <>
      <Table label={label} columns={columns} rows={all ? rows : rows.slice(0, first)} rowKey={rowKey} total={rows.length} wraps />
      {rows.length > first && (
        <p className="tools more">
          <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? `Show the first ${count(first)} only` : `Show all ${count(rows.length)} ${noun}`}
          </button>
        </p>
      )}
    </>
  );
}
