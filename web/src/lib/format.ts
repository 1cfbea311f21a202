// SPDX-License-Identifier: Apache-2.0
// Numbers in the units that people use. Every function takes base units: octets, bits per second, nanoseconds.

const THIN = "\u202f";

/** Three significant digits, without trailing zeros: 41.2, 3.1, 950. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "–";
  const places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(places)));
}

function scaled(value: number, step: number, units: readonly string[]): string {
  let at = 0;
  let left = value;
  // A value that would be written as 1000 belongs to the next unit.
  while (at < units.length - 1 && Number(digits(Math.abs(left))) >= step) {
    left /= step;
    at += 1;
  }
  return `${digits(left)} ${units[at]}`;
}

/** Octets: 64 kB, 6.25 MB. */
export function bytes(octets: number): string {
  return scaled(octets, 1000, ["B", "kB", "MB", "GB", "TB", "PB"]);
}

/** Bits per second: 41.2 Gbit/s. */
export function rate(bitsPerSecond: number): string {
  return scaled(bitsPerSecond, 1000, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);
}

/** How often something happens: 950 /s, 1.2 k/s. */
export function perSecond(value: number): string {
  return scaled(value, 1000, ["/s", "k/s", "M/s", "G/s"]);
}

/** A number of things where there is little room: 950, 1.2 k. */
export function short(value: number): string {
  return scaled(value, 1000, ["", "k", "M", "G", "T"]).trimEnd();
}

/** A short span: 21.5 µs, 3.1 ms, 12 s. */
export function span(nanoseconds: number): string {
  return nanoseconds < 60e9 ? scaled(nanoseconds, 1000, ["ns", "µs", "ms", "s"]) : age(nanoseconds);
}

/** How long something lasts, for people: 12 s, 3 min, 2 h 5 min, 4 d. */
export function age(nanoseconds: number): string {
  const seconds = Math.max(0, Math.floor(nanoseconds / 1e9));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  const days = Math.floor(hours / 24);
  return hours % 24 && days < 10 ? `${days} d ${hours % 24} h` : `${days} d`;
}

/** A count with thin spaces between thousands: 1 000 000. */
export function count(value: number): string {
  const [whole = "", part] = String(value).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  return part === undefined ? grouped : `${grouped}.${part}`;
}

/** A count with its noun: 1 group, 2 groups. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** A share of a thousand as a percentage. */
export function permille(value: number): string {
  return `${digits(value / 10)} %`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** Time of day: 03:12:07. */
export function clockTime(unixSeconds: number, utc: boolean): string {
  const at = new Date(unixSeconds * 1000);
  if (Number.isNaN(at.getTime())) return "–";
  const parts = utc ? [at.getUTCHours(), at.getUTCMinutes(), at.getUTCSeconds()] : [at.getHours(), at.getMinutes(), at.getSeconds()];
  return parts.map(two).join(":");
}

/** Date and time with the zone: 2026-11-25 03:12:07 UTC. */
export function instant(unixNanoseconds: number, utc: boolean): string {
  const at = new Date(unixNanoseconds / 1e6);
  if (Number.isNaN(at.getTime())) return "–";
  if (utc) return `${at.toISOString().slice(0, 19).replace("T", " ")} UTC`;
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const offset = -at.getTimezoneOffset();
  const zone = `UTC${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())} ${zone}`;
}
