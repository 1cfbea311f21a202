// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { commitTimes, unsaved } from "./store";

const store = { engine: "sled", revision: 7, measuredCommits: 0 };

it("has how long commits took, of how many", () => {
  expect(commitTimes({ ...store, measuredCommits: 31, commitP50Ns: 1_100_000, commitP99Ns: 8_400_000 })).toBe("half within 1.1 ms, 99\u00a0% within 8.4 ms, of the last 31 commits");
  expect(commitTimes({ ...store, measuredCommits: 1, commitP50Ns: 900, commitP99Ns: 900 })).toBe("half within 900 ns, 99\u00a0% within 900 ns, of the last 1 commit");
});

// Catches a store that seems to take no time, where nothing was measured.
it("has no time without a commit", () => {
  expect(commitTimes(store)).toBe("no commit since the start");
  expect(commitTimes({ ...store, commitP50Ns: null, commitP99Ns: null })).toBe("no commit since the start");
});

it("counts what the last backup does not hold", () => {
  expect(unsaved({ ...store, backupRevision: 7 })).toBe(", with every commit");
  expect(unsaved({ ...store, backupRevision: 6 })).toBe(", 1 commit behind");
});
