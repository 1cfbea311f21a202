// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import type { Effect } from "../api/types";
import { effectSentence } from "./effect";

const of = (type: string, from = "", to = "", lossless = true) => effectSentence({ type, object: "Group", name: "g", from, to, lossless } as Effect);

// Catches a move with a gap that is shown as one without loss, and a sentence with an empty place.
it("has what happens, and whether packets are lost", () => {
  expect(of("treeMoves", "n4/eth1", "n4/eth2")).toBe("group g: its tree moves from n4/eth1 to n4/eth2; no packet is lost");
  expect(of("treeMoves", "n4/eth1", "n4/eth2", false)).toBe("group g: its tree moves from n4/eth1 to n4/eth2; packets are lost until it has moved");
  expect(of("treeMoves", "", "n4/eth2")).toBe("group g: its tree grows over n4/eth2");
  expect(of("treeMoves", "n4/eth1")).toBe("group g: its tree leaves n4/eth1");
  expect(of("treeStays", "", "n4/eth1")).toBe("group g: its tree stays on n4/eth1: there is no other way");
  expect(of("treeStops", "", "no way")).toBe("group g: its tree stops, and its receivers get no data: no way");
  const paths = (type: string, name: string, pairs: number, from = "4", to = "3") => effectSentence({ type, object: "Pairs", name, from, to, pairs, lossless: true } as Effect);
  expect(paths("pathsFewer", "leaf1 - leaf2", 1)).toBe("paths of leaf1 - leaf2: 3 in service, before: 4");
  expect(effectSentence({ type: "pathsFewer", object: "Pairs", name: "leaf1 - leaf2", from: "4", to: "3", pairs: 1, lossless: false })).toBe(
    "paths of leaf1 - leaf2: 3 in service, before: 4; packets are lost until sources have moved",
  );
  expect(paths("pathsMore", "leaf9", 31)).toBe("paths of leaf9 and 31 edges: 3 in service, before: 4");
  expect(paths("pathsStay", "leaf1 - leaf2", 1496)).toBe("paths of 1\u202f496 pairs of edges, such as leaf1 - leaf2: none in service; packets stay on drained ones for want of others");
  expect(paths("pathsStop", "leaf9", 31)).toBe("paths of leaf9 and 31 edges: none is left, and packets are lost");
  expect(paths("pathsNotCounted", "", 7, "", "")).toBe("paths of 7 pairs of edges: not counted, as that would take too long");
  expect(of("later")).toBe("Group g: later");
});
