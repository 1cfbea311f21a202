// SPDX-License-Identifier: Apache-2.0
// What is known of the controller's store, in words.
import type { StoreStatus } from "../api/types";
import { counted, span } from "./format";

/** How long commits took until they were durable: "half within 1.1 ms, 99 % within 8.4 ms, of the last 31 commits". */
export function commitTimes({ measuredCommits, commitP50Ns: half, commitP99Ns: most }: StoreStatus): string {
  if (typeof half !== "number" || typeof most !== "number") return "no commit since the start";
  return `half within ${span(half)}, 99\u00a0% within ${span(most)}, of the last ${counted(measuredCommits, "commit")}`;
}

/** How far the last backup is behind the store: ", 3 commits behind". */
export function unsaved({ revision, backupRevision }: StoreStatus): string {
  const behind = revision - (backupRevision ?? 0);
  return behind > 0 ? `, ${counted(behind, "commit")} behind` : ", with every commit";
}
