// SPDX-License-Identifier: Apache-2.0
import { beforeEach, expect, it, vi } from "vitest";
import { ownCommit, prepared, setOwnCommit } from "./tab";

beforeEach(() => {
  const kept = new Map<string, string>();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => kept.set(key, value),
    removeItem: (key: string) => kept.delete(key),
  });
});

const commitOf = (path: string, method: string) => prepared(new Request(`http://localhost${path}`, { method })).headers.get("Canopy-Commit");

// Catches a write that is refused although this tab's commit is the pending one, and an act on a commit that names another.
it("writes of this tab are a part of its commit", () => {
  expect(commitOf("/api/v1/groups/g", "PUT")).toBeNull();
  setOwnCommit("0123");
  expect(commitOf("/api/v1/groups/g", "PUT")).toBe("0123");
  expect(commitOf("/api/v1/drains/d", "DELETE")).toBe("0123");
  expect(commitOf("/api/v1/groups/g", "GET")).toBeNull();
  expect(commitOf("/api/v1/commit/confirm", "POST")).toBeNull();
  setOwnCommit(null);
  expect(ownCommit()).toBeNull();
  expect(commitOf("/api/v1/groups/g", "PUT")).toBeNull();
});
