// SPDX-License-Identifier: Apache-2.0
// A captured packet on its way to one receiver: the places that it passes, and the fields of each frame with their octets.
import type { CaptureChange, CaptureFrame, CaptureHop } from "../api/types";

/** A place of a captured or expected packet. */
export type Placed = Pick<CaptureHop, "node" | "port" | "direction" | "peer">;

/** Hosts that get a copy, in the order of the tree. */
export function receivers(hops: readonly Placed[]): string[] {
  const nodes = new Set(hops.map((hop) => hop.node));
  const peers = hops.filter((hop) => hop.direction === "out" && hop.peer && !nodes.has(hop.peer)).map((hop) => hop.peer ?? "");
  return [...new Set(peers)];
}

/** The places from the source to this host, in the order in which the packet passes them. */
export function way<T extends Placed>(hops: readonly T[], host: string): T[] {
  const places: T[] = [];
  let to = host;
  // A tree has no circle; an answer might.
  for (let left = hops.length; left > 0; left -= 1) {
    const out = hops.find((hop) => hop.direction === "out" && hop.peer === to);
    const arrival = out && hops.find((hop) => hop.direction === "in" && hop.node === out.node);
    if (!out || !arrival) break;
    places.unshift(arrival, out);
    to = out.node;
  }
  return places;
}

/** "n4/eth1 in". */
export const place = (hop: Placed): string => `${hop.node}/${hop.port} ${hop.direction}`;

/** A field of a frame: where its octets are, and what it reads as. */
export interface Field {
  name: string;
  at: number;
  octets: number;
  value: string;
}

const ETHERNET = 14;
const IPV6 = 40;
const UDP = 8;
const SRH = 43;

/** Octets of hexadecimal digits. */
export const octets = (digits: string): number[] => (digits.match(/../g) ?? []).map((two) => Number.parseInt(two, 16));

const hex = (bytes: readonly number[]): string => bytes.map((b) => b.toString(16).padStart(2, "0")).join("");
const number = (bytes: readonly number[]): number => bytes.reduce((all, b) => all * 256 + b, 0);
const decimal = (bytes: readonly number[]): string => String(number(bytes));
const mac = (bytes: readonly number[]): string => bytes.map((b) => hex([b])).join(":");
const prefixed = (bytes: readonly number[]): string => `0x${hex(bytes)}`;

/** As RFC 5952 writes it: the first longest run of at least two zero groups is left out. */
export function ipv6(bytes: readonly number[]): string {
  const groups = Array.from({ length: 8 }, (_, i) => number(bytes.slice(2 * i, 2 * i + 2)).toString(16));
  let best = { at: -1, length: 1 };
  for (let i = 0; i < 8; i += 1) {
    let length = 0;
    while (groups[i + length] === "0") length += 1;
    if (length > best.length) best = { at: i, length };
  }
  if (best.at < 0) return groups.join(":");
  return `${groups.slice(0, best.at).join(":")}::${groups.slice(best.at + best.length).join(":")}`;
}

type Read = (bytes: readonly number[]) => string;

/** Name, offset in its header, octets and form of the fields of an IPv6 header. */
const IPV6_FIELDS: readonly [string, number, number, Read][] = [
  ["Traffic Class, Flow Label", 0, 4, (b) => `0x${(((b[0] ?? 0) & 15) * 16 + ((b[1] ?? 0) >> 4)).toString(16).padStart(2, "0")}, 0x${hex([(b[1] ?? 0) & 15, ...b.slice(2)]).slice(1)}`],
  ["Payload Length", 4, 2, decimal],
  ["Next Header", 6, 1, decimal],
  ["Hop Limit", 7, 1, decimal],
  ["Source Address", 8, 16, ipv6],
  ["Destination Address", 24, 16, ipv6],
];
const BTH_FIELDS: readonly [string, number, number, Read][] = [
  ["UDP ports", 0, 4, (b) => `${decimal(b.slice(0, 2))} to ${decimal(b.slice(2))}`],
  ["UDP length, checksum", 4, 4, (b) => `${decimal(b.slice(0, 2))}, ${prefixed(b.slice(2))}`],
  ["OpCode", UDP, 1, prefixed],
  ["SE, M, Pad, TVer", UDP + 1, 1, prefixed],
  ["P_Key", UDP + 2, 2, prefixed],
  ["FECN, BECN", UDP + 4, 1, prefixed],
  ["DestQP", UDP + 5, 3, prefixed],
  ["AckReq", UDP + 8, 1, prefixed],
  ["PSN", UDP + 9, 3, decimal],
];

/** The fields of a frame as far as it was captured, in their order. */
export function fields(frame: CaptureFrame): Field[] {
  const head = octets(frame.head);
  // The innermost headers are there also where the first octets end before them.
  const inner = octets(frame.inner);
  const byte = (at: number): number | undefined => (at >= frame.innerAt && at < frame.innerAt + inner.length ? inner[at - frame.innerAt] : head[at]);
  const found: Field[] = [];
  const add = (prefix: string, base: number, all: readonly [string, number, number, Read][]) => {
    for (const [name, offset, count, read] of all) {
      const bytes = Array.from({ length: count }, (_, i) => byte(base + offset + i));
      if (bytes.every((b) => b !== undefined)) found.push({ name: prefix + name, at: base + offset, octets: count, value: read(bytes) });
    }
  };
  add("", 0, [["Link-layer addresses", 0, 12, (b) => `${mac(b.slice(6))} to ${mac(b.slice(0, 6))}`]]);
  if (frame.outer) {
    add("Outer ", ETHERNET, IPV6_FIELDS);
    const srh = ETHERNET + IPV6;
    const length = Math.min(frame.innerAt, head.length) - srh;
    if (head[ETHERNET + 6] === SRH && length >= 8) {
      add("SRH ", srh, [
        ["Segments Left", 3, 1, decimal],
        ["segments and TLVs", 8, length - 8, (b) => `${b.length} octets`],
      ]);
    }
  }
  add("", frame.innerAt, IPV6_FIELDS);
  add("", frame.innerAt + IPV6, BTH_FIELDS);
  return found;
}

/** Who changed the octets of a field, and why; of each change once. */
export function reasons(field: Field, changes: readonly CaptureChange[]): string[] {
  const touches = (change: CaptureChange): boolean => change.at < field.at + field.octets && field.at < change.at + Math.max(change.after.length / 2, 1);
  return [...new Set(changes.filter(touches).map((change) => change.why))];
}

/** Names of the fields of these frames, in the order of the longest frame. */
export function names(frames: readonly (readonly Field[])[]): string[] {
  const all: string[] = [];
  for (const frame of frames) {
    let at = 0;
    for (const { name } of frame) {
      const known = all.indexOf(name);
      if (known < 0) all.splice(at, 0, name);
      at = (known < 0 ? at : known) + 1;
    }
  }
  return all;
}
