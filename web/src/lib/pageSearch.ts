// SPDX-License-Identifier: Apache-2.0
// What pages take of their URL's parameters. The router passes on what a page does not name, as it is in the URL: what is not valid is named, as
// undefined.

type Raw = Record<string, unknown>;

/** A parameter, if it is text. The router reads numbers and booleans as such. */
export function text<K extends string>(search: Raw, name: K): Partial<Record<K, string | undefined>> {
  const value = search[name];
  return { [name]: value === undefined || value === "" ? undefined : String(value) } as Partial<Record<K, string | undefined>>;
}

/** A parameter, if it is one of these values. */
export function oneOf<K extends string, T extends string>(search: Raw, name: K, values: readonly T[]): Partial<Record<K, T | undefined>> {
  return { [name]: values.find((value) => value === search[name]) } as Partial<Record<K, T | undefined>>;
}

/** How far back charts go, absent for the default, and at which second they are frozen. */
export const range = ({ range: far, at }: Raw): { range?: "1h" | undefined; at?: number | undefined } => ({
  range: far === "1h" ? far : undefined,
  at: Number.isSafeInteger(at) && Number(at) > 3600 ? Number(at) : undefined,
});

/** A range of seconds since the Unix epoch: both ends, or none. */
export function seconds({ from, to }: Raw): { from?: number | undefined; to?: number | undefined } {
  const both = Number.isSafeInteger(from) && Number.isSafeInteger(to);
  return { from: both ? Number(from) : undefined, to: both ? Number(to) : undefined };
}
