// SPDX-License-Identifier: Apache-2.0
// What a search offers: names that begin with the text first, then those that have it within.

/** Something that can be opened. */
export interface Found {
  /** "node", "group", "page". */
  kind: string;
  name: string;
  /** Path in this UI. */
  to: string;
}

/** Of each kind, at most. */
const OF_KIND = 6;

/** Candidates with the text in their name, ignoring case, in their order; those that begin with it first. */
export function matches(text: string, candidates: Iterable<Found>): Found[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const first: Found[] = [];
  const rest: Found[] = [];
  for (const candidate of candidates) {
    const at = candidate.name.toLowerCase().indexOf(wanted);
    if (at === 0 && first.length < OF_KIND) first.push(candidate);
    else if (at > 0 && rest.length < OF_KIND) rest.push(candidate);
    if (first.length === OF_KIND) break;
  }
  return [...first, ...rest].slice(0, OF_KIND);
}

/** What names a device in what was typed: of a port, its node. */
export const device = (text: string): string => text.trim().split("/")[0] ?? "";

/** The page of a link direction, if the text is the name of a port: "n1/eth1". */
export function port(text: string, nodes: ReadonlySet<string>): Found[] {
  const [node = "", name = "", ...more] = text.trim().split("/");
  if (!nodes.has(node) || !name || more.length) return [];
  return [{ kind: "link", name: `${node}/${name}`, to: `/links/${encodeURIComponent(node)}/${encodeURIComponent(name)}` }];
}

/** The next choice in a list of this length; it begins anew behind its ends. */
export const next = (at: number, step: 1 | -1, length: number): number => (length ? (at + step + length) % length : 0);
