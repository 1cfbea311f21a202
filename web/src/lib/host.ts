// SPDX-License-Identifier: Apache-2.0
// Which hosts need someone, and what was counted.
import type { Host, HostPort, PortState } from "../api/types";
import { count, counted } from "./format";
import { wordsOf } from "./order";
import { PORT_ORDER } from "./state";

/** Whether its applications can neither join nor leave: the agent that they reach is not connected. */
export const isAway = (h: Host): boolean => h.status.agent === "NotConnected";

/** All its links with the states of their ports; the first one carries the packets of groups. */
export function linksOf({ spec: { node, port }, status }: Host): readonly HostPort[] {
  const { links, port: state, reason } = status;
  return links?.length ? links : [{ node, port, state, reason }];
}

/** Of the ports to it. */
export const worstPort = (h: Host): PortState => PORT_ORDER.find((state) => linksOf(h).some((link) => link.state === state)) ?? "Unknown";

/** Those with a port that needs someone: "port down: h4". */
function ports(all: readonly Host[]): string {
  return wordsOf(PORT_ORDER.filter((port) => port !== "Up").flatMap((port) => all.filter((h) => worstPort(h) === port).map((h) => [`port ${port.toLowerCase()}`, h.metadata.name] as const)));
}

/** Those whose agent needs someone: "agent not connected: h1, h3". */
const agents = (all: readonly Host[]): string => wordsOf(all.filter(isAway).map((h) => ["agent not connected", h.metadata.name] as const));

const joined = (...parts: string[]): string => parts.filter(Boolean).join("; ");

/** Of all hosts: "port down: h4; agent not connected: h1, h3", empty if none needs someone. */
export const needs = (all: readonly Host[]): string => joined(ports(all), agents(all));

/** Of many hosts: the controller has found those whose port is not up, the first ones if `more`; agents are known of the hosts that were read. */
export function needsOfMany(notUp: readonly Host[], more: boolean, read: readonly Host[]): string {
  const found = `${more ? `of the first ${counted(notUp.length, "host")} whose port is not up, ` : ""}${ports(notUp) || "every port is up"}`;
  return joined(found, `of the ${count(read.length)} read, ${agents(read) || "no agent is away"}`);
}
