// SPDX-License-Identifier: Apache-2.0
// Where something that scrolls has more than is seen.

export type Sides = "none" | "left" | "right" | "both";

/** A pixel less is none: widths are rounded. */
const LEAST = 2;

export function sidesWithMore({ scrollLeft, scrollWidth, clientWidth }: Pick<Element, "scrollLeft" | "scrollWidth" | "clientWidth">): Sides {
  const [left, right] = [scrollLeft >= LEAST, scrollWidth - clientWidth - scrollLeft >= LEAST];
  return left && right ? "both" : left ? "left" : right ? "right" : "none";
}
