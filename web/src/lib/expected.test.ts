// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { CaptureFrame, ExpectedHop } from "../api/types";
import { elsewhere, expectedOctets, isOfPacket, label, wanted } from "./expected";
import { capturedScapy, expectedScapy } from "./scapy";

const field = (name: string, at: number, octets: string, value: string, why = "") => ({ field: name, at, octets, value, why });
const plain: ExpectedHop = {
  node: "n2", direction: "out", port: "eth2", peer: "r1",
  fields: [field("trafficClass", 14, "6...", "from the packet"), field("nextHeader", 20, "11", "17"), field("source", 22, "20", "2001:db8::1"), field("destination", 38, "20", "2001:db8::2", "End.MT"), field("udpDestinationPort", 56, "12b7", "4791"), field("destQp", 67, "000012", "0x000012", "End.MT"), field("psn", 71, "......", "from the packet")],
};

// Catches an octet that is not known and is shown as a zero, and marks at the wrong place.
it("has the octets of the frame, with dots for what the packet decides", () => {
  const octets = expectedOctets(plain);
  expect(octets.slice(0, 17).map(({ text }) => text).join(" ")).toBe(".. .. .. .. .. .. .. .. .. .. .. .. 86 dd 6. .. 11");
  expect(octets.filter(({ isMarked }) => isMarked).map(({ text }) => text)).toEqual(["20", "00", "00", "12"]);
  expect(octets.at(-1)).toEqual({ text: "..", isMarked: false, field: "PSN" });
  expect(plain.fields.map(isOfPacket)).toEqual([true, false, false, false, false, false, true]);
  expect([label("destQp"), label("later")]).toEqual(["DestQP", "later"]);
});

// Catches a difference that is shown at another field, and one that is shown nowhere.
it("a difference is at the field that has its octets", () => {
  const differences = [{ field: "destQp", at: 67, expected: "0x000012" }, { field: "outer", at: 14, expected: "no outer header" }];
  const fields = [{ name: "OpCode", at: 62, octets: 5, value: "" }, { name: "DestQP", at: 67, octets: 3, value: "" }];
  expect(fields.map((one) => wanted(one, differences))).toEqual([[], ["expected DestQP: 0x000012"]]);
  expect(elsewhere(fields, differences)).toEqual([differences[1]]);
});

it("is a line for scapy", () => {
  const imports = "from scapy.all import *; from scapy.contrib.roce import BTH\n";
  const inner = 'IPv6(src="2001:db8::1", dst="2001:db8::2", nh=17) / UDP(dport=4791) / BTH(dqpn=18)';
  expect(expectedScapy(plain)).toBe(`${imports}Ether() / ${inner}`);
  const outer = [field("outerFlowLabel", 16, "0005", "0x00005"), field("outerNextHeader", 20, "2b", "43"), field("outerHopLimit", 21, "40", "64"), field("outerSource", 22, "fc", "fcff::1"), field("outerDestination", 38, "fc", "5f00::2"), field("srh", 54, "2901..", "")];
  expect(expectedScapy({ ...plain, fields: [...outer, ...plain.fields] })).toBe(
    `${imports}Ether() / IPv6(src="fcff::1", dst="5f00::2", nh=43, hlim=64, fl=0x00005) / Raw(bytes.fromhex("290100")) / ${inner}`,
  );
  expect(capturedScapy({ head: "aabbcc", inner: "ccdd", innerAt: 2 } as CaptureFrame)).toBe(`${imports}Ether(bytes.fromhex("aabbccdd"))`);
  expect(capturedScapy({ head: "aabb", inner: "ccdd", innerAt: 9 } as CaptureFrame)).toBe(`${imports}Ether(bytes.fromhex("aabb"))`);
});
