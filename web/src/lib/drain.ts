// SPDX-License-Identifier: Apache-2.0
// What a drain is called, the command that does the same, and which drain has taken something out of service.
import type { Drain } from "../api/types";

export type Target = { link: string } | { node: string };

export const targetName = (target: Target): string => ("link" in target ? target.link : target.node);

/** A name as a DNS-1123 label, of a link by its first end, as canopyctl makes it: an interface may have capitals and dots. */
export function label(name: string): string {
  const [first = ""] = name.split("--");
  return first.toLowerCase().replace(/[^a-z0-9]/g, "-");
}

export const drainName = (target: Target): string => label(targetName(target));

/** A word for a shell. */
export const quoted = (word: string): string => (/^[A-Za-z0-9_./:=-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

export function drainCommand(target: Target, reason: string, acceptLoss: boolean, time = ""): string {
  const kind = "link" in target ? "link" : "node";
  return `canopyctl drain ${kind} ${quoted(targetName(target))} --reason ${quoted(reason || "REASON")}${acceptLoss ? " --accept-loss" : ""}${time && ` --for ${time}`}`;
}

/** The drain of this link or node itself; a link that is out of service with its node has none of its own. */
export const drainOf = (drains: readonly Drain[], target: Target): Drain | undefined =>
  drains.find(({ spec, status }) => ("node" in target ? spec.node === target.node : Boolean(spec.link) && status.links.includes(target.link)));

/** The drained nodes with which a link is out of service. */
export const nodesDrained = (drains: readonly Drain[], link: string): string[] => drains.flatMap(({ spec, status }) => (spec.node && status.links.includes(link) ? [spec.node] : []));
