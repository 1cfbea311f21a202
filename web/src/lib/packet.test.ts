// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { CaptureFrame, CaptureHop } from "../api/types";
import { fields, ipv6, names, octets, place, reasons, receivers, way } from "./packet";

const hop = (node: string, direction: "in" | "out", port: string, peer: string): CaptureHop => ({ node, direction, port, peer });

// n6 sends to n4 and n5; r1 and r2 are behind n1, which is behind n4.
const HOPS = [
  hop("n6", "in", "eth1", "s1"),
  hop("n6", "out", "eth2", "n4"),
  hop("n6", "out", "eth3", "n5"),
  hop("n4", "in", "eth1", "n6"),
  hop("n4", "out", "eth2", "n1"),
  hop("n1", "in", "eth1", "n4"),
  hop("n1", "out", "eth2", "r1"),
  hop("n1", "out", "eth3", "r2"),
  hop("n5", "in", "eth1", "n6"),
  hop("n5", "out", "eth2", "r3"),
];

it("follows the copies of one receiver", () => {
  expect(receivers(HOPS)).toEqual(["r1", "r2", "r3"]);
  expect(way(HOPS, "r2").map(place)).toEqual(["n6/eth1 in", "n6/eth2 out", "n4/eth1 in", "n4/eth2 out", "n1/eth1 in", "n1/eth3 out"]);
  expect(way(HOPS, "r3").map(place)).toEqual(["n6/eth1 in", "n6/eth3 out", "n5/eth1 in", "n5/eth2 out"]);
  expect(way(HOPS, "r9")).toEqual([]);
  // A circle, which no tree has, ends.
  const circle = [hop("a", "in", "1", "b"), hop("a", "out", "2", "b"), hop("b", "in", "1", "a"), hop("b", "out", "2", "a")];
  expect(way(circle, "a").length).toBeLessThanOrEqual(2 * circle.length);
});

it("writes addresses as RFC 5952 does", () => {
  const of = (text: string) => ipv6(octets(text.replaceAll(":", "")));
  expect(of("2001:0db8:0000:0000:0000:0000:0000:0001")).toBe("2001:db8::1");
  expect(of("0000:0000:0000:0000:0000:0000:0000:0000")).toBe("::");
  expect(of("fe80:0000:0001:0000:0000:0001:0000:0000")).toBe("fe80:0:1::1:0:0");
  expect(of("0001:0000:0003:0004:0005:0006:0007:0008")).toBe("1:0:3:4:5:6:7:8");
});

const ADDRESSES = "20010db8000100000000000000000001" + "20010db8000200000000000000000002";
const INNER = "60200007" + "0028113f" + ADDRESSES + "c00012b700280000" + "0400ffff00" + "000012" + "80001267";
const ETHERNET = "020000000001020000000002" + "86dd";

function frame(head: string, inner: string, innerAt: number, outer: boolean): CaptureFrame {
  const some = { source: "::", destination: "::", hopLimit: 0, trafficClass: 0, segmentsLeft: 1 };
  const none = { timeUnixNs: 0, lengthBytes: 0, source: "::", destination: "::", hopLimit: 0, trafficClass: 0, opcode: 4, destQp: 18, psn: 4711 };
  return { ...none, head, inner, innerAt, outer: outer ? some : null, changes: [], unexpected: [] };
}

it("reads the fields of a plain frame with their places", () => {
  const found = fields(frame(ETHERNET + INNER, INNER, 14, false));
  const value = (name: string) => found.find((field) => field.name === name)?.value;
  expect(value("Link-layer addresses")).toBe("02:00:00:00:00:02 to 02:00:00:00:00:01");
  expect(value("Traffic Class, Flow Label")).toBe("0x02, 0x00007");
  expect([value("Source Address"), value("Destination Address")]).toEqual(["2001:db8:1::1", "2001:db8:2::2"]);
  expect([value("UDP ports"), value("OpCode"), value("DestQP"), value("PSN")]).toEqual(["49152 to 4791", "0x04", "0x000012", "4711"]);
  const psn = found.find((field) => field.name === "PSN");
  expect([psn?.at, psn?.octets]).toEqual([14 + 40 + 8 + 9, 3]);
});

it("has the innermost headers also where the first octets end within the SRH", () => {
  const outer = "60000000" + "00c82b40" + ADDRESSES;
  const srh = "111804010000" + "0000" + "ab".repeat(400);
  const long = frame((ETHERNET + outer + srh).slice(0, 384), INNER, 14 + 40 + 208, true);
  const found = fields(long);
  const value = (name: string) => found.find((field) => field.name === name)?.value;
  expect([value("Outer Hop Limit"), value("SRH Segments Left"), value("SRH segments and TLVs"), value("PSN")]).toEqual(["64", "1", "130 octets", "4711"]);
  const plain = fields(frame(ETHERNET + INNER, INNER, 14, false));
  const all = names([plain, found]);
  expect(all.indexOf("Outer Hop Limit")).toBeLessThan(all.indexOf("Source Address"));
  expect(new Set(all).size).toBe(all.length);
});

it("gives a field the reasons of the octets that it has", () => {
  const field = { name: "DestQP", at: 67, octets: 3, value: "" };
  const change = (at: number, after: string, why: string) => ({ field: "x", at, before: "", after, why });
  expect(reasons(field, [change(67, "000012", "End.MT"), change(70, "00", "behind"), change(66, "00", "before"), change(69, "", "gone")])).toEqual(["End.MT", "gone"]);
});
