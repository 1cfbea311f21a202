// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Link, QueueState, TreeNode } from "../api/types";
import { busyPorts, directions, firstOver, overThreshold, portsTo } from "./treeLinks";

const node = (name: string, parent: string | null, branches: [string, "node" | "receiver", string][]): TreeNode => ({
  node: name,
  parent,
  roles: ["transit"],
  sid: "::",
  upstreamPort: "eth1",
  branches: branches.map(([to, kind, port]) => ({ name: to, kind, address: `fc::${to}`, port, qpn: null })),
});
const tree = [node("n6", null, [["n4", "node", "eth2"], ["n5", "node", "eth3"]]), node("n4", "n6", [["r1", "receiver", "eth2"]]), node("n5", "n6", [["r2", "receiver", "eth2"], ["r3", "receiver", "eth4"]])];

// Catches ports of another branch, and the receiver's own port that is left out.
it("has the ports from the headend to a receiver", () => {
  expect(portsTo(tree, "n5", "fc::r3")).toEqual(["n6/eth3", "n5/eth4"]);
  expect(portsTo(tree, "n4", "fc::r1")).toEqual(["n6/eth2", "n4/eth2"]);
  expect(portsTo(tree, "n9", "fc::r1")).toEqual([]);
  // Nodes that name each other do not keep the page busy for ever.
  expect(portsTo([node("a", "b", [["b", "node", "e1"]]), node("b", "a", [["a", "node", "e1"]])], "a", "x").length).toBeLessThan(4);
});

const link = (name: string, state: QueueState) => ({ metadata: { name }, status: { congestion: { state } } }) as unknown as Link;

// Catches a port that only marked earlier, and one over K_min that hides one over K_max.
it("names the port that is above a threshold, K_max first", () => {
  const over = overThreshold([link("n6/eth3", "AboveKMin"), link("n5/eth4", "AboveKMax"), link("n4/eth2", "Marked"), link("n6/eth2", "Quiet")]);
  expect([...over]).toEqual([["n6/eth3", "K_min"], ["n5/eth4", "K_max"]]);
  expect(firstOver(portsTo(tree, "n5", "fc::r3"), over)).toBe("port n5/eth4 over K_max");
  expect(firstOver(portsTo(tree, "n5", "fc::r2"), over)).toBe("port n6/eth3 over K_min");
  expect(firstOver(portsTo(tree, "n4", "fc::r1"), over)).toBe("");
});

// Catches congestion of ports that the tree does not use, and one of a port towards the source that is left out.
it("has the congested ports that the tree sends through, the worst first", () => {
  expect([...directions(tree)]).toEqual([["n6/eth1", "feedback"], ["n4/eth1", "feedback"], ["n5/eth1", "feedback"], ["n6/eth2", "data"], ["n6/eth3", "data"], ["n4/eth2", "data"], ["n5/eth2", "data"], ["n5/eth4", "data"]]);
  const links = [link("n4/eth2", "Marked"), link("n6/eth2", "Quiet"), link("n5/eth2", "Unknown"), link("n5/eth1", "AboveKMin"), link("n9/eth1", "AboveKMax"), link("n5/eth4", "AboveKMax"), link("n6/eth3", "AboveKMin")];
  expect(busyPorts(tree, links).map(({ link: { metadata }, carries, state, word }) => [metadata.name, carries, state, word])).toEqual([
    ["n5/eth4", "data", "failed", "over K_max"],
    ["n5/eth1", "feedback", "degraded", "over K_min"],
    ["n6/eth3", "data", "degraded", "over K_min"],
    ["n4/eth2", "data", "pending", "marked"],
  ]);
});
