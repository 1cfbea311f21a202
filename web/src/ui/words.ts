// SPDX-License-Identifier: Apache-2.0

/** Why a button cannot be used while what it has sent is not answered. */
export const WAITS = "Waits for the controller's answer.";
