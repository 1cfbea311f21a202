// SPDX-License-Identifier: Apache-2.0
// What a search offers: names that begin with the text first, then those that have it within; and what can be done, by the words of its name.
import type { Place } from "./place";

/** What can be done from anywhere. */
export type Action =
  | { do: "createGroup" }
  | { do: "declareTopology" }
  | { do: "drainNode"; node: string }
  | { do: "putBack"; drain: string }
  | { do: "signOut" }
  | { do: "theme"; theme: "system" | "dark" | "light" }
  | { do: "utc"; utc: boolean };

/** Something that can be opened or done. */
export interface Found {
  /** "node", "group", "page", "action". */
  kind: string;
  name: string;
  /** What else it is called; an action is found by it, too. */
  also?: string;
  /** The same name may be there several times. */
  id?: string;
  target: Place | Action;
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

/** Actions that have every word of the text, in any order: "drain n2" is "Drain node n2". One letter is no word yet. */
export function acts(text: string, candidates: readonly Found[]): Found[] {
  const words = text.trim().toLowerCase().split(/\s+/);
  if (words.join("").length < 2) return [];
  return candidates.filter(({ name, also = "" }) => words.every((word) => `${name} ${also}`.toLowerCase().includes(word))).slice(0, OF_KIND);
}

const VERB = /^(?:drain|undrain|put\s+back)\s+(?:(?:node|link)\s+)?/i;

/** What an action is to be done to: "n2" of "drain node n2"; the text itself, if it begins with no verb. */
export const argument = (text: string): string => text.trimStart().replace(VERB, "").trim();

/** What names a device in what was typed: of a port, its node. */
export const device = (text: string): string => text.trim().split("/")[0] ?? "";

/** The page of a link direction, if the text is the name of a port: "n1/eth1". */
export function port(text: string, nodes: ReadonlySet<string>): Found[] {
  const [node = "", name = "", ...more] = text.trim().split("/");
  if (!nodes.has(node) || !name || more.length) return [];
  return [{ kind: "link", name: `${node}/${name}`, target: { to: "/links/$node/$port", params: { node, port: name } } }];
}

/** The next choice in a list of this length; it begins anew behind its ends. */
export const next = (at: number, step: 1 | -1, length: number): number => (length ? (at + step + length) % length : 0);
