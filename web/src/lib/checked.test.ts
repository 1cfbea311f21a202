// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Group, Link } from "../api/types";
import { progress, reports } from "./checked";

const link = (name: string, reportedAgoNs?: number) => ({ metadata: { name }, status: { congestion: reportedAgoNs === undefined ? null : { reportedAgoNs } } }) as unknown as Link;
const group = (state?: string) => ({ status: { delivery: state ? { state } : null } }) as unknown as Group;

// Catches an agent that is late because one of its ports is, an age that is too low, and agents without a report that count as fresh.
it("has how old the newest report of each agent is, at most", () => {
  const all = [link("n1/eth1", 4e8), link("n1/eth2", 60e9), link("n2/eth1", 1.9e9), link("n3/eth1")];
  expect(reports(all)).toEqual({ fresh: "2 agents reported their ports less than 2 s ago", late: "" });
  expect(reports([link("n1/eth1", 2e9)])).toEqual({ fresh: "1 agent reported its ports less than 3 s ago", late: "" });
  expect(reports([link("n3/eth1")])).toEqual({ fresh: "", late: "" });
});

it("names agents that are late, the latest first, and counts them where they are many", () => {
  expect(reports([link("n1/eth1", 1e9), link("n5/eth1", 12e9), link("n2/eth1", 70e9)])).toEqual({ fresh: "1 agent reported its ports less than 2 s ago", late: "n2 1 min ago, n5 12 s ago" });
  expect(reports([link("n1/eth1", 5e9)]).late).toBe("");
  const many = Array.from({ length: 5 }, (_, at) => link(`n${at}/eth1`, 1e10 - at * 1e9));
  expect(reports(many)).toEqual({ fresh: "", late: "n0 10 s ago, n1 9 s ago, n2 8 s ago, 2 more" });
});

it("counts groups in which data progresses apart from the others", () => {
  expect(progress([])).toBe("");
  expect(progress([group("Flowing")])).toBe("1 group progressing");
  expect(progress([group("Idle"), group("Flowing"), group("Flowing"), group(), group("Stalled"), group("NoData"), group("Idle")])).toBe("2 groups progressing, 1 stalled, 2 idle, 1 without data, 1 not reported");
  expect(progress([group("Stalled")])).toBe("0 groups progressing, 1 stalled");
});
