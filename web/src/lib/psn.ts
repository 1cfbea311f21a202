// SPDX-License-Identifier: Apache-2.0
// Packet Sequence Numbers: 24 bits, compared on a circle (IBTA, section 9.7.2).

const MODULUS = 1 << 24;

/** The PSN of an unwrapped PSN. */
export function wrap(unwrapped: number): number {
  return ((unwrapped % MODULUS) + MODULUS) % MODULUS;
}

/** `to - from` on the circle, in -2^23..2^23. */
export function distance(from: number, to: number): number {
  const ahead = wrap(to - from);
  return ahead < MODULUS / 2 ? ahead : ahead - MODULUS;
}

/** As in captures: 0x18338c. */
export function psn(value: number): string {
  return `0x${wrap(value).toString(16).padStart(6, "0")}`;
}
