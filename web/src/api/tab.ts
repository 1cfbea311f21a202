// SPDX-License-Identifier: Apache-2.0
// What this tab keeps until it is closed: the commit that its writes are a part of.
import { useSyncExternalStore } from "react";

const COMMIT = "commit";
const listeners = new Set<() => void>();
const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

/** Id of the pending commit that this tab's writes are a part of. */
export const ownCommit = (): string | null => sessionStorage.getItem(COMMIT);
export const useOwnCommit = (): string | null => useSyncExternalStore(subscribe, ownCommit);

export function setOwnCommit(id: string | null): void {
  if (id === null) sessionStorage.removeItem(COMMIT);
  else sessionStorage.setItem(COMMIT, id);
  for (const listener of listeners) listener();
}

/** Adds what a write of this tab needs besides its body. Acts on a commit name it themselves. */
export function prepared(request: Request): Request {
  const commit = ownCommit();
  const isWrite = request.method !== "GET" && request.method !== "HEAD";
  const isAct = new URL(request.url).pathname.startsWith("/api/v1/commit");
  if (commit && isWrite && !isAct) request.headers.set("Canopy-Commit", commit);
  return request;
}
