// SPDX-License-Identifier: Apache-2.0
// In which order names and rows are shown.
import { count } from "./format";

/** Names as people count them: leaf2 before leaf10. */
const names = new Intl.Collator("en", { numeric: true });

export const byName = (a: string, b: string): number => names.compare(a, b) || (a < b ? -1 : a > b ? 1 : 0);

/** What a column is sorted by: numbers by size, text as names. */
export function byValue(a: string | number, b: string | number): number {
  return typeof a === "number" && typeof b === "number" ? a - b : byName(String(a), String(b));
}

/** The items of several lists, each once, where it comes first. */
export function distinct<T>(lists: readonly (readonly T[] | undefined)[], key: (item: T) => string): T[] {
  const all = new Map<string, T>();
  for (const item of lists.flatMap((list) => list ?? [])) if (!all.has(key(item))) all.set(key(item), item);
  return [...all.values()];
}

/** The first names of many, and how many more there are: "leaf2, leaf10 and 3 more". */
export function firstOf(all: readonly string[], shown = 5): string {
  const first = [...all].sort(byName).slice(0, shown).join(", ");
  return all.length > shown ? `${first} and ${count(all.length - shown)} more` : first;
}

/** Names by their words, in the order in which the words come: "critical: n4; drained: n1, n3". */
export function wordsOf(all: readonly (readonly [word: string, name: string])[], shown = 5): string {
  const names = new Map<string, string[]>();
  for (const [word, name] of all) names.set(word, [...(names.get(word) ?? []), name]);
  return [...names].map(([word, of]) => `${word}: ${firstOf(of, shown)}`).join("; ");
}
