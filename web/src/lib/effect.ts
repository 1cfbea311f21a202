// SPDX-License-Identifier: Apache-2.0
// What a write would do to a node, a group or paths, in the words of `canopyctl diff` and `canopyctl drain --dry-run`.
import type { Effect } from "../api/types";
import { count } from "./format";

export function effectSentence(effect: Effect): string {
  const { name, from = "", to = "", lossless } = effect;
  const loss = lossless ? "no packet is lost" : "packets are lost until it has moved";
  switch (effect.type) {
    case "nodeAdded":
      return `node ${name} is added`;
    case "nodeChanged":
      return `node ${name}: ports, addresses or routes`;
    case "nodeRemoved":
      return `node ${name} is removed`;
    case "treeStarts":
      return `group ${name}: its tree starts over ${to}`;
    case "treeMoves":
      if (!from) return `group ${name}: its tree grows over ${to}`;
      if (!to) return `group ${name}: its tree leaves ${from}`;
      return `group ${name}: its tree moves from ${from} to ${to}; ${loss}`;
    case "treeStays":
      return `group ${name}: its tree stays on ${to}: there is no other way`;
    case "treeStops":
      return `group ${name}: its tree stops, and its receivers get no data: ${to}`;
    case "groupDeleted":
      return `group ${name}: deleted with ${from}`;
    case "pathsMore":
    case "pathsFewer":
      return `paths of ${pairs(effect)}: ${to} in service, before: ${from}${effect.type === "pathsFewer" && !lossless ? "; packets are lost until sources have moved" : ""}`;
    case "pathsStay":
      return `paths of ${pairs(effect)}: none in service; packets stay on drained ones for want of others`;
    case "pathsStop":
      return `paths of ${pairs(effect)}: none is left, and packets are lost`;
    case "pathsNotCounted":
      return `paths of ${pairs(effect)}: not counted, as that would take too long`;
    default:
      // Of a later controller.
      return `${effect.object} ${name}: ${effect.type}`;
  }
}

// Which pairs of edges: one, those of one edge, or more.
function pairs({ name, pairs }: Effect): string {
  const many = pairs ?? 1;
  if (!name) return `${count(many)} pairs of edges`;
  if (many === 1) return name;
  return name.includes(" - ") ? `${count(many)} pairs of edges, such as ${name}` : `${name} and ${count(many)} edges`;
}
