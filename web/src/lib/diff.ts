// SPDX-License-Identifier: Apache-2.0
// What is different between two versions of a resource, by JSON pointer (RFC 6901), as the controller has it in a dry run.
import type { FieldChange } from "../api/types";

/** All differences, in the order of the new value; each at the deepest place that both values have. */
export function differences(old: unknown, now: unknown): FieldChange[] {
  const found: FieldChange[] = [];
  compare("", old, now, found);
  return found;
}

const isMap = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const escaped = (key: string) => key.replaceAll("~", "~0").replaceAll("/", "~1");

function compare(at: string, old: unknown, now: unknown, found: FieldChange[]): void {
  if (isMap(old) && isMap(now)) {
    for (const key of Object.keys(now)) compare(`${at}/${escaped(key)}`, old[key], now[key], found);
    for (const key of Object.keys(old)) if (!(key in now)) compare(`${at}/${escaped(key)}`, old[key], undefined, found);
  } else if (Array.isArray(old) && Array.isArray(now)) {
    lists(at, old, now, found);
  } else if (JSON.stringify(old) !== JSON.stringify(now)) {
    found.push({ pointer: at, ...(old !== undefined && { old }), ...(now !== undefined && { new: now }) });
  }
}

/** Items are recognised by what names them, so that one link that is gone from a topology is one difference. */
function lists(at: string, old: readonly unknown[], now: readonly unknown[], found: FieldChange[]): void {
  const before = new Map(old.map((item, i) => [nameOf(item), { item, i }]));
  now.forEach((item, i) => {
    const name = nameOf(item);
    compare(`${at}/${i}`, before.get(name)?.item, item, found);
    before.delete(name);
  });
  for (const { item, i } of before.values()) compare(`${at}/${i}`, item, undefined, found);
}

function nameOf(item: unknown): string {
  if (!isMap(item)) return JSON.stringify(item);
  const text = (field: string) => (item[field] === undefined ? undefined : JSON.stringify(item[field]));
  const ends = text("a") && text("b") ? `${text("a")}--${text("b")}` : undefined;
  return text("name") ?? ends ?? text("host") ?? JSON.stringify(item);
}

/** A value of a field on one line. */
export const written = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));
