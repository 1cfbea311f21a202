// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Host } from "../api/types";
import { linksOf, needs, needsOfMany, worstPort } from "./host";

const host = (name: string, port = "Up", agent = "OfNode") => ({ metadata: { name }, spec: { node: "leaf1", port: "eth3" }, status: { port, agent } }) as Host;

it("names those that need someone", () => {
  expect(needs([host("h1"), host("h10", "Down"), host("h2", "Down"), host("h3", "Up", "NotConnected")])).toBe("port down: h2, h10; agent not connected: h3");
  expect(needs([host("h1")])).toBe("");
});

// Catches a host that seems well because its first port is up.
it("has the worst of a host's ports", () => {
  const of = (...states: string[]) => ({ ...host("h1"), status: { port: states[0], agent: "OfNode", links: states.map((state, at) => ({ node: `leaf${at + 1}`, port: "eth3", state, reason: "" })) } }) as Host;
  expect([of("Up", "Up"), of("Up", "Unknown"), of("Up", "Unknown", "Down")].map(worstPort)).toEqual(["Up", "Unknown", "Down"]);
  expect(needs([of("Up", "Down")])).toBe("port down: h1");
  expect(linksOf(of("Up", "Down")).map((link) => link.node)).toEqual(["leaf1", "leaf2"]);
  expect(linksOf(host("h2", "Down")).map((link) => [link.node, link.port, link.state])).toEqual([["leaf1", "eth3", "Down"]]);
});

// Catches agents that seem connected because their hosts are not among those whose port is not up, or were not read.
it("names the hosts whose agents were counted", () => {
  const read = [host("h1", "Up", "NotConnected"), host("h2", "Down"), host("h3")];
  expect(needsOfMany([host("h2", "Down"), host("h9", "Down", "NotConnected")], false, read)).toBe("port down: h2, h9; of the 3 read, agent not connected: h1");
  expect(needsOfMany([host("h2", "Down")], true, [host("h1")])).toBe("of the first 1 host whose port is not up, port down: h2; of the 1 read, no agent is away");
  expect(needsOfMany([], false, [host("h1")])).toBe("every port is up; of the 1 read, no agent is away");
});
