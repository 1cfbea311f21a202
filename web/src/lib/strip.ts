// SPDX-License-Identifier: Apache-2.0
// For which receivers the source of a group waited, by second.

/** From this share on, data waits for one receiver. */
const HOLDS = 0.9;

/** A receiver's shares by second, 0 to 1; `null` where nothing was acknowledged. */
export type Shares = readonly (number | null)[];

/** For how many seconds up to now the source has waited for this receiver nearly alone. The last second is not over. */
export function heldFor(shares: Shares): number {
  let at = shares.length - 1;
  if (shares[at] === null) at -= 1;
  let seconds = 0;
  for (; at >= 0; at -= 1, seconds += 1) {
    const share = shares[at];
    if (share === null || share === undefined || share < HOLDS) break;
  }
  return seconds;
}

/** A strip in words: "r3: 41 % of the last 5 min, 90 % and more for 12 s". Without shares, others were waited for more. */
export function inWords(host: string, shares: Shares | undefined): string {
  if (!shares) return `${host}: not among the receivers that were waited for most in the last minute`;
  const known = shares.filter((share) => share !== null);
  if (known.length === 0) return `${host}: nothing was acknowledged in the last 5 min`;
  const mean = known.reduce((sum, share) => sum + share, 0) / known.length;
  const held = heldFor(shares);
  return `${host}: ${Math.round(mean * 100)} % of the last 5 min${held > 0 ? `, 90 % and more for ${held} s` : ""}`;
}
