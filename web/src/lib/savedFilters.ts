// SPDX-License-Identifier: Apache-2.0
// Filters of the list of groups that this browser keeps by name.
import { byName } from "./order";

/** As in the page's URL. */
export interface GroupFilter {
  phase?: string | undefined;
  /** Name, source or label. */
  q?: string | undefined;
  /** A label selector. */
  label?: string | undefined;
  tenant?: string | undefined;
}

export interface Saved {
  name: string;
  filter: GroupFilter;
}

const KEY = "group-filters";
const FIELDS = ["phase", "q", "label", "tenant"] as const;
/** Longest name that is kept. */
const LONGEST = 40;

type Store = Pick<Storage, "getItem" | "setItem">;

/** Only what is a filter: anything may be in the store. */
function filterOf(value: unknown): GroupFilter {
  const of = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  return Object.fromEntries(FIELDS.flatMap((field) => (typeof of[field] === "string" && of[field] !== "" ? [[field, of[field]]] : [])));
}

export function savedFilters(store: Store = localStorage): Saved[] {
  try {
    const all: unknown = JSON.parse(store.getItem(KEY) ?? "{}");
    return Object.entries(typeof all === "object" && all !== null ? all : {})
      .map(([name, filter]) => ({ name, filter: filterOf(filter) }))
      .sort((a, b) => byName(a.name, b.name));
  } catch {
    return [];
  }
}

const write = (all: readonly Saved[], store: Store) => store.setItem(KEY, JSON.stringify(Object.fromEntries(all.map(({ name, filter }) => [name, filter]))));

/** Keeps a filter by its name, in place of the one that had it. */
export function saveFilter(name: string, filter: GroupFilter, store: Store = localStorage): void {
  const short = name.trim().slice(0, LONGEST);
  if (short) write([...savedFilters(store).filter((one) => one.name !== short), { name: short, filter: filterOf(filter) }], store);
}

export const forgetFilter = (name: string, store: Store = localStorage): void => write(savedFilters(store).filter((one) => one.name !== name), store);

/** The saved filter that is this one, if there is one. */
export const savedAs = (filter: GroupFilter, all: readonly Saved[]): Saved | undefined => all.find((one) => FIELDS.every((field) => (one.filter[field] ?? "") === (filter[field] ?? "")));
