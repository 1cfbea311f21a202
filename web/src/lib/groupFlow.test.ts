// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { GroupSample, TreeNode } from "../api/types";
import { GroupFlow } from "./groupFlow";

const tree: TreeNode[] = [
  { node: "n1", parent: null, roles: ["headend"], sid: "::", upstreamPort: "eth1", branches: [{ name: "n2", kind: "node", address: "n2", port: "eth2", qpn: null }] },
  { node: "n2", parent: "n1", roles: ["edge"], sid: "::", upstreamPort: "eth1", branches: ["r1", "r2"].map((name) => ({ name, kind: "receiver", address: name, port: "eth2", qpn: 17 })) },
];
const sample = (node: string, at: number, high: number, branches: [string, number, number][]): GroupSample =>
  ({ node, timeUnixNs: at * 1e9, high, branches: branches.map(([address, next, bytes]) => ({ address, next, bytes })) }) as unknown as GroupSample;
const at = (second: number) => [sample("n1", second, 100 * second, [["n2", 100 * second - 9, 1000 * second]]), sample("n2", second, 100 * second, [["r1", 100 * second, 1000 * second], ["r2", 100 * second - 9, 500 * second]])];

// Catches a strip that has the rate of one of its receivers, and lines that stay wide, with data that moves, after the samples have ended.
it("adds the rates of branches, and has none once their samples are old", () => {
  const flow = new GroupFlow(tree);
  expect(flow.receivers.map(({ host, edge }) => `${host} at ${edge}`)).toEqual(["r1 at n2", "r2 at n2"]);
  let calls = 0;
  const end = flow.subscribe(() => (calls += 1));
  flow.update(at(1), 1e9);
  expect(flow.rate(["r1"])).toBe(Number.NaN);
  flow.update(at(2), 2e9);
  expect([flow.rate(["n2"]), flow.rate(["r1", "r2"]), flow.rate(["r1", "other"]), flow.rate([])]).toEqual([8000, 12_000, 8000, Number.NaN]);
  expect(flow.path).toEqual(["n2", "r2"]);
  flow.update([], 6.9e9);
  expect(flow.rate(["r1", "r2"])).toBe(12_000);
  flow.update([], 7.1e9);
  expect(flow.rate(["r1", "r2"])).toBe(Number.NaN);
  // By when they came: the clock of a node may differ.
  flow.update(at(3), 1e12);
  expect(flow.rate(["n2"])).toBe(8000);
  end();
  flow.update([], 2e12);
  expect(calls).toBe(5);
});

// Catches NAKs and a congested port of another edge, and a sentence that keeps them after they have ended.
it("has what else is known of a receiver: the oldest packet, NAKs at its edge, a port over a threshold", () => {
  const flow = new GroupFlow(tree);
  const stuck = (second: number, naksIn: number) => [{ ...sample("n2", second, 100 * second, [["r1", 100 * second, 0], ["r2", 150, 0]]), naksIn }];
  flow.update(stuck(1, 0), 1e9);
  expect([flow.oldest(0), flow.oldest(1), flow.about(1)]).toEqual([null, null, ""]);
  flow.over = new Map([["n2/eth2", "K_min"], ["n9/eth2", "K_max"]]);
  flow.update(stuck(2, 4), 2e9);
  flow.update(stuck(4, 12), 4e9);
  expect(flow.about(1)).toBe(", the oldest for 2 s; NAKs 4 /s at n2; port n2/eth2 over K_min");
  flow.over = new Map();
  flow.update([], 10e9);
  expect(flow.about(1)).toBe(", the oldest for 2 s");
  expect(new GroupFlow(tree).oldest(1)).toBe(undefined);
});
