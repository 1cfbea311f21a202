// SPDX-License-Identifier: Apache-2.0
// Which values are no longer those of now.

/** An agent reports twice a second; a value that it has not reported for so long is shown as old, nanoseconds. */
const LATE = 5e9;

export const isLate = (agoNs: number): boolean => agoNs > LATE;
