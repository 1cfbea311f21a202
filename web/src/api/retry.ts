// SPDX-License-Identifier: Apache-2.0
// Which reads that failed are tried again, and when.
import { ApiError } from "./client";

/** Whether the controller has refused a read: the same request is refused again. Not so 429, where the caller has its share for now. */
export const isRefused = (error: unknown): boolean => error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;

/** Time before a read is tried again if the controller named none, ms. */
const PAUSE = 1000;
/** Between a loader and the page that it reads for, at most, ms. */
const JUST_NOW = 1000;

interface Failed {
  state: { error: unknown; errorUpdatedAt: number };
}

/** For all reads: each is tried once more, after the time that the controller named. What was refused is not: neither by itself nor for the page whose loader was refused just now. */
export const RETRY = {
  retry: (failures: number, error: unknown) => failures < 1 && !isRefused(error),
  retryDelay: (_: number, error: unknown) => (error instanceof ApiError && error.retryAfter) || PAUSE,
  retryOnMount: ({ state: { error, errorUpdatedAt } }: Failed) => !isRefused(error) || Date.now() - errorUpdatedAt > JUST_NOW,
};
