// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { DomainStatus, Problem } from "../api/types";
import { own } from "./metrics";
import { check, doubts } from "./trust";

const status = (more: Partial<DomainStatus> = {}) => ({ nodes: 6, connectedNodes: 6, syncedNodes: 6, leftOut: 0, ...more }) as DomainStatus;
const WELL = ["[+] commands: executed", "[+] store: revision 16"];

it("a check has its state, name and detail", () => {
  expect(check("[+] store: revision 16, a: b")).toEqual({ state: "ok", name: "store", detail: "revision 16, a: b" });
  expect(["[!] lost: 3 commits", "[-] store: no answer", "unknown"].map((line) => check(line).state)).toEqual(["degraded", "failed", "failed"]);
});

// Catches a page that trusts while it knows nothing, and one that doubts without a reason.
it("nothing is a reason against what is complete", () => {
  const known = { readiness: WELL, status: status(), problems: [{ object: { kind: "node", name: "n1" } } as Problem], own: own("canopy_charts_series 4\n"), isLive: true };
  expect(doubts(known)).toEqual([]);
  for (const part of ["readiness", "status", "own"]) expect(doubts({ ...known, [part]: undefined })).toBeNull();
  expect(doubts({ ...known, own: null })?.map(({ state }) => state)).toEqual(["pending"]);
});

// Catches each counter that is not read, and an order that hides the worst.
it("everything that is missing is named, the worst first", () => {
  const text = "canopy_intent_unconfirmed_changes 1\ncanopy_controller_series_left_out 7\ncanopy_charts_samples_left_out_total 9\n";
  const problem = { severity: "critical", object: { kind: "controller", name: "" }, title: "takes no changes" } as Problem;
  const found = doubts({ readiness: [...WELL, "[!] lost: 3 commits"], status: status({ connectedNodes: 5, syncedNodes: 3, leftOut: 2 }), problems: [problem], own: own(text), isLive: false });
  expect(found?.map(({ state, text: what }) => `${state} ${what}`)).toEqual([
    "failed this browser receives no changes: what it shows is of before",
    "failed controller takes no changes",
    "degraded lost: 3 commits",
    "degraded 1 agent of 6 not connected: what is shown of its node is old",
    "degraded 2 symptoms not kept: there were too many problems",
    "pending 2 connected nodes without exactly the desired state",
    "pending 1 change not confirmed by every node that it concerns",
    "pending 7 series left out of the last scrape of metrics",
    "pending 9 samples not charted: no room in 268 MB",
  ]);
});
