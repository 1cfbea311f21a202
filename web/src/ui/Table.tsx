// SPDX-License-Identifier: Apache-2.0
// A table of any length: only the rows in view are in the document. Sorting and the row count are announced.
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type PointerEvent, type ReactNode } from "react";
import { cutText } from "../lib/cut";
import { byValue } from "../lib/order";
import type { Word } from "./glossary";
import { Term, useTerm } from "./Term";

export interface Column<T> {
  name: string;
  /** CSS grid track, for example "minmax(8rem, 2fr)". */
  width: string;
  cell: (row: T) => ReactNode;
  /** What the column is sorted by; without it, it is not sortable. */
  sort?: (row: T) => string | number;
  right?: boolean;
  /** Left out on a narrow screen. */
  wide?: boolean;
  /** What the name means. */
  term?: Word;
}

interface Props<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** The order as long as no column was chosen: lower values first. Without it, that of `rows`. */
  order?: ((a: T, b: T) => number) | undefined;
  /** Long text has as many lines as it needs, and its row their height. */
  wraps?: boolean;
  /** How many there are, when not all are loaded. */
  total?: number | undefined;
  /** Called when the end is in view. */
  onEnd?: (() => void) | undefined;
}

const ROW = 32;
const NARROW = window.matchMedia("(max-width: 700px)");

function useNarrow(): boolean {
  const [narrow, setNarrow] = useState(NARROW.matches);
  useEffect(() => {
    const change = () => setNarrow(NARROW.matches);
    NARROW.addEventListener("change", change);
    return () => NARROW.removeEventListener("change", change);
  }, []);
  return narrow;
}

export function Table<T>({ label, columns, rows, rowKey, order: first, wraps = false, total, onEnd }: Props<T>) {
  const narrow = useNarrow();
  const shown = columns.filter((column) => !narrow || !column.wide);
  const [order, setOrder] = useState<{ name: string; down: boolean } | null>(null);
  const by = order && columns.find((column) => column.name === order.name)?.sort;
  const sorted = useMemo(() => {
    if (!by || !order) return first ? [...rows].sort(first) : rows;
    const sign = order.down ? -1 : 1;
    return [...rows].sort((a, b) => sign * byValue(by(a), by(b)));
  }, [rows, by, order, first]);

  const body = useRef<HTMLDivElement>(null);
  const [margin, setMargin] = useState(0);
  // The table scrolls with the page, and what is above it can grow with any render. The state changes only if the offset did.
  // eslint-disable-next-line react-hooks/exhaustive-deps
  useLayoutEffect(() => {
    const scroller = scrollerOf();
    if (!body.current || !scroller) return;
    const top = Math.round(body.current.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop);
    if (top !== margin) setMargin(top);
  });
  // Heights are of rows and not of places: rows that come in between move the others.
  const keyOf = useRef(rowKey);
  useLayoutEffect(() => {
    keyOf.current = rowKey;
  });
  const getItemKey = useCallback((at: number) => (sorted[at] === undefined ? at : keyOf.current(sorted[at])), [sorted]);
  const virtual = useVirtualizer({ count: sorted.length, getScrollElement: scrollerOf, estimateSize: () => ROW, overscan: 12, scrollMargin: margin, ...(wraps && { getItemKey }) });
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? -1;
  useEffect(() => {
    if (last >= sorted.length - 1) onEnd?.();
  }, [last, sorted.length, onEnd]);

  const template = { gridTemplateColumns: shown.map((column) => column.width).join(" ") };
  const sortBy = (name: string) => setOrder((now) => (now?.name !== name ? { name, down: false } : now.down ? null : { name, down: true }));
  return (
    <div role="table" className="table" aria-label={label} aria-rowcount={(total ?? rows.length) + 1}>
      <div role="rowgroup" className="thead">
        <div role="row" className="tr" style={template} aria-rowindex={1}>
          {shown.map((column) => (
            <div
              key={column.name}
              role="columnheader"
              className={column.right ? "td right" : "td"}
              aria-sort={order?.name !== column.name ? "none" : order.down ? "descending" : "ascending"}
            >
              {column.sort ? (
                <Sort name={column.name} term={column.term} arrow={order?.name !== column.name ? "" : order.down ? " ↓" : " ↑"} onSort={() => sortBy(column.name)} />
              ) : column.term ? (
                <Term of={column.term}>{column.name}</Term>
              ) : (
                column.name
              )}
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" ref={body} className="tbody" style={{ height: virtual.getTotalSize() }}>
        {items.map((item) => {
          const row = sorted[item.index];
          if (row === undefined) return null;
          return (
            <div
              key={rowKey(row)}
              {...(wraps && { ref: virtual.measureElement, "data-index": item.index })}
              role="row"
              className={wraps ? "tr wraps" : "tr"}
              aria-rowindex={item.index + 2}
              style={{ ...template, transform: `translateY(${item.start - margin}px)` }}
            >
              {shown.map((column) => (
                <div key={column.name} role="cell" className={column.right ? "td right" : "td"} onPointerEnter={showWhole}>
                  {column.cell(row)}
                </div>
              ))}
            </div>
          );
        })}
      </div>
    </div>
  );
}

interface SortProps {
  name: string;
  term: Word | undefined;
  arrow: string;
  onSort: () => void;
}

/** Sorts by a column, and explains its name. */
function Sort({ name, term, arrow, onSort }: SortProps) {
  const [{ onClick, ...handlers }, tip] = useTerm(term);
  return (
    <>
      <button
        type="button"
        className="sort"
        {...handlers}
        onClick={(event) => {
          onClick?.(event);
          onSort();
        }}
      >
        <span className={term && "term"}>{name}</span>
        <span aria-hidden="true">{arrow}</span>
      </button>
      {tip}
    </>
  );
}

const scrollerOf = () => document.getElementById("main");

/** What is cut in a cell is in its title from when it is pointed at: whether it is cut depends on the screen. */
function showWhole({ currentTarget: cell }: PointerEvent<HTMLElement>): void {
  const whole = cutText(cell);
  if (whole === null) cell.removeAttribute("title");
  else cell.title = whole;
}
