// SPDX-License-Identifier: Apache-2.0
// A packet as the programs of the nodes have it: names of its fields, its octets at a place, and what a captured frame has otherwise.
import type { CaptureDifference, ExpectedField, ExpectedHop } from "../api/types";
import type { Octet } from "./octets";
import type { Field } from "./packet";

const ETHERNET = 14;

const LABELS: Readonly<Record<string, string>> = {
  outerTrafficClass: "Outer Traffic Class",
  outerFlowLabel: "Outer Flow Label",
  outerPayloadLength: "Outer Payload Length",
  outerNextHeader: "Outer Next Header",
  outerHopLimit: "Outer Hop Limit",
  outerSource: "Outer Source Address",
  outerDestination: "Outer Destination Address",
  srh: "SRH",
  trafficClass: "Traffic Class",
  flowLabel: "Flow Label",
  payloadLength: "Payload Length",
  nextHeader: "Next Header",
  hopLimit: "Hop Limit",
  source: "Source Address",
  destination: "Destination Address",
  udpSourcePort: "UDP source port",
  udpDestinationPort: "UDP destination port",
  udpLength: "UDP length",
  udpChecksum: "UDP checksum",
  opcode: "OpCode",
  bthFlags: "SE, M, Pad, TVer",
  pKey: "P_Key",
  bthReserved: "FECN, BECN",
  destQp: "DestQP",
  ackRequest: "AckReq",
  psn: "PSN",
};

/** A field's name for people; of a later controller, as it sends it. */
export const label = (field: string): string => LABELS[field] ?? field;

/** Whether the packet decides all of it. */
export const isOfPacket = ({ octets }: ExpectedField): boolean => /^6?\.+$/.test(octets);

/** The octets of a place, with dots for what the packet and its next hop decide; those that changed are marked. */
export function expectedOctets({ fields }: ExpectedHop): Octet[] {
  const ethernet = [...Array<string>(ETHERNET - 2).fill(".."), "86", "dd"].map((text): Octet => ({ text, isMarked: false, field: "Ethernet" }));
  const of = (field: ExpectedField) => (field.octets.match(/../g) ?? []).map((text): Octet => ({ text, isMarked: field.why !== "", field: label(field.field) }));
  return [...ethernet, ...fields.flatMap(of)];
}

/** What a field of a captured frame should have been. */
export const wanted = (field: Field, differences: readonly CaptureDifference[]): string[] =>
  differences.filter(({ at }) => at >= field.at && at < field.at + field.octets).map(({ field: name, expected }) => `expected ${label(name)}: ${expected}`);

/** Differences that are in none of these fields: of headers as a whole. */
export const elsewhere = (fields: readonly Field[], differences: readonly CaptureDifference[]): CaptureDifference[] =>
  differences.filter((one) => one.field === "outer" || !fields.some((field) => wanted(field, [one]).length > 0));
