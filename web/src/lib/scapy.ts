// SPDX-License-Identifier: Apache-2.0
// Packets as lines of Python for scapy.
import type { CaptureFrame, ExpectedHop } from "../api/types";

const IMPORTS = "from scapy.all import *; from scapy.contrib.roce import BTH\n";

/** A captured frame, octet by octet. */
export function capturedScapy(frame: CaptureFrame): string {
  const end = frame.head.length / 2;
  // Behind a long SRH the innermost headers are not in the first octets; what is between them is not known.
  const whole = frame.innerAt <= end ? frame.head.slice(0, 2 * frame.innerAt) + frame.inner : frame.head;
  return `${IMPORTS}Ether(bytes.fromhex("${whole}"))`;
}

/** The packet of a place from its expected fields; what the packet decides is scapy's default, an HMAC zero. */
export function expectedScapy({ fields }: ExpectedHop): string {
  const find = (name: string) => fields.find((field) => field.field === name);
  const known = (name: string): string | undefined => {
    const octets = find(name)?.octets;
    return octets === undefined || octets.includes(".") ? undefined : octets;
  };
  const number = (name: string, as: string) => (known(name) === undefined ? [] : [`${as}=${Number.parseInt(known(name) ?? "", 16)}`]);
  const text = (name: string, as: string) => (known(name) === undefined ? [] : [`${as}="${find(name)?.value}"`]);
  const layers = ["Ether()"];
  const srh = find("srh");
  if (srh) {
    const flow = find("outerFlowLabel");
    layers.push(
      `IPv6(${[...text("outerSource", "src"), ...text("outerDestination", "dst"), ...number("outerNextHeader", "nh"), ...number("outerHopLimit", "hlim"), ...(flow ? [`fl=${flow.value}`] : [])].join(", ")})`,
      `Raw(bytes.fromhex("${srh.octets.replaceAll(".", "0")}"))`,
    );
  }
  layers.push(`IPv6(${[...text("source", "src"), ...text("destination", "dst"), ...number("nextHeader", "nh")].join(", ")})`);
  layers.push(`UDP(${number("udpDestinationPort", "dport").join(", ")})`, `BTH(${number("destQp", "dqpn").join(", ")})`);
  return IMPORTS + layers.join(" / ");
}
