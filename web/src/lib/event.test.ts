// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Event } from "../api/types";
import { about, during, isOf, joined, KINDS, passing } from "./event";

const event = (sequence: number, detail: string, of: Partial<Event> = {}): Event => ({ sequence, timeUnixNs: sequence * 1e9, code: "X", detail, ...of });
const OPENED = "link n1/eth1--n2/eth1 loses packets although its carrier is up: port n1/eth1 lost 12 of 1000 (LinkLossy, problem 00000000009a3f00)";

// Catches words of a sentence that are taken for names, and names that are cut.
it("finds the links, hosts and the problem that the text of an event names", () => {
  expect(about({ detail: OPENED })).toEqual({ links: ["n1/eth1--n2/eth1"], hosts: [], problem: "00000000009a3f00" });
  expect(about({ detail: "port n1/eth1.3 is above K_max: 200 kB (LinkCongested, problem 00000000009a3f01)" })).toEqual({ links: ["n1/eth1.3"], hosts: [], problem: "00000000009a3f01" });
  expect(about({ node: "n1", detail: "eth1, eth4 is avoided by trees and routes where another path exists: no carrier" }).links).toEqual(["n1/eth1", "n1/eth4"]);
  expect(about({ node: "n1", detail: "eth1 has been whole for 5 s and is back in service" }).links).toEqual(["n1/eth1"]);
  expect(about({ detail: "receiver r3 of group demo acknowledges nothing: no data" }).hosts).toEqual(["r3"]);
  expect(about({ node: "n1", detail: "the node's agent connected" })).toEqual({ links: [], hosts: [], problem: undefined });
  expect(about({ detail: "Programming: waiting for the receiver to confirm and 3/4 of a host" })).toEqual({ links: [], hosts: [], problem: undefined });
});

it("has every event in a kind, and in those of all that it names", () => {
  const kinds = (of: Event) => KINDS.filter((kind) => isOf(of, kind));
  expect(kinds(event(1, "alice has confirmed commit 7"))).toEqual(["domain"]);
  expect(kinds(event(1, OPENED))).toEqual(["link"]);
  expect(kinds(event(1, "receiver r3 of group demo acknowledges nothing", { group: "demo", node: "n1" }))).toEqual(["group", "node", "host"]);
});

it("filters by everything that is chosen", () => {
  const events = [event(1, "a", { node: "n1", code: "A" }), event(2, OPENED), event(3, "Carrier", { node: "n2", group: "g" })];
  const found = (filter: Parameters<typeof passing>[1]) => passing(events, filter).map(({ sequence }) => sequence);
  expect([found({}), found({ q: "CARRIER" }), found({ q: "carrier", kind: "group" }), found({ code: "A" }), found({ node: "n2" }), found({ node: "n2", group: "h" })]).toEqual([[1, 2, 3], [2, 3], [3], [1], [3], []]);
});

it("has the events from the beginning of a range to before its end", () => {
  const events = [1, 2, 3, 4].map((sequence) => event(sequence, ""));
  expect(during(events, { from: 2, to: 4 }).map(({ sequence }) => sequence)).toEqual([2, 3]);
  expect(during(events, {})).toBe(events);
});

// Catches a hole between what was read on and what is streamed, and a list that is another one although nothing came.
it("keeps what the list that is followed has forgotten", () => {
  const [one, two, three, four] = [1, 2, 3, 4].map((sequence) => event(sequence, "")) as [Event, Event, Event, Event];
  const held = [one, two];
  expect(joined(held, [two, three, four])).toEqual([one, two, three, four]);
  expect(joined(held, [one, two])).toBe(held);
});
