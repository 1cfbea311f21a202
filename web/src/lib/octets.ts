// SPDX-License-Identifier: Apache-2.0
// The octets of a frame as a dump: lines of runs of one field each, and the fields one after the other.

/** An octet of a dump: two digits, whether it is marked, and the field that it belongs to; without one, an empty name. */
export interface Octet {
  text: string;
  isMarked: boolean;
  field: string;
}

/** Octets of one field that follow each other in a line. */
export interface Run {
  field: string;
  /** Offset of the first one in the frame. */
  at: number;
  octets: Octet[];
  /** Nothing of the field is before this run. */
  isFirst: boolean;
}

/** A field in the dump: where its octets are. */
export interface Extent {
  field: string;
  at: number;
  octets: number;
}

export const LINE = 16;

/** Lines of `LINE` octets. */
export function lines(octets: readonly Octet[]): Run[][] {
  const all: Run[][] = [];
  const begun = new Set<string>();
  octets.forEach((octet, at) => {
    if (at % LINE === 0) all.push([]);
    const line = all[all.length - 1] ?? [];
    const last = line.at(-1);
    if (last?.field === octet.field) {
      last.octets.push(octet);
    } else {
      line.push({ field: octet.field, at, octets: [octet], isFirst: octet.field !== "" && !begun.has(octet.field) });
      begun.add(octet.field);
    }
  });
  return all;
}

/** The fields that the dump has octets of, in their order. */
export function extents(octets: readonly Octet[]): Extent[] {
  const all = new Map<string, Extent>();
  octets.forEach(({ field }, at) => {
    const known = all.get(field);
    if (known) known.octets = at + 1 - known.at;
    else if (field) all.set(field, { field, at, octets: 1 });
  });
  return [...all.values()];
}

/** The field to go to from `field` by a key; `undefined` if the key is none of these, or there is nothing to go to. */
export function next(fields: readonly string[], field: string, key: string): string | undefined {
  const at = fields.indexOf(field);
  switch (key) {
    case "ArrowDown":
    case "ArrowRight":
      return fields[at + 1];
    case "ArrowUp":
    case "ArrowLeft":
      return at < 0 ? fields.at(-1) : fields[at - 1];
    case "Home":
      return fields[0];
    case "End":
      return fields.at(-1);
    default:
      return undefined;
  }
}

/** "octet 21", "octets 22 to 37". */
export const where = ({ at, octets }: Extent): string => (octets === 1 ? `octet ${at}` : `octets ${at} to ${at + octets - 1}`);
